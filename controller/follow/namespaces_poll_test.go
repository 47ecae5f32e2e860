package follow

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// A listed namespace that Curfew may no longer read is unknown at the next round, and a live read of
// it is an error: its dry-run may have begun since (S6). Other failures keep what was read.
func TestPolledNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, api := stamped(t, namespace(map[string]string{wellknown.AnnotationMode: "enforce"}, nil))
		var mu sync.Mutex
		var refused error
		refuse := func(err error) { mu.Lock(); defer mu.Unlock(); refused = err }
		reader := interceptor.NewClient(api, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				mu.Lock()
				defer mu.Unlock()
				if refused != nil {
					return refused
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		poll := NewPoll([]string{"ci", "gone"}, reader, clock.RealClock{}, logr.Discard())
		changed := 0
		poll.OnChange(func(string) { changed++ })
		if poll.Synced() {
			t.Error("synced before the first round")
		}
		running(t, poll.Start)
		expect := func(when string, known, changes int) {
			t.Helper()
			time.Sleep(pollEvery + time.Millisecond) // in the bubble
			synctest.Wait()
			if got := len(poll.All()); got != known || changed != changes || !poll.Synced() {
				t.Errorf("%s: %d known, %d changes; want %d and %d", when, got, changed, known, changes)
			}
		}
		expect("at first", 1, 0)
		refuse(apierrors.NewInternalError(context.DeadlineExceeded))
		expect("the API server fails", 1, 0)
		refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "ci", nil))
		expect("its Role is gone", 0, 0)
		if got, err := poll.Namespace(t.Context(), "ci"); err == nil {
			t.Errorf("an unreadable namespace is judged as %v", got)
		}
		dry := seen(t, api)
		dry.Annotations[wellknown.AnnotationMode] = "dry-run"
		if err := api.Update(t.Context(), dry); err != nil {
			t.Fatal(err)
		}
		refuse(nil)
		expect("in dry-run, and its Role is back", 1, 1)
		if got, err := poll.Namespace(t.Context(), "ci"); err != nil || got.Mode != resolution.ModeDryRun {
			t.Errorf("%v, %v; want dry-run", got, err)
		}
	})
}

// Admission reads a namespace at each review: a default that was replaced since the last poll is
// filled in no more (S6). Without an answer there is none.
func TestFreshNamespaces(t *testing.T) {
	_, api := stamped(t, namespace(map[string]string{wellknown.AnnotationMode: "enforce"}, nil))
	poll := NewPoll([]string{"ci"}, api, clock.RealClock{}, logr.Discard())
	poll.look(t.Context(), "ci")
	changed := seen(t, api)
	changed.Annotations[wellknown.AnnotationMode] = "dry-run"
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	fresh := poll.Fresh()
	if got, err := fresh.Namespace(t.Context(), "ci"); err != nil || got.Mode != resolution.ModeDryRun {
		t.Errorf("%v, %v; want dry-run", got, err)
	}
	if err := api.Delete(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got, err := fresh.Namespace(t.Context(), "ci"); err == nil {
		t.Errorf("a Namespace that cannot be read is judged as %v", got)
	}
}
