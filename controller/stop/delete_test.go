package stop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// changePod changes the Pod that runs below the set, as another client would.
func (s *scene) changePod(t *testing.T, change func(*metav1.PartialObjectMetadata)) {
	t.Helper()
	pod, err := s.metadata.Resource(podResource).Namespace("ns").Get(t.Context(), "a-0", metav1.GetOptions{})
	must(t, err)
	change(pod)
	must(t, s.metadata.Tracker().Update(podResource, pod, "ns"))
	s.metadata.ClearActions()
}

// Every DELETE of a stop names the state of a live read. What changed since the list is respected:
// a Pod that is protected, that another object controls, or that was created again stays (S1, S2).
func TestPodIsReadBeforeItIsDeleted(t *testing.T) {
	marked := due.Add(-time.Hour)
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   string // resourceVersion of the DELETE
	}{
		"changed": {func(pod *metav1.PartialObjectMetadata) { pod.ResourceVersion = "12" }, "12"},
		"protected": {func(pod *metav1.PartialObjectMetadata) {
			pod.Annotations = map[string]string{wellknown.AnnotationProtect: "true"}
		}, ""},
		"created again":     {func(pod *metav1.PartialObjectMetadata) { pod.UID = "another" }, ""},
		"given to another":  {func(pod *metav1.PartialObjectMetadata) { pod.OwnerReferences[0].UID = "another" }, ""},
		"has no controller": {func(pod *metav1.PartialObjectMetadata) { pod.OwnerReferences = nil }, ""},
		"is being deleted":  {func(pod *metav1.PartialObjectMetadata) { pod.DeletionTimestamp = &metav1.Time{Time: marked} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, marked, mark(nil), deletePods)
			// This list serves all attempts of a second.
			if running, _, err := s.pods.below(t.Context(), "ns", "run", time.Time{}); err != nil || len(running) != 1 {
				t.Fatal(running, err)
			}
			s.changePod(t, test.change)
			if got := s.attempt(t); got.Code != 200 || got.Again == 0 {
				t.Errorf("answer %+v, want another look", got)
			}
			switch {
			case test.want == "" && len(s.deletes) > 0:
				t.Errorf("sent %+v", s.deletes)
			case test.want != "" && (len(s.deletes) != 1 || s.deletes[0].UID != "pod" || s.deletes[0].ResourceVersion != test.want || s.deletes[0].Trigger != "deadline"):
				t.Errorf("sent %+v, want one DELETE of resourceVersion %s", s.deletes, test.want)
			}
		})
	}
}

// A Pod that finished since the list stays: it is no longer among the Pods that run.
func TestPodThatFinishedStays(t *testing.T) {
	s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
	if _, _, err := s.pods.below(t.Context(), "ns", "run", time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.metadata.PrependReactor("list", "pods", func(got clienttesting.Action) (bool, runtime.Object, error) {
		selector := got.(clienttesting.ListAction).GetListRestrictions().Fields.String()
		if want := "metadata.name=a-0,status.phase!=Failed,status.phase!=Succeeded"; selector != want && selector != "metadata.name=a-0,status.phase!=Succeeded,status.phase!=Failed" {
			t.Errorf("list by %q, want %q", selector, want)
		}
		return true, &metav1.List{}, nil
	})
	s.attempt(t)
	if len(s.deletes) > 0 {
		t.Errorf("sent %+v", s.deletes)
	}
}

// A DELETE that meets a newer state is sent again for the state that a new read shows, and the
// action learns that its precondition was disproved, if the state is the same.
func TestDeleteAfterAConflict(t *testing.T) {
	s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
	s.changePod(t, func(pod *metav1.PartialObjectMetadata) { pod.ResourceVersion = "12" })
	refusals := 0
	s.metadata.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		refusals++
		return refusals <= 2, nil, apierrors.NewConflict(podResource.GroupResource(), "a-0", errors.New("precondition"))
	})
	s.attempt(t)
	var disproved []int
	for _, each := range s.deletes {
		disproved = append(disproved, each.Disproved)
	}
	if !slices.Equal(disproved, []int{0, 1, 2}) {
		t.Errorf("disproved %v, want 0, 1, 2", disproved)
	}
}

