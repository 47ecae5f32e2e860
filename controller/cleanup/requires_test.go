package cleanup

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
)

// steps has a process work for the policy until it rests, and returns how many objects it deleted.
func (s *server) steps() int {
	s.t.Helper()
	process := (&leader{server: s, send: func(effect func() error) error { return effect() }}).controller()
	process.options.Event = func(_ *unstructured.Unstructured, kind, reason, message string) {
		s.events = append(s.events, kind+" "+reason+" "+message)
	}
	for range 3 {
		if _, err := process.step(s.t.Context(), v1alpha1.ClusterCleanupPolicies+"/p", nil); err != nil {
			s.t.Fatal(err)
		}
	}
	return len(s.sent)
}

func (s *server) setSpec(value any, path ...string) {
	s.t.Helper()
	must(s.t, unstructured.SetNestedField(s.policy.Object, value, append([]string{"spec"}, path...)...))
	s.written()
}

// recorded has a newer version leave its record on the policy.
func (s *server) recorded(generation int64, message string) {
	status := s.status()
	status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRequires, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonNewerFields, ObservedGeneration: generation, Message: message, LastTransitionTime: metav1.NewTime(start)})
	s.setStatus(status)
}

// An older Curfew deletes nothing by a policy with a safeguard that only a newer one knows, whether
// the newer CustomResourceDefinitions are kept in a rollback or not (S6).
func TestPolicyOfANewerVersion(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*server)
		// held is the field that the condition Ready names; "" for a policy that runs.
		held string
	}{
		"of this version":      {func(*server) {}, ""},
		"a field":              {func(s *server) { s.setSpec("30d", "minAge") }, "spec.minAge"},
		"a nested field":       {func(s *server) { s.setSpec(true, "matchConstraints", "idle") }, "spec.matchConstraints.idle"},
		"a value":              {func(s *server) { s.setSpec("Twice", "approval") }, "spec.approval=Twice"},
		"a dropped field":      {func(s *server) { s.recorded(1, "v99.0.0: spec.minAge") }, "spec.minAge"},
		"a record that is old": {func(s *server) { s.recorded(7, "v0.1.0: spec.minAge") }, ""},
		"an edit since":        {func(s *server) { s.recorded(7, "v99.0.0: spec.minAge") }, "spec.minAge"},
		"an unreadable record": {func(s *server) { s.recorded(1, "minAge") }, "status.conditions"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c.edit(s)
			deleted := s.steps()
			ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady)
			got := ""
			if ready.Status == metav1.ConditionFalse {
				got = ready.Reason + " " + ready.Message[:min(len(ready.Message), len(c.held))]
			}
			if c.held == "" && (deleted != 5 || got != "") || c.held != "" && (deleted != 0 || got != v1alpha1.ReasonNeedsNewerVersion+" "+c.held) {
				t.Errorf("%d objects were deleted, and Ready is %+v", deleted, ready)
			}
			ok := slices.ContainsFunc(s.events, func(event string) bool { return strings.HasPrefix(event, "Warning NeedsNewerVersion "+c.held+": ") })
			if ok != (c.held != "") || ok && len(s.events) != 1 {
				t.Errorf("events %q", s.events)
			}
		})
	}
}

// A policy is recorded before its run deletes anything, by each version that knows a newer field.
func TestNewerFieldsAreRecorded(t *testing.T) {
	newIn(t, "ClusterCleanupPolicy", "spec.matchConstraints.resourceRules[*].resourceNames", "v0.2.0")
	s := newServer(t)
	if deleted := s.steps(); deleted != 5 {
		t.Errorf("%d objects were deleted", deleted)
	}
	for version, status := range s.statuses {
		if status.LastRun != nil && meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionRequires) == nil {
			t.Errorf("at resourceVersion %s there is a run and no record", version)
		}
	}
	const want = "v0.2.0: spec.matchConstraints.resourceRules[*].resourceNames"
	if record := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionRequires); record == nil || record.Message != want || record.ObservedGeneration != 1 {
		t.Errorf("%+v", record)
	}
}

// newIn has this version know a field since a later release than the first.
func newIn(t *testing.T, kind, path, since string) {
	t.Helper()
	text, err := os.ReadFile("../../policy/requirement/fields.txt")
	must(t, err)
	line := "\n" + kind + " " + path + " "
	fields, err := requirement.Parse(strings.Replace(string(text), line+"v0.1.0\n", line+since+"\n", 1))
	must(t, err)
	known := requirement.Known
	requirement.Known = func() *requirement.Table { return fields }
	t.Cleanup(func() { requirement.Known = known })
}
