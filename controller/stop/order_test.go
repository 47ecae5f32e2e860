package stop

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
)

var (
	due = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

// A plan that does not begin with MarkFailed or Suspend deletes nothing, be it a dry run or not: a
// stored profile can be older than the rule of the schema.
func TestFirstStepFailsOrSuspends(t *testing.T) {
	for name, steps := range map[string][]v1alpha1.StopStep{
		"DeletePods first":     {deletePods, mark(nil)},
		"Delete a child first": {deleteSet, mark(nil)},
		"no step":              nil,
	} {
		for _, dryRun := range []bool{true, false} {
			s := newScene(t, nil, time.Time{}, steps...)
			s.due.DryRun = dryRun
			got := s.attempt(t)
			if sent := s.writes(); len(sent) > 0 || got.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s, dry run %v: sent %v, answer %+v", name, dryRun, sent, got)
			}
		}
	}
}

// In a dry run the API server is asked whether it would accept the first step, and nothing else is
// sent.
func TestDryRunDeletesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		exceeded time.Time
		want     []string
	}{
		"not marked yet": {time.Time{}, []string{"patch runs/a"}},
		"marked already": {due, nil},
	} {
		s := newScene(t, nil, c.exceeded, mark(nil), deleteSet, deletePods)
		s.due.DryRun = true
		s.metadata.PrependReactor("patch", "runs", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &metav1.PartialObjectMetadata{}, nil
		})
		if got := s.attempt(t); got.Code != http.StatusOK {
			t.Errorf("%s: answer %+v", name, got)
		}
		if sent := s.writes(); !slices.Equal(sent, c.want) {
			t.Errorf("%s: sent %v, want %v", name, sent, c.want)
		}
	}
}

// While the first step has not succeeded, no later one is taken: here there is no child yet through
// which the object could be failed.
func TestNothingIsStoppedBeforeTheFirstStep(t *testing.T) {
	s := newScene(t, nil, time.Time{}, mark(child), deletePods)
	must(t, s.objects.Tracker().Delete(sets, "ns", "a"))
	if got := s.attempt(t); got.Code != http.StatusOK || got.Again == 0 {
		t.Errorf("answer %+v, want another look", got)
	}
	if sent := s.writes(); len(sent) > 0 {
		t.Errorf("sent %v", sent)
	}
}

// What an object runs is written to or deleted only while the object is just as it was judged (S1,
// S2).
func TestOnlyTheJudgedStateIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		exceeded time.Time
		steps    []v1alpha1.StopStep
	}{
		"Delete after an earlier mark":     {due, []v1alpha1.StopStep{mark(nil), deleteSet}},
		"DeletePods after an earlier mark": {due, []v1alpha1.StopStep{mark(nil), deletePods}},
		"MarkFailed of a child":            {time.Time{}, []v1alpha1.StopStep{mark(child), deletePods}},
	} {
		for _, change := range []func(*metav1.PartialObjectMetadata){
			func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "8" },
			func(o *metav1.PartialObjectMetadata) { o.UID = "the next of that name" },
		} {
			s := newScene(t, nil, c.exceeded, c.steps...)
			s.metadata.PrependReactor("get", "runs", func(clienttesting.Action) (bool, runtime.Object, error) {
				now := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "run", ResourceVersion: "7"}}
				change(now)
				return true, now, nil
			})
			if got := s.attempt(t); got.Code != http.StatusConflict {
				t.Errorf("%s: answer %+v, want a conflict", name, got)
			}
			if sent := s.writes(); len(sent) > 0 {
				t.Errorf("%s: sent %v", name, sent)
			}
		}
	}
}

// An object whose child has finished by itself has its outcome, which its own controller has yet to
// write: a success is not turned into a failure, and the reason of a failure is not overwritten.
func TestWhatRanToItsEndIsLeftAlone(t *testing.T) {
	condition := func(kind, reason string) map[string]any {
		return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": kind, "status": "True", "reason": reason}}}}
	}
	phase := func(phase string) map[string]any { return map[string]any{"status": map[string]any{"phase": phase}} }
	profile := &policy.Profile{
		Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Set"},
		State: func(_ context.Context, object map[string]any) (policy.State, error) {
			status, _ := object["status"].(map[string]any)
			switch status["phase"] {
			case "Done":
				return policy.State{Finished: true, Outcome: lifetime.Succeeded, FinishTime: due}, nil
			case "Broken":
				return policy.State{Finished: true, Outcome: lifetime.Failed, FinishTime: due}, nil
			case "?":
				return policy.State{}, errors.New("no such key: phase")
			}
			return policy.State{}, nil
		},
	}
	marks := []string{"delete sets/a", "patch runs/a", "delete pods/a-0"}
	for name, c := range map[string]struct {
		set     map[string]any
		profile *policy.Profile
		code    int
		want    []string
	}{
		"runs":                         {nil, profile, http.StatusOK, marks},
		"completed, by its profile":    {phase("Done"), profile, http.StatusOK, nil},
		"failed, by its profile":       {phase("Broken"), profile, http.StatusOK, nil},
		"cannot be told":               {phase("?"), profile, http.StatusUnprocessableEntity, nil},
		"completed, without a profile": {condition("Completed", "AllJobsCompleted"), nil, http.StatusOK, nil},
		"failed, without a profile":    {condition("Failed", "FailedJobs"), nil, http.StatusOK, nil},
		"failed for a deadline":        {condition("Failed", policy.ReasonDeadlineExceeded), nil, http.StatusOK, marks},
	} {
		for _, dryRun := range []bool{false, true} {
			s := newScene(t, c.set, time.Time{}, mark(nil), deleteSet, deletePods)
			s.due.DryRun = dryRun
			s.options.Profile = func(schema.GroupKind) (*policy.Profile, error) { return c.profile, nil }
			s.metadata.PrependReactor("patch", "runs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &metav1.PartialObjectMetadata{}, nil
			})
			got := s.attempt(t)
			want := c.want
			if dryRun && len(want) > 0 {
				want = []string{"patch runs/a"}
			}
			if sent := s.writes(); !slices.Equal(sent, want) || got.Code != c.code {
				t.Errorf("%s, dry run %v: sent %v, want %v; answer %+v", name, dryRun, sent, want, got)
			}
			if len(c.want) == 0 && c.code == http.StatusOK && got.Again != maxLook {
				t.Errorf("%s: it is looked at again in %s, want %s", name, got.Again, maxLook)
			}
		}
	}
}

