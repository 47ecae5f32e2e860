package feed

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// S3: each stream ends before its list is complete, while other clients write. After two such
// streams the list is read in pages, which does complete, and due objects are deleted.
func TestStreamsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for i := range 9 {
			w.put(finished("ci", fmt.Sprint("job-", i), fmt.Sprint("uid-", i), 60))
		}
		kind := w.kind()
		var streams atomic.Int32
		kind.Watch = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents == nil {
				return w.watch(ctx, options)
			}
			streams.Add(1)
			w.put(finished("ci", "written", "uid-written", -1))
			watcher := watch.NewRaceFreeFake()
			w.locked(func() { watcher.Add(w.objects["ci/written"].DeepCopy()) })
			watcher.Stop()
			return watcher, nil
		}
		feed, engine := startKind(t, w, none(), func() Kind { return kind }, nil)
		at(30 * time.Second)
		if !feed.Synced() || engine.Tracked() != 9 || streams.Load() != streamTries {
			t.Fatalf("after %d streams that were cut, %d Jobs of 9 are tracked", streams.Load(), engine.Tracked())
		}
		at(35 * time.Second)
		if left := w.count(); left != 1 {
			t.Errorf("%d Jobs are left, want the one without a TTL", left)
		}
		at(2 * pagedFor)
		if streams.Load() == streamTries {
			t.Error("lists are read in pages for ever")
		}
	})
}
