package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// renderDone is the status of a Render that ended at an instant.
func renderDone(t time.Time, failed bool) string {
	return fmt.Sprintf(`{done: true, doneAt: %q, failed: %t}`, format(t), failed)
}

// Objects of a kind with a user's KindProfile are deleted by the namespace's default, by their own
// annotation and by outcome, and not before they have finished. An object that was created again
// under the same name stays.
func TestTTLOfAKindWithAProfile(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "2s")...)
	r := render{"ttl.e2e.example.com"}
	suite.revoked.Store(r.group, true) // at the end, its role may be deleted before its definition
	s.apply(r.role())
	s.apply(r.definition())
	s.apply(r.profile())
	t.Cleanup(func() { s.afterwards("delete", "kindprofile", "renders."+r.group) })
	s.awaitRule(r.group)
	s.awaitDefault(r)
	c := s.ofKind("Render", r.resource(), false)

	filled := c.create("filled", `{}`)
	if ttl, _, _ := unstructured.NestedInt64(filled.Object, "spec", "keep-for"); ttl != 2 {
		t.Errorf("the default in its native field is %d, want 2", ttl)
	}
	annotated := c.create("annotated", `{}`, noted(wellknown.AnnotationTTL, "1s"))
	failed := c.create("failed", `{}`, byOutcome(lifetime.NeverText, "1s"))
	succeeded := c.create("succeeded", `{}`, byOutcome(lifetime.NeverText, "1s"))
	running := c.create("running", `{}`, noted(wellknown.AnnotationTTL, "0"))
	twin := c.create("twin", `{}`, noted(wellknown.AnnotationTTL, "2s"))

	// One is replaced before its TTL expires, by an unfinished object. The other is replaced while
	// its DELETE is under way, by a finished one.
	client := c.objects(c.resource).Namespace(c.name)
	var successor atomic.Pointer[unstructured.Unstructured]
	defer suite.proxy.BeforeDelete(c.name, "twin", func() {
		c.okInHook(client.Delete(c.ctx, "twin", metav1.DeleteOptions{}))
		created, err := c.try("twin", `{}`, noted(wellknown.AnnotationTTL, "1h"))
		c.okInHook(err)
		c.okInHook(c.tryStatus("twin", renderDone(now(), false)))
		successor.Store(created)
	})()
	var forgotten time.Time
	inTime(t, 4*second, func(left time.Duration) bool {
		c.create("replaced", `{}`, noted(wellknown.AnnotationTTL, "3s"))
		forgotten = now().Add(left)
		c.status("replaced", renderDone(forgotten.Add(-3*second), false))
		if err := client.Delete(s.ctx, "replaced", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			s.ok(err)
		}
		return time.Now().Before(forgotten)
	})
	replacement := c.create("replaced", `{}`, noted(wellknown.AnnotationTTL, "1s"))
	end := now()
	for _, object := range []*unstructured.Unstructured{twin, filled, annotated, failed, succeeded} {
		c.status(object.GetName(), renderDone(end, object == failed))
	}

	s.notEarly(s.awaitDeletion(annotated), end.Add(second))
	s.notEarly(s.awaitDeletion(failed), end.Add(second))
	s.notEarly(s.awaitDeletion(filled), end.Add(2*second))
	s.awaitGone(twin)
	s.outlast(forgotten)
	next := successor.Load()
	if next == nil {
		t.Fatal("no DELETE of the twin was sent")
	}
	if sent := suite.proxy.Deletes(s.name, "twin"); sent[0].Status != http.StatusConflict {
		t.Errorf("the DELETE of the first twin was answered %d, want a conflict", sent[0].Status)
	}
	for _, object := range []metav1.Object{succeeded, running, replacement, next} {
		s.stillThere(object)
	}
	end = now()
	c.status("running", renderDone(end, false))
	s.notEarly(s.awaitDeletion(running), end)
}

// Foreground: the garbage collector deletes the dependents first, and their owner waits for them
// behind its finalizer.
func TestForegroundDeletion(t *testing.T) {
	// Before the parallel tests start: the garbage collector looks for new kinds every 30 seconds
	// only.
	r := render{"foreground.e2e.example.com"}
	suite.revoked.Store(r.group, true)
	ctx, cancel := harness.Waiting(context.Background(), t.Name()+": its kind to be created")
	_, stderr, err := suite.cluster.KubectlInput(ctx, r.role()+"---\n"+r.definition(), "apply", "-f", "-")
	cancel()
	if err != nil {
		t.Fatal(err, stderr)
	}
	parallel(t)
	s := newSpace(t)
	s.apply(r.profile() + "  propagationPolicy: Foreground\n")
	t.Cleanup(func() { s.afterwards("delete", "kindprofile", "renders."+r.group) })
	s.awaitRule(r.group)
	c := s.ofKind("Render", r.resource(), false)
	s.follow("ConfigMap", configMaps)

	owner := c.create("owner", `{}`, noted(wellknown.AnnotationTTL, "1s"))
	dependent := func(name string, finalizers ...string) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMap"))
		object.SetName(name)
		object.SetFinalizers(finalizers)
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(),
			UID: owner.GetUID(), BlockOwnerDeletion: ptr.To(true)}})
		created, err := s.objects(configMaps).Namespace(s.name).Create(s.ctx, object, metav1.CreateOptions{})
		s.ok(err)
		return created
	}
	free, held := dependent("free"), dependent("held", foreignFinalizer)
	end := now()
	c.status("owner", renderDone(end, false))

	terminating := s.awaitDeletion(owner)
	s.notEarly(terminating, end.Add(second))
	if got := terminating.GetFinalizers(); terminating.Type == watch.Deleted || !slices.Contains(got, metav1.FinalizerDeleteDependents) {
		t.Fatalf("it was %s with the finalizers %v, want it to wait for its dependents", terminating.Type, got)
	}
	s.awaitGone(free)
	s.awaitDeletion(held)
	s.outlast(now())
	for _, event := range s.observer.History(owner.GetUID()) {
		if event.Type == watch.Deleted {
			t.Fatal("it was gone before its dependent")
		}
	}
	sent := suite.proxy.Deletes(s.name, "owner")
	if len(sent) != 1 || sent[0].Options.PropagationPolicy == nil || *sent[0].Options.PropagationPolicy != metav1.DeletePropagationForeground {
		t.Errorf("DELETEs of it: %+v, want one with Foreground", sent)
	}
	s.ok(s.patchConfigMap("held", `{"metadata":{"finalizers":null}}`))
	// The two watches may report in any order; a deleted object has the resourceVersion of its
	// deletion.
	if first, last := version64(t, s.awaitGone(held)), version64(t, s.awaitGone(owner)); first >= last {
		t.Errorf("the dependent was gone at version %d, its owner at %d", first, last)
	}
	for _, name := range []string{"free", "held"} {
		if sent := suite.proxy.Deletes(s.name, name); len(sent) > 0 {
			t.Errorf("the DELETEs %+v of %s were Curfew's, want the garbage collector's alone", sent, name)
		}
	}
}

func version64(t *testing.T, event harness.Event) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(event.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}
