package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// That an object was not deleted is shown by a canary: an object of the same trigger that is due
// two seconds later. Whatever was due by then, and was tried again a second later, would have been
// deleted before the canary. All canaries share a namespace, whose annotations leave them alone.
const canaries = "e2e-canaries"

var makeCanaries = sync.OnceValue(func() error {
	ctx, end := harness.Waiting(context.Background(), "namespace "+canaries)
	defer end()
	return suite.cluster.NewNamespace(ctx, canaries, nil)
})

var canariesMade atomic.Int64

// canary is the space of the canaries, and a new name in it.
func (s *space) canary() (entry *space, name string) {
	s.Helper()
	s.ok(makeCanaries())
	shared := *s
	shared.name = canaries
	return &shared, fmt.Sprintf("canary-%d", canariesMade.Add(1))
}

// outlast returns when Curfew has deleted a Job by a TTL that ended two seconds after an instant.
func (s *space) outlast(t time.Time) {
	s.Helper()
	if present := time.Now(); present.After(t) {
		t = present
	}
	entry, name := s.canary()
	entry.finishJob(name, t.Truncate(second).Add(second), ttl(2*second))
	entry.awaitAbsent(jobs, name)
}

// outlastLabel returns when Curfew has deleted a ConfigMap by a TTL label that ended two seconds
// after an instant.
func (s *space) outlastLabel(t time.Time) {
	s.Helper()
	s.grantConfigMaps()
	entry, name := s.canary()
	entry.newConfigMap(name, wellknown.LabelTTL, lifetime.FormatDuration(life(t)))
	entry.awaitAbsent(configMaps, name)
}

// outlastDeadline returns when Curfew has failed a Run whose deadline was two seconds after an
// instant.
func (s *space) outlastDeadline(t time.Time) {
	s.Helper()
	s.newRuns()
	entry, name := s.canary()
	run := &unstructured.Unstructured{}
	run.SetGroupVersionKind(runResource.GroupVersion().WithKind("Run"))
	run.SetName(name)
	run.SetAnnotations(map[string]string{wellknown.AnnotationActiveDeadline: lifetime.FormatDuration(life(t))})
	client := entry.objects(runResource).Namespace(canaries)
	_, err := client.Create(s.ctx, run, metav1.CreateOptions{})
	s.ok(err)
	s.poll("the canary to fail", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		return len(conditions) > 0, nil
	})
}

// life is how long after its creation, which the API server cuts to a second, a canary ends.
func life(t time.Time) time.Duration {
	return (max(0, time.Until(t)) + 4*second - 1).Truncate(second)
}

// awaitAbsent waits until an object is gone, by live reads.
func (s *space) awaitAbsent(resource schema.GroupVersionResource, name string) {
	s.Helper()
	client := s.objects(resource).Namespace(s.name)
	s.poll(name+" to be gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// stillThere fails the test unless a live read shows an object, and it is not being deleted.
func (s *space) stillThere(object metav1.Object) {
	s.Helper()
	if event, ok := object.(harness.Event); ok {
		object = event.Object
	}
	kind, err := apiutil.GVKForObject(object.(runtime.Object), scheme.Scheme)
	s.ok(err)
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	live, err := s.objects(resource).Namespace(object.GetNamespace()).Get(s.ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (live.GetUID() != object.GetUID() || live.GetDeletionTimestamp() != nil) {
		s.Fatalf("WRONG DELETE: %s %s was deleted", kind.Kind, object.GetName())
	}
	s.ok(err)
}

// inTime runs a test that has to do some things before an instant. If the machine was too slow, it
// runs again with twice the time.
func inTime(t *testing.T, time time.Duration, try func(time.Duration) (ok bool)) {
	t.Helper()
	for ; !try(time); time *= 2 {
		t.Logf("note: this machine was too slow for %s", time)
		if time > harness.Patience {
			t.Fatal("the test says nothing, however much time it has")
		}
	}
}
