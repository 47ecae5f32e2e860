package stop

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

var (
	runs = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}
	sets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sets"}
)

// child is the set that a run controls, by its name.
var child = &v1alpha1.Child{ProfiledKind: v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Set", Resource: "sets"}, Named: v1alpha1.ChildNamedSame}

// scene is a run "a" that is past its deadline, the set that it controls, and a Pod of that which
// runs.
type scene struct {
	*Action
	plan     *Plan
	objects  *dynamicfake.FakeDynamicClient
	metadata *metadatafake.FakeMetadataClient
	due      deletion.Due
	deletes  []deletion.Due
}

// deleter sends the DELETEs of the scene through the fake clients.
type deleter struct{ *scene }

// Do implements deletion.Action.
func (d deleter) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	d.deletes = append(d.deletes, due)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &due.UID, ResourceVersion: &due.ResourceVersion}}
	var err error
	if due.Resource == podResource {
		err = d.metadata.Resource(due.Resource).Namespace(due.Namespace).Delete(ctx, due.Name, options)
	} else {
		err = d.objects.Resource(due.Resource).Namespace(due.Namespace).Delete(ctx, due.Name, options)
	}
	if err == nil {
		return deletion.Answer{Outcome: deletion.Done, Deleted: 1}
	}
	out, _ := deletion.FailureOf(err)
	switch {
	case apierrors.IsNotFound(err):
		out.Outcome = deletion.Gone
	case out.Outcome == deletion.Conflict:
		out.VersionConflict = true
	}
	return out
}

// metadataOf is a client of an API server with these objects.
func metadataOf(t *testing.T, objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

func newScene(t *testing.T, set map[string]any, exceeded time.Time, steps ...v1alpha1.StopStep) *scene {
	t.Helper()
	yes := true
	owner := func(kind, name, uid string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}}
	}
	metadata := map[string]any{"name": "a", "namespace": "ns", "uid": "set", "resourceVersion": "3", "ownerReferences": []any{map[string]any{
		"apiVersion": "example.com/v1", "kind": "Run", "name": "a", "uid": "run", "controller": true}}}
	for key, value := range set {
		if key == "annotations" {
			metadata[key] = value
		}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Set", "metadata": metadata}}
	if status, ok := set["status"]; ok {
		object.Object["status"] = status
	}
	partial := func(kind, name, uid string, owners []metav1.OwnerReference) *metav1.PartialObjectMetadata {
		out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), OwnerReferences: owners}}
		out.APIVersion, out.Kind = "example.com/v1", kind
		if kind == "Pod" {
			out.APIVersion = "v1"
		}
		return out
	}
	run := partial("Run", "a", "run", nil)
	run.ResourceVersion = "7"
	s := &scene{
		objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{sets: "SetList", runs: "RunList"}, object),
		metadata: metadataOf(t, run, partial("Pod", "a-0", "pod", owner("Set", "a", "set")),
			partial("Set", "a", "set", owner("Run", "a", "run")), partial("Pod", "b-0", "other", owner("Set", "b", "elsewhere"))),
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	s.Action = New(Options{Objects: s.objects, Metadata: s.metadata, Delete: deleter{s}, Clock: clocktesting.NewFakePassiveClock(now), Log: logr.Discard()})
	s.plan = &Plan{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Run"}, Resource: runs, Steps: steps}
	s.due = deletion.Due{
		Type: deletion.Type{Resource: runs, Kind: "Run"}, Namespace: "ns", Name: "a", UID: "run", ResourceVersion: "7", Expiry: now,
		Payload: PayloadOf(s.plan, &policy.Facts{State: policy.State{Started: now.Add(-time.Hour)}, Exceeded: exceeded}, map[string]any{}, time.Hour),
	}
	return s
}

// answer is a Result, with Code 200 for success.
type answer struct {
	deletion.Answer
	Code  int
	Again time.Duration
}

