package cleanup

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/v1alpha1"
)

// Beyond the quota of a namespace its oldest reports are deleted, of whatever policy. Reports of
// runs that have not ended, of the run that just did, matches that the next run reads, and what
// Curfew has not written stay.
func TestReportQuota(t *testing.T) {
	const size = 10_000
	for name, c := range map[string]struct {
		most int64
		// begins: the run of q begins while the reports are listed.
		begins bool
		left   string
	}{
		"no quota":          {0, false, "another-1 p-0 p-1 p-2 p-matches q-1 q-2 q-3 q-matches"},
		"all fit":           {9 * size, false, "another-1 p-0 p-1 p-2 p-matches q-1 q-2 q-3 q-matches"},
		"two are too many":  {65_000, false, "another-1 p-0 p-1 p-matches q-1 q-2 q-matches"},
		"nothing would fit": {1, false, "another-1 p-0 p-matches q-2 q-matches"},
		"a run begins":      {1, true, "another-1 p-0 p-matches q-2 q-matches"},
	} {
		t.Run(name, func(t *testing.T) {
			policies, reports := v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies), v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupReports)
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{policies: "CleanupPolicyList", reports: "CleanupReportList"})
			created := start
			client.PrependReactor("create", v1alpha1.CleanupReports, func(did clienttesting.Action) (bool, runtime.Object, error) {
				created = created.Add(time.Minute)
				did.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).SetCreationTimestamp(metav1.NewTime(created))
				return false, nil, nil
			})
			stores, names := map[string]*store{}, map[string]string{}
			run := func(n string, ago int) string { return runID(start.AddDate(0, 0, -ago), types.UID("uid-"+n)) }
			for _, text := range []string{"p", "q", "another"} {
				policy := *tmpPolicy(t, nothing)
				policy.Namespace, policy.Name, policy.UID = "ci", text, types.UID("uid-"+text)
				stores[text] = newStore(clock.RealClock{}, client, &policy, "1", v1alpha1.CleanupPolicyStatus{})
			}
			stores["p"].status.Matches = &v1alpha1.CleanupMatches{Run: run("p", 4)}
			stores["q"].status.LastRun = &v1alpha1.CleanupRun{ID: run("q", 2), Phase: v1alpha1.RunRunning}
			for _, text := range []string{"p", "q"} {
				live := &v1alpha1.CleanupPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: text, UID: types.UID("uid-" + text)}, Status: stores[text].status}
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
				must(t, err)
				content["apiVersion"], content["kind"] = v1alpha1.GroupVersion.String(), "CleanupPolicy"
				if text == "q" && c.begins {
					running := (&unstructured.Unstructured{Object: content}).DeepCopy()
					delete(content, "status")
					client.PrependReactor("list", v1alpha1.CleanupReports, func(did clienttesting.Action) (bool, runtime.Object, error) {
						if !did.(clienttesting.ListAction).GetListRestrictions().Labels.Empty() {
							return false, nil, nil // prune lists its own before.
						}
						return false, nil, client.Tracker().Update(policies, running, "ci")
					})
				}
				_, err = client.Resource(policies).Namespace("ci").Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
				must(t, err)
			}
			write := func(text string, ago int, matched bool) {
				id := run(text, ago)
				fields := v1alpha1.CleanupReportFields{Policy: v1alpha1.PolicyReference{Name: text, UID: types.UID("uid-" + text)}, Run: id, Page: 1}
				value, short := pageName(text, id, 1), text+"-"+string(rune('0'+ago))
				if matched {
					fields.Matched, value, short = make([]byte, size*3/4), matchesName(text, id, 1), text+"-matches"
				} else {
					fields.Objects = []v1alpha1.CleanupItem{{Message: strings.Repeat("x", size)}}
				}
				if names[value] = short; stores[text].writePage(t.Context(), &page{name: value, fields: fields}) != nil {
					t.Fatal("writing a page failed")
				}
			}
			write("p", 5, true) // The status does not name these matches.
			write("p", 4, true)
			write("q", 3, false)
			write("p", 2, false)
			write("q", 2, false)
			write("q", 2, true)
			write("p", 1, false)
			write("q", 1, false)
			write("another", 1, false)
			write("p", 0, false)
			stores["p"].reportBytes = c.most
			must(t, stores["p"].prune(t.Context(), run("p", 0), start))
			list, err := client.Resource(reports).Namespace("ci").List(t.Context(), metav1.ListOptions{})
			must(t, err)
			var left []string
			for i := range list.Items {
				left = append(left, names[list.Items[i].GetName()])
			}
			if slices.Sort(left); strings.Join(left, " ") != c.left {
				t.Errorf("left %v, want %s", left, c.left)
			}
		})
	}
}