// A child whose profile cannot be used sends nothing, and is no sign that the API server is away.
func TestProfileOfAChildFails(t *testing.T) {
	s := newScene(t, map[string]any{}, time.Time{}, mark(nil), deleteSet, deletePods)
	s.options.Profile = func(schema.GroupKind) (*policy.Profile, error) { return nil, errors.New("it does not compile") }
	if got := s.attempt(t); got.Code != http.StatusUnprocessableEntity || len(s.writes()) > 0 {
		t.Errorf("sent %v, answer %+v", s.writes(), got)
	}
}

// A child whose state is not read to its end has not finished, and has no state that cannot be
// read: it is tried again.
func TestStateEndsWithTheAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newScene(t, map[string]any{}, time.Time{}, mark(nil), deleteSet, deletePods)
	s.options.Profile = func(schema.GroupKind) (*policy.Profile, error) {
		return &policy.Profile{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Set"}, State: func(ctx context.Context, _ map[string]any) (policy.State, error) {
			cancel() // in the middle of it
			return policy.State{Finished: true, Outcome: lifetime.Succeeded, FinishTime: due}, ctx.Err()
		}}, nil
	}
	if got := s.Do(ctx, s.due); !errors.Is(got.Err, context.Canceled) || got.Code == http.StatusUnprocessableEntity || len(s.writes()) > 0 {
		t.Errorf("answer %+v", got)
	}
}

// Where the profiles are not known yet, it cannot be told whether a child has finished: nothing is
// stopped.
func TestProfilesNotKnownYet(t *testing.T) {
	s := newScene(t, nil, time.Time{}, mark(nil), deleteSet, deletePods)
	s.options.Profile = func(schema.GroupKind) (*policy.Profile, error) { return nil, errors.New("not listed yet") }
	if got := s.attempt(t); got.Err == nil || len(s.writes()) > 0 {
		t.Errorf("answer %+v", got)
	}
}

// A 404 of the status subresource is the object's own only where a read says so, too: a
// CustomResourceDefinition may have none.
func TestNoStatusSubresource(t *testing.T) {
	missing := apierrors.NewNotFound(runs.GroupResource(), "a")
	for name, c := range map[string]struct {
		steps   []v1alpha1.StopStep
		gone    bool
		code    int
		missing bool
	}{
		"of the object":          {[]v1alpha1.StopStep{mark(nil), deletePods}, false, http.StatusUnprocessableEntity, false},
		"the object is gone":     {[]v1alpha1.StopStep{mark(nil), deletePods}, true, http.StatusNotFound, true},
		"of a child":             {[]v1alpha1.StopStep{mark(child), deletePods}, false, http.StatusUnprocessableEntity, false},
		"the child is gone then": {[]v1alpha1.StopStep{mark(child), deletePods}, true, http.StatusConflict, false},
	} {
		s := newScene(t, nil, time.Time{}, c.steps...)
		refuse := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, missing }
		s.metadata.PrependReactor("patch", "runs", refuse)
		s.objects.PrependReactor("patch", "sets", func(clienttesting.Action) (bool, runtime.Object, error) {
			if c.gone {
				s.objects.PrependReactor("get", "sets", refuse)
			}
			return true, nil, missing
		})
		if c.gone && c.steps[0].Child == nil {
			s.metadata.PrependReactor("get", "runs", refuse)
		}
		got := s.attempt(t)
		if got.Code != c.code || got.Outcome == deletion.Gone != c.missing {
			t.Errorf("%s: answer %+v, want %d, missing %v", name, got, c.code, c.missing)
		}
		for _, sent := range s.writes() {
			if sent != "patch runs/a" && sent != "patch sets/a" {
				t.Errorf("%s: sent %s", name, sent)
			}
		}
	}
}