func (s *scene) attempt(t *testing.T) answer {
	t.Helper()
	out := answer{Answer: s.Do(t.Context(), s.due)}
	switch out.Code = out.Answer.Code; out.Outcome {
	case deletion.Again:
		out.Code, out.Again = http.StatusOK, out.After
	case deletion.Done:
		out.Code = http.StatusOK
	}
	return out
}

// writes are the requests that changed something, as verb and name.
func (s *scene) writes() []string {
	var out []string
	for _, action := range append(s.objects.Actions(), s.metadata.Actions()...) {
		switch action := action.(type) {
		case clienttesting.PatchAction:
			out = append(out, "patch "+action.GetResource().Resource+"/"+action.GetName())
		case clienttesting.DeleteAction:
			out = append(out, "delete "+action.GetResource().Resource+"/"+action.GetName())
		}
	}
	s.objects.ClearActions()
	s.metadata.ClearActions()
	return out
}

// refuse answers the first of the requests of a verb with an error.
func (s *scene) refuse(verb string, err error) {
	first := true
	s.objects.PrependReactor(verb, "sets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !first {
			return verb == "patch", nil, nil
		}
		first = false
		return true, nil, err
	})
}

func mark(c *v1alpha1.Child) v1alpha1.StopStep {
	return v1alpha1.StopStep{Action: v1alpha1.StopMarkFailed, Child: c}
}

var (
	deleteSet  = v1alpha1.StopStep{Action: v1alpha1.StopDelete, Child: child}
	deletePods = v1alpha1.StopStep{Action: v1alpha1.StopDeletePods}
)

// A deletion that fails once keeps nothing else from being stopped, and is sent again: nothing
// leaks.
func TestFirstDeletionOfAChildFails(t *testing.T) {
	s := newScene(t, nil, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), mark(nil), deleteSet, deletePods)
	s.refuse("delete", apierrors.NewInternalError(http.ErrHandlerTimeout))
	if got := s.attempt(t); got.Code != http.StatusInternalServerError {
		t.Errorf("the answer is %+v, want that of the deletion that failed", got)
	}
	if got, want := s.writes(), []string{"delete sets/a", "delete pods/a-0"}; !slices.Equal(got, want) {
		t.Errorf("it sent %v, want %v", got, want)
	}
	if got := s.attempt(t); got.Code != http.StatusOK || got.Again == 0 {
		t.Errorf("the answer is %+v, want another look", got)
	}
	if got, want := s.writes(), []string{"delete sets/a"}; !slices.Equal(got, want) {
		t.Errorf("then it sent %v, want %v", got, want)
	}
	if got := s.attempt(t); got.Code != http.StatusOK || got.Again == 0 || len(s.writes()) > 0 {
		t.Errorf("once all is gone the answer is %+v, want another look and no write", got)
	}
}

// A child through which an object is failed, and that is not as it was read a moment ago, may have
// completed: nothing is stopped before all was judged again.
func TestChildChangesUnderTheMark(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Set"}, "a", nil)
	for name, c := range map[string]struct {
		err     error
		version string
		want    deletion.Class
	}{
		"it has changed":  {invalid, "4", deletion.Conflict},
		"a conflict":      {apierrors.NewConflict(sets.GroupResource(), "a", nil), "3", deletion.Conflict},
		"it is unchanged": {invalid, "3", deletion.Refused},
	} {
		s := newScene(t, nil, time.Time{}, mark(child), deletePods)
		s.refuse("patch", c.err)
		reads := 0
		s.objects.PrependReactor("get", "sets", func(got clienttesting.Action) (bool, runtime.Object, error) {
			object, err := s.objects.Tracker().Get(sets, "ns", "a")
			if reads++; err == nil && reads > 2 { // ranToItsEnd and markChild read it before the patch.
				object.(*unstructured.Unstructured).SetResourceVersion(c.version)
			}
			return true, object, err
		})
		if got := s.attempt(t); got.Outcome != c.want {
			t.Errorf("%s: the answer is %+v, want class %d", name, got, c.want)
		}
		if got, want := s.writes(), []string{"patch sets/a"}; !slices.Equal(got, want) {
			t.Errorf("%s: it sent %v, want %v", name, got, want)
		}
	}
}

