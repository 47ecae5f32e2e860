package cleanup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// edit is what another writer does between two requests of a run.
type edit struct {
	do func(s *server)
	// exact: each deleted object is counted all the same. Otherwise uncounted objects are known to
	// be lost, unless forgets: the writer took the record away.
	exact, forgets bool
	// stops: the run deletes nothing beyond the batches that are under way.
	stops bool
	// again: the policy is another one, which deletes the rest.
	again bool
}

// eachPage edits all report pages.
func eachPage(how func(page *unstructured.Unstructured)) func(*server) {
	return func(s *server) {
		for name, page := range s.pages {
			page = page.DeepCopy()
			how(page)
			page.SetResourceVersion(s.next())
			s.pages[name] = page
		}
	}
}

// results sets the results of all items on a page.
func results(result string) func(*unstructured.Unstructured) {
	return func(page *unstructured.Unstructured) {
		items, _, _ := unstructured.NestedSlice(page.Object, "objects")
		for _, item := range items {
			item.(map[string]any)["result"] = result
		}
		_ = unstructured.SetNestedSlice(page.Object, items, "objects")
	}
}

var edits = map[string]edit{
	"the policy is labelled": {exact: true, do: func(s *server) {
		s.policy.SetLabels(map[string]string{"a": "b"})
		s.written()
	}},
	"the spec is edited": {exact: true, stops: true, do: func(s *server) {
		_ = unstructured.SetNestedField(s.policy.Object, int64(4), "spec", "maxDeletions")
		s.policy.SetGeneration(s.policy.GetGeneration() + 1)
		s.written()
	}},
	"the policy is suspended": {exact: true, stops: true, do: func(s *server) {
		_ = unstructured.SetNestedField(s.policy.Object, true, "spec", "suspend")
		s.policy.SetGeneration(s.policy.GetGeneration() + 1)
		s.written()
	}},
	"a condition is written": {exact: true, do: func(s *server) {
		status := s.status()
		status.Conditions = append(status.Conditions, metav1.Condition{Type: "Another", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(start)})
		s.setStatus(status)
	}},
	"the status is taken away": {forgets: true, do: func(s *server) { s.setStatus(v1alpha1.CleanupPolicyStatus{}) }},
	"the announcements are taken away": {forgets: true, do: func(s *server) {
		status := s.status()
		status.UncountedDeletions = nil
		s.setStatus(status)
	}},
	"the pages are labelled":      {exact: true, do: eachPage(func(page *unstructured.Unstructured) { page.SetAnnotations(map[string]string{"a": "b"}) })},
	"all is said to be deleted":   {exact: true, do: eachPage(results(string(v1alpha1.ItemDeleted)))},
	"all is said to be kept":      {exact: true, do: eachPage(results(string(v1alpha1.ItemKept)))},
	"the pages are emptied":       {do: eachPage(func(page *unstructured.Unstructured) { delete(page.Object, "objects") })},
	"the pages are deleted":       {do: func(s *server) { clear(s.pages) }},
	"the policy is deleted":       {forgets: true, stops: true, do: func(s *server) { s.policy = nil }},
	"the policy is created again": {forgets: true, again: true, do: func(s *server) { s.create("another", func(*v1alpha1.CleanupSpec) {}) }},
	"another policy is created": {forgets: true, stops: true, do: func(s *server) {
		s.create("another", func(spec *v1alpha1.CleanupSpec) {
			spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"none"}
		})
	}},
}

// A writer changes the policy, its status or its pages right before each request of a run takes
// effect. No object is deleted twice, or counted twice, and uncounted objects are known to be lost
// (S7). A run whose policy has changed deletes nothing more.
func TestEditedAtEveryRequest(t *testing.T) {
	for name, e := range edits {
		t.Run(name, func(t *testing.T) {
			defer small(2)()
			for i := 1; ; i++ {
				s, requests, sent := newServer(t), 0, 0
				l := &leader{server: s}
				l.send = func(effect func() error) error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if requests++; requests == i {
						sent = len(s.sent)
						e.do(s)
					}
					return effect()
				}
				process := l.controller()
				var err error
				for range 5 {
					_, err = process.step(t.Context(), v1alpha1.ClusterCleanupPolicies+"/p", nil)
				}
				if requests < i {
					t.Logf("%d requests", requests)
					return
				}
				if err != nil && s.policy != nil {
					t.Errorf("before request %d: it does not come to rest: %v", i, err)
				}
				if s.checkEdited(e, i, sent); t.Failed() {
					return
				}
			}
		})
	}
}

func (s *server) checkEdited(e edit, i, before int) {
	s.t.Helper()
	for uid, times := range s.sent {
		if times > 1 {
			s.t.Errorf("before request %d: %s was deleted %d times", i, uid, times)
		}
	}
	// Two batches of two objects may have been confirmed.
	if e.stops && len(s.sent) > before+2*inFlight || !e.stops && len(s.sent) != 5 {
		s.t.Errorf("before request %d: %d objects are deleted, and %d were before", i, len(s.sent), before)
	}
	if s.policy == nil {
		return
	}
	status := s.status()
	lost := int64(0)
	if status.LastRun != nil {
		lost = status.LastRun.Lost
	}
	if len(status.UncountedDeletions) > 0 || status.LastRun != nil && status.LastRun.Phase == v1alpha1.RunRunning {
		s.t.Errorf("before request %d: the run goes on: %+v", i, status)
	}
	// The writer may have come when nothing was deleted yet.
	missing := int64(len(s.sent)) - status.Deleted
	if missing < 0 || e.exact && missing > 0 || !e.forgets && missing > lost {
		s.t.Errorf("before request %d: %d objects are deleted, %d counted and %d lost", i, len(s.sent), status.Deleted, lost)
	}
	if e.again && s.policy.GetUID() == "another" {
		s.checkSuccessor(i, before, &status)
	}
}

// checkSuccessor checks that a policy counts nothing that its predecessor deleted.
func (s *server) checkSuccessor(i, before int, status *v1alpha1.CleanupPolicyStatus) {
	s.t.Helper()
	own := map[types.UID]bool{}
	for _, page := range s.pages {
		items, _, _ := unstructured.NestedSlice(page.Object, "objects")
		name, _, _ := unstructured.NestedString(page.Object, "policy", "uid")
		for _, item := range items {
			uid, _, _ := unstructured.NestedString(item.(map[string]any), "uid")
			own[types.UID(uid)] = own[types.UID(uid)] || name == "another"
		}
	}
	counted := int64(0)
	for _, is := range own {
		if is {
			counted++
		}
	}
	if status.Deleted > counted || status.Deleted > int64(5-before) {
		s.t.Errorf("before request %d: %d are counted by the new policy, whose pages have %d; %d were deleted before", i, status.Deleted, counted, before)
	}
}
