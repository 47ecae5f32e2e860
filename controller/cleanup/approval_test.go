package cleanup

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/v1alpha1"
)

// An approval of a spec counts once. When the policy has had another spec in between, only one that
// was created since then counts, so that nobody deletes by what was approved long ago.
func TestApprovalsOfAnEarlierSpec(t *testing.T) {
	type edit struct {
		minute     int
		generation int64
		hash       string
	}
	later := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	for name, c := range map[string]struct {
		edits   []edit
		created int // in this minute
		want    bool
	}{
		"of the first spec, before it":        {[]edit{{1, 1, "a"}}, 0, true},
		"of the first spec, after it":         {[]edit{{1, 1, "a"}}, 5, true},
		"suspended and resumed":               {[]edit{{1, 1, "a"}, {2, 2, "a"}, {3, 3, "a"}}, 0, true},
		"of an edit, together with it":        {[]edit{{1, 1, "a"}, {3, 2, "b"}}, 2, true},
		"of the second edit, before it":       {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "c"}}, 4, true},
		"reverted":                            {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "a"}}, 2, false},
		"reverted, in the second of the edit": {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "a"}}, 3, false},
		"reverted together with an approval":  {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "a"}}, 4, true},
		"reverted, and approved again":        {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "a"}}, 6, true},
		"reverted and suspended":              {[]edit{{1, 1, "a"}, {3, 2, "b"}, {5, 3, "a"}, {7, 4, "a"}}, 2, false},
		"reverted from what cannot be read":   {[]edit{{1, 1, "a"}, {3, 2, ""}, {5, 3, "a"}}, 2, false},
		"a generation was missed":             {[]edit{{1, 1, "a"}, {5, 3, "a"}}, 4, false},
		"a generation was missed, after it":   {[]edit{{1, 1, "a"}, {5, 3, "a"}}, 6, true},
		"the clock was years ahead":           {[]edit{{1, 1, "a"}, {9_999_999, 2, "b"}, {3, 3, "a"}}, 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			api, p := newCluster(t), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			for _, edit := range c.edits {
				p.Generation, p.Hash = edit.generation, edit.hash
				cur := &current{object: &unstructured.Unstructured{Object: map[string]any{}}, policy: p, now: later(edit.minute), ledger: &ledger{store: api}}
				for range 3 { // Also without an edit.
					must(t, cur.observe(t.Context(), nil, time.Time{}))
				}
			}
			approval := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"policyUID": string(p.UID), "specHash": p.Hash}}}
			approval.SetCreationTimestamp(metav1.NewTime(later(c.created)))
			if got := p.ApprovedBy(approval, api.status.ApprovalsAfterTime); got != c.want {
				t.Errorf("it counts: %t, want %t; approvals count after %v", got, c.want, api.status.ApprovalsAfterTime)
			}
		})
	}
}

// With --require-approval each CleanupPolicy needs one, whatever its spec says; a
// ClusterCleanupPolicy decides for itself.
func TestRequireApproval(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		approval  v1alpha1.Approval
		flag      bool
		want      bool // that it may delete without one
	}{
		"a namespaced policy":                {"ci", v1alpha1.ApprovalNotRequired, false, true},
		"a namespaced policy, with the flag": {"ci", v1alpha1.ApprovalNotRequired, true, false},
		"a cluster policy, with the flag":    {"", v1alpha1.ApprovalNotRequired, true, true},
		"a cluster policy that requires one": {"", v1alpha1.ApprovalRequired, false, false},
	} {
		api, p := newCluster(t), tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.Approval = c.approval })
		p.Namespace = c.namespace
		process := api.controller()
		process.options.RequireApproval = c.flag
		process.options.Objects = approvals(p.UID, p.Hash, func() bool { return false })
		r, err := process.newRun(api.cur(p, start), &v1alpha1.CleanupRun{})
		must(t, err)
		if got, err := r.approved(t.Context()); got != c.want || err != nil {
			t.Errorf("%s: may delete %t, %v; want %t", name, got, err, c.want)
		}
	}
}