// A child is marked once, and not at all if it has finished: its own outcome stands. Protected
// objects are not deleted.
func TestWhatIsLeftAlone(t *testing.T) {
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "True", "reason": reason}}}}
	}
	exceeded := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		set      map[string]any
		exceeded time.Time
		steps    []v1alpha1.StopStep
		want     []string
	}{
		"not marked yet":    {nil, time.Time{}, []v1alpha1.StopStep{mark(child)}, []string{"patch sets/a"}},
		"marked already":    {condition("Failed", policy.ReasonDeadlineExceeded), time.Time{}, []v1alpha1.StopStep{mark(child)}, nil},
		"completed":         {condition("Completed", "AllDone"), time.Time{}, []v1alpha1.StopStep{mark(child)}, nil},
		"a protected child": {map[string]any{"annotations": map[string]any{wellknown.AnnotationProtect: "true"}}, exceeded, []v1alpha1.StopStep{mark(nil), deleteSet}, nil},
		"failed already":    {nil, exceeded, []v1alpha1.StopStep{mark(nil)}, nil},
	} {
		s := newScene(t, c.set, c.exceeded, c.steps...)
		if name == "not marked yet" {
			s.objects.PrependReactor("patch", "sets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &unstructured.Unstructured{}, nil
			})
		}
		if got := s.attempt(t); got.Code != http.StatusOK {
			t.Errorf("%s: the answer is %+v", name, got)
		}
		if got := s.writes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: it sent %v, want %v", name, got, c.want)
		}
	}
}

// Without the payload of the judged state, which the engine has to bring, nothing is written.
func TestStateThatWasNotSeen(t *testing.T) {
	s := newScene(t, nil, time.Time{}, mark(nil), deletePods)
	s.due.Payload = nil
	if got := s.attempt(t); got.Outcome != deletion.Refused || len(s.writes()) > 0 {
		t.Errorf("the answer is %+v, want a refusal and no write", got)
	}
}

// The mark of the object itself is one request, and comes before all else: where it is not
// accepted, nothing is stopped.
func TestMarkComesFirst(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Run"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "field is immutable")})
	failedTest := apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing value /metadata/resourceVersion failed", 0, false)
	for name, c := range map[string]struct {
		err     error
		changed string // its resourceVersion by then
		code    int
		want    []string
	}{
		"accepted":             {nil, "", http.StatusOK, []string{"delete sets/a", "patch runs/a", "delete pods/a-0"}},
		"it has changed":       {failedTest, "8", http.StatusConflict, []string{"patch runs/a"}},
		"changed, and invalid": {invalid, "8", http.StatusConflict, []string{"patch runs/a"}},
		"invalid":              {invalid, "", http.StatusUnprocessableEntity, []string{"patch runs/a"}},
		"forbidden":            {apierrors.NewForbidden(runs.GroupResource(), "a", nil), "", http.StatusForbidden, []string{"patch runs/a"}},
		"no answer":            {http.ErrHandlerTimeout, "", 0, []string{"patch runs/a"}},
	} {
		s := newScene(t, nil, time.Time{}, mark(nil), deleteSet, deletePods)
		s.metadata.PrependReactor("patch", "runs", func(clienttesting.Action) (bool, runtime.Object, error) {
			if c.changed != "" {
				read, err := s.metadata.Tracker().Get(runs, "ns", "a")
				must(t, err)
				read.(*metav1.PartialObjectMetadata).ResourceVersion = c.changed
				must(t, s.metadata.Tracker().Update(runs, read, "ns"))
			}
			return true, &metav1.PartialObjectMetadata{}, c.err
		})
		if got := s.attempt(t); got.Code != c.code {
			t.Errorf("%s: the answer is %+v, want %d", name, got, c.code)
		}
		if got := s.writes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: it sent %v, want %v", name, got, c.want)
		}
	}
}

var must = builders.Must
