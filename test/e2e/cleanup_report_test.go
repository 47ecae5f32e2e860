package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"curfew.dev/curfew/policy/v1alpha1"
)

// curfew runs kubectl curfew in the namespace. kubectl allows no flags before the name of a plugin.
func (s *space) curfew(args ...string) output {
	stdout, stderr, err := suite.cluster.Kubectl(s.ctx, append(append([]string{"curfew"}, args...), "--namespace", s.name)...)
	return output{stdout, stderr, err != nil}
}

// A Service that selects a Pod in mid-run, after the Pod was listed and before its DELETE, keeps
// it. So does an EndpointSlice that names it.
func TestServiceSelectsInMidRun(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %[1]s}}, spec: {schedulerName: none, containers: [{name: main, image: "busybox:1.37"}]}}`
	s.apply(strings.Join([]string{
		fmt.Sprintf(pod, "selected"), fmt.Sprintf(pod, "endpoint"), fmt.Sprintf(pod, "later"), fmt.Sprintf(pod, "never"),
		`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: selected}, ports: [{port: 80}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: changing}, spec: {selector: {app: none}, ports: [{port: 80}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: without-selector}, spec: {ports: [{port: 80}]}}`,
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: own, labels: {kubernetes.io/service-name: without-selector}}, addressType: IPv4,
			endpoints: [{addresses: [10.0.0.1], targetRef: {kind: Pod, name: endpoint}}]}`,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: janitor}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: janitor}, rules: [
			{apiGroups: [""], resources: [pods], verbs: [get, list, delete]}, {apiGroups: ["", discovery.k8s.io], resources: [services, endpointslices], verbs: [list]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: janitor}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: janitor}, subjects: [{kind: ServiceAccount, name: janitor}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}`,
	}, "\n---\n"))
	var once sync.Once
	defer suite.proxy.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		// The page names both Pods: they have been listed and judged.
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces/"+s.name+"/cleanupreports") {
			once.Do(func() {
				if out := s.kubectl("patch", "service", "changing", "--type=merge", "-p", `{"spec":{"selector":{"app":"later"}}}`); out.failed {
					s.Errorf("changing the Service: %s", out.stderr)
				}
			})
		}
		return false
	})()
	name := s.cleanupPolicy("unselected", "janitor", `matchConstraints: {resourceRules: [{apiGroups: [""], resources: [pods]}]},
		conditions: [{name: unselected, expression: '!lookup.selectedByService'}]`)
	status := s.awaitCleanup(name)
	if status.LastRun.Matched != 2 || status.LastRun.Deleted != 1 {
		t.Errorf("the run: %+v", status.LastRun)
	}
	for name, want := range map[string]bool{"selected": false, "endpoint": false, "later": false, "never": true} {
		live := s.getPod(name)
		if deleted := live == nil || live.DeletionTimestamp != nil; deleted != want {
			t.Errorf("%s: deleted is %t", name, deleted)
		}
	}
	output := s.expectSuccess(s.curfew("report", name, "-o", `jsonpath={range .items[*]}{.object.name} {.result} {.message}{"\n"}{end}`)).stdout
	if want := "later Kept it does not match any more\nnever Deleted \n"; output != want {
		t.Errorf("the report says\n%s\nwant\n%s", output, want)
	}
}

// approve approves a ClusterCleanupPolicy as it is now.
func (s *space) approve(name string) output {
	hash := s.expectSuccess(s.kubectl("get", "clustercleanuppolicy", name, "-o", "jsonpath={.status.specHash}")).stdout
	return s.curfew("approve", name, "--yes", "--spec-hash", hash)
}

// An approval by kubectl curfew approve lets the next run delete, but not one of a policy that was
// edited afterwards.
func TestApproveCleanup(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	for _, app := range []string{"approved", "edited"} {
		s.newConfigMap(app+"-1", "app", app)
		s.newConfigMap(app+"-2", "app", app)
	}
	// They are due once both are approved, and one is edited.
	policies := map[string]string{}
	for _, app := range []string{"approved", "edited"} {
		name := s.cleanupPolicyAt(lastMinute(), app, "", `approval: Required, matchConstraints: {objectSelector: {matchLabels: {app: `+app+`}}, `+allConfigMaps+`}`)
		policies[app] = name
		s.awaitStatus(name, "the hash of "+name, func(status *v1alpha1.CleanupPolicyStatus) bool { return status.SpecHash != "" })
		if out := s.expectSuccess(s.approve(name)); !strings.HasSuffix(out.stdout, " created\n") {
			t.Errorf("approve said %s%s", out.stdout, out.stderr)
		}
	}
	s.expectSuccess(s.kubectl("patch", "clustercleanuppolicy", policies["edited"], "--type=merge", "-p", `{"spec":{"maxDeletions":10}}`))
	s.awaitStatus(policies["edited"], "the edit to be known", func(status *v1alpha1.CleanupPolicyStatus) bool { return status.ScheduleSinceTime != nil })
	// An edited policy makes up for no run of before.
	s.expectSuccess(s.kubectl(append([]string{"patch", "clustercleanuppolicy", policies["edited"], "--subresource=status", "--type=merge", "-p",
		`{"status":{"scheduleSinceTime":null}}`}, byController...)...))
	s.makeDue(policies["approved"])
	s.makeDue(policies["edited"])
	approved := s.awaitCleanup(policies["approved"])
	if approved.Deleted != 2 {
		t.Errorf("approved: %+v", approved.LastRun)
	}
	status := s.awaitCleanup(policies["edited"])
	if status.Deleted != 0 || !status.LastRun.DryRun || reasonOf(status, v1alpha1.ConditionStalled) != "True WaitingForApproval" {
		t.Errorf("edited: %+v, %s", status.LastRun, reasonOf(status, v1alpha1.ConditionStalled))
	}
	if left := fmt.Sprint(s.configMapsLeft()); left != "[edited-1 edited-2]" {
		t.Errorf("left %s", left)
	}
	for app, run := range map[string]*v1alpha1.CleanupRun{"approved": approved.LastRun, "edited": status.LastRun} {
		want := map[string]string{"approved": "Deleted 2", "edited": "WouldDelete 2"}[app]
		output := s.expectSuccess(s.curfew("report", policies[app], "--run", run.ID, "-o", "jsonpath={.counts[*].result} {.counts[*].count}")).stdout
		if output != want {
			t.Errorf("the report of %s says %q, want %q", app, output, want)
		}
	}
	// Now there is a dry run of it as it is, which approve shows.
	out := s.expectSuccess(s.approve(policies["edited"]))
	if !strings.Contains(out.stderr, "would delete 2 of ") || !strings.Contains(out.stderr, "edited-2") {
		t.Errorf("approve shows\n%s", out.stderr)
	}
	lifted := s.expectSuccess(s.kubectl("patch", "clustercleanuppolicy", policies["edited"], "--type=merge", "-p", `{"spec":{"suspend":true,"approval":"NotRequired"}}`))
	if !strings.Contains(lifted.stderr, "spec.approval: the policy deletes without an approval from now on") {
		t.Errorf("lifting the approval says\n%s", lifted.stderr)
	}
}

// A run deletes the reports of the old runs of its policy, and none of another policy's.
func TestOldReportsOfCleanupAreDeleted(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	s.newConfigMap("a")
	s.janitor("configmaps")
	name := s.cleanupPolicyAt(lastMinute(), "daily", "janitor", `matchConstraints: {`+allConfigMaps+`}`)
	own := s.jsonpath("cleanuppolicy", name, ".metadata.uid")
	var reports, want []string
	for i := range 7 {
		uid := own
		run := fmt.Sprintf("19700101-000%d-%.8s", i, uid)
		if i == 0 {
			uid = "another"
		}
		report := "daily-" + run + "-1"
		if i == 0 || i > 2 {
			want = append(want, report)
		}
		reports = append(reports, fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: CleanupReport, metadata: {name: %s, labels: {%s: %s, %s: %s}}, policy: {name: daily, uid: %[3]s}, run: %[5]s, page: 1}`,
			report, v1alpha1.LabelCleanupPolicyUID, uid, v1alpha1.LabelCleanupRun, run))
	}
	s.expectSuccess(s.kubectlInput(strings.Join(reports, "\n---\n"), append([]string{"create", "-f", "-"}, byController...)...))
	s.makeDue(name)
	s.poll("old reports to be deleted", func(context.Context) (bool, error) {
		all := strings.Fields(s.kubectl("get", v1alpha1.CleanupReports, "-o", "jsonpath={.items[*].metadata.name}").stdout)
		left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, "daily-19700101-") })
		return len(left) < len(all) && slices.Equal(left, want), nil
	})
}