// What a DELETE was refused with reaches the engine, with the pause that the API server asked for.
func TestRefusedDelete(t *testing.T) {
	s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
	s.options.Delete = answering{deletion.Answer{Outcome: deletion.Throttled, Code: 429, After: 7 * time.Second, Origin: deletion.FromServer, Err: errors.New("too many requests")}}
	got := s.attempt(t)
	if got.Outcome != deletion.Throttled || got.After != 7*time.Second || got.Origin != deletion.FromServer {
		t.Errorf("the answer is %+v, want throttled by the server for 7 s", got.Answer)
	}
	if want := "deleting Pod ns/a-0: too many requests"; got.Err.Error() != want {
		t.Errorf("error %q, want %q", got.Err, want)
	}
}

type answering struct{ deletion.Answer }

func (a answering) Do(context.Context, deletion.Due) deletion.Answer { return a.Answer }

// A child with the annotation protect is neither failed nor deleted, and neither are its Pods,
// since nothing has failed the object. Curfew looks again ever more rarely.
func TestProtectedChildIsNotMarked(t *testing.T) {
	s := newScene(t, map[string]any{"annotations": map[string]any{wellknown.AnnotationProtect: "true"}}, time.Time{}, mark(child), deletePods)
	s.due.Expiry = due.Add(-10 * time.Second)
	got := s.attempt(t)
	if sent := s.writes(); len(sent) > 0 || got.Again != 10*time.Second {
		t.Errorf("sent %v, and looks again in %s; want nothing, and 10s", sent, got.Again)
	}
}

// Pods in another namespace that name the UID of an owner do not affect its cached owners.
func TestOwnersAreKnownByTheirWholeReference(t *testing.T) {
	s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
	forged := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "x", UID: "evil-pod", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "example.com/v1", Kind: "Set", Name: "nothing", UID: "set", Controller: new(true)}}}}
	forged.APIVersion, forged.Kind = "v1", "Pod"
	must(t, s.metadata.Tracker().Create(podResource, forged, "evil"))
	clock := clocktesting.NewFakePassiveClock(due)
	index := newPodIndex(s.metadata, clock)
	if _, _, err := index.below(t.Context(), "evil", "evil-run", time.Time{}); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(due.Add(ownersFresh / 2))
	if running, _, err := index.below(t.Context(), "ns", "run", time.Time{}); err != nil || len(running) != 1 {
		t.Errorf("%v, %v: want the Pod that runs below the object", running, err)
	}
}

// An object that Curfew suspended is looked at until its Pods are gone. The suspension itself,
// which stops the deadline, does not end that.
func TestStopGoesOnAfterSuspend(t *testing.T) {
	suspend := v1alpha1.StopStep{Action: v1alpha1.StopSuspend}
	s := newScene(t, nil, time.Time{}, suspend, deletePods)
	s.plan.Suspend, s.plan.SuspendValue = fieldpath.FieldPath{"spec", "suspend"}, true
	object := map[string]any{"metadata": map[string]any{"generation": int64(3)}}
	s.due.Payload = PayloadOf(s.plan, &policy.Facts{State: policy.State{Started: due.Add(-time.Hour)}}, object, time.Hour)
	var patch string
	s.objects.PrependReactor("patch", "runs", func(got clienttesting.Action) (bool, runtime.Object, error) {
		patch = string(got.(clienttesting.PatchAction).GetPatch())
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	s.options.Delete = answering{deletion.Answer{Outcome: deletion.Failed, Code: 500, Err: errors.New("down")}}
	s.attempt(t)
	record := judging.SuspensionRecord(due, 4)
	if want := `{"metadata":{"annotations":{"curfew.dev/suspended-at":"` + record + `"},"resourceVersion":"7","uid":"run"},"spec":{"suspend":true}}`; patch != want {
		t.Fatalf("patch %s, want %s", patch, want)
	}
	// The state that a feed shows next.
	profile := &policy.Profile{AnnotatedDeadline: true, State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{Suspended: true}, nil }}
	object = map[string]any{"metadata": map[string]any{"generation": int64(4), "uid": string(types.UID("run")), "annotations": map[string]any{wellknown.AnnotationSuspendedAt: record}}}
	facts := policy.FactsOfObject(profile, object)
	s.due.Payload = PayloadOf(s.plan, facts, object, time.Hour)
	s.options.Delete, patch = deleter{s}, ""
	if got := s.attempt(t); got.Outcome != deletion.Again {
		t.Errorf("%+v, want another look", got.Answer)
	}
	if patch != "" || len(s.deletes) != 1 {
		t.Errorf("patch %q and %d DELETEs, want the Pod deleted and no patch", patch, len(s.deletes))
	}
}
