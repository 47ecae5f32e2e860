package follow

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// failing is a source whose lists fail while there is an error.
type failing struct {
	*source
	err atomic.Pointer[error]
}

func (f *failing) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if err := f.err.Load(); err != nil {
		return nil, *err
	}
	return f.source.List(ctx, options)
}

// While a kind is not followed, objects are judged by what it said before: what changes meanwhile
// is noticed soon after the API server answers again, whatever it answered and for however long.
func TestMirrorFollowsAgainSoon(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		outage time.Duration
	}{
		"unreachable":                   {errors.New("connection refused"), time.Minute},
		"started, its roles not read":   {apierrors.NewForbidden(schema.GroupResource{Resource: "kindprofiles"}, "", nil), time.Second},
		"unreachable for a moment":      {errors.New("connection reset by peer"), time.Millisecond},
		"starting, storage not ready":   {apierrors.NewServiceUnavailable("not ready"), 20 * time.Second},
		"a proxy's 404":                 {apierrors.NewNotFound(schema.GroupResource{}, ""), time.Second},
		"overloaded, for half a minute": {apierrors.NewTooManyRequests("slow down", 1), 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				from := &failing{source: newSource()}
				mirror := NewMirror(from, func(object *unstructured.Unstructured) string { return object.GetName() }, clock.RealClock{}, logr.Discard())
				ended := make(chan struct{})
				known := &unstructured.Unstructured{}
				known.SetName("a")
				from.Put(known)
				go func() { mirror.Run(ctx); close(ended) }()
				synctest.Wait()

				from.err.Store(&test.err)
				from.EndWatches()
				time.Sleep(test.outage)
				if _, ok := mirror.Get("a"); !ok {
					t.Error("what was known is forgotten")
				}
				object := &unstructured.Unstructured{}
				object.SetName("b")
				from.Put(object)
				from.err.Store(nil)
				time.Sleep(5 * time.Second)
				if _, ok := mirror.Get("b"); !ok {
					t.Error("the change is not known 5s after the API server answers again")
				}
				cancel()
				<-ended
			})
		})
	}
}
