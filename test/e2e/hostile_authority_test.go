package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy/v1alpha1"
)

// byController are the flags of a request of Curfew's controller, with every permission.
var byController = []string{"--as=system:serviceaccount:curfew-system:curfew-controller", "--as-group=system:masters"}

// Only Curfew writes the statuses and reports of its kinds, whatever RBAC grants. A policy's
// sinceTime before its creation has no effect even then.
func TestHostileAuthorities(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	eve := "eve-" + s.name
	s.apply(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"` + eve + `"},"rules":[
		{"apiGroups":["*"],"resources":["*/status"],"verbs":["get","patch"]},{"apiGroups":["curfew.dev"],"resources":["lifecyclepolicies","podtallies"],"verbs":["get"]},
		{"apiGroups":["curfew.dev"],"resources":["cleanupreports"],"verbs":["get","create","patch"]}]}`)
	s.expectSuccess(s.kubectl("create", "clusterrolebinding", eve, "--clusterrole="+eve, "--user="+eve))
	defer s.afterwards("delete", "clusterrole,clusterrolebinding", eve)
	const statuses, reports = "only Curfew's controller may write the status of this kind", "only Curfew's controller may write reports"
	patch := func(as []string, resource, name, body string, more ...string) output {
		return s.kubectl(append(append([]string{"patch", resource, name, "--type=merge", "-p", body}, as...), more...)...)
	}
	byEve := []string{"--as=" + eve}
	refused := func(what, why string, out output) {
		t.Helper()
		if !out.failed || !strings.Contains(out.stderr, "ValidatingAdmissionPolicy 'curfew-status'") || !strings.Contains(out.stderr, why) {
			t.Errorf("%s: %s%s", what, out.stdout, out.stderr)
		}
	}

	older := s.newJob(job("older"))
	s.awaitJobFinish(older)
	// The policy is created in a later second than the Job.
	s.poll("another second", func(context.Context) (bool, error) {
		return now().Truncate(time.Second).After(older.CreationTimestamp.Time), nil
	})
	s.apply(`{"apiVersion":"curfew.dev/v1alpha1","kind":"LifecyclePolicy","metadata":{"name":"` + s.name + `"},"spec":{"defaults":{"ttl":{"value":"1s"}},
		"match":{"kinds":[{"group":"batch","kind":"Job"}],"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"` + s.name + `"}}}}}`)
	defer s.afterwards("delete", "lifecyclepolicy", s.name)
	since := func() string { return s.jsonpath("lifecyclepolicy", s.name, ".status.defaults.sinceTime") }
	s.poll("Curfew to write the policy's status", func(context.Context) (bool, error) { return since() != "", nil })
	const forged = `{"status":{"defaults":{"sinceTime":"2020-01-01T00:00:00Z"}}}`
	refused("a policy's sinceTime", statuses, patch(byEve, "lifecyclepolicy", s.name, forged, "--subresource=status"))
	s.expectSuccess(patch(byEve, "lifecyclepolicy", s.name, `{"metadata":{"annotations":{"example.com/a":"b"}}}`, "--subresource=status"))

	s.tally("a")
	refused("a tally's count", statuses, patch(byEve, "podtally", "a", `{"status":{"succeeded":99}}`, "--subresource=status"))

	report := `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupReport","metadata":{"name":"page"},"policy":{"name":"a","uid":"u"},"run":"r","page":1}`
	refused("a new report", reports, s.kubectlInput(report, append([]string{"create", "-f", "-"}, byEve...)...))
	s.expectSuccess(s.kubectlInput(report, append([]string{"create", "-f", "-"}, byController...)...))
	for _, change := range []string{`{"deleted":7}`, `{"page":2}`, `{"truncated":true}`, `{"run":"other"}`} {
		refused("a changed report", reports, patch(byEve, v1alpha1.CleanupReports, "page", change))
	}
	s.expectSuccess(patch(byEve, v1alpha1.CleanupReports, "page", `{"metadata":{"ownerReferences":[]}}`))

	// Past the policy, the time is corrected, and nothing older is deleted.
	s.expectSuccess(patch(byController, "lifecyclepolicy", s.name, forged, "--subresource=status"))
	s.poll("the time to be corrected", func(context.Context) (bool, error) {
		when, err := time.Parse(time.RFC3339, since())
		return err == nil && !when.Before(older.CreationTimestamp.Time), err
	})
	newer := s.newJob(job("newer"))
	s.awaitGone(newer)
	s.stillThere(older)
	if got := s.jsonpath("podtally", "a", ".status.succeeded"); fmt.Sprint(got) == "99" {
		t.Error("the tally counts 99")
	}
}
