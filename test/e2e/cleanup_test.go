package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/v1alpha1"
)

// lastMinute is a schedule for the last whole minute, once a year.
func lastMinute() string {
	t := time.Now().UTC()
	return fmt.Sprintf("%d %d %d %d *", t.Minute(), t.Hour(), t.Day(), int(t.Month()))
}

// cleanupPolicy creates a cleanup policy that runs once, now: of the cluster, restricted to the
// space, or with an account of the space.
func (s *space) cleanupPolicy(name, account, spec string) (created string) {
	s.Helper()
	created = s.cleanupPolicyAt(lastMinute(), name, account, spec)
	s.makeDue(created)
	return created
}

// makeDue has a policy with the schedule of [lastMinute] run now: it becomes older than that, as if
// Curfew had been down at the time. Otherwise each test would wait for a whole minute.
func (s *space) makeDue(name string) {
	s.Helper()
	resource, namespace := v1alpha1.CleanupPolicies, s.name
	if strings.HasPrefix(name, s.name) {
		resource, namespace = v1alpha1.ClusterCleanupPolicies, ""
	}
	s.poll("etcd to have another age of "+name, func(ctx context.Context) (bool, error) {
		return suite.cluster.Age(ctx, v1alpha1.GroupVersion.Group+"/"+resource, namespace, name, now().Add(-hour))
	})
}

// cleanupPolicyAt is cleanupPolicy with a schedule.
func (s *space) cleanupPolicyAt(schedule, name, account, spec string) string {
	s.Helper()
	kind, match := "ClusterCleanupPolicy", fmt.Sprintf("namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, ", s.name)
	if account != "" {
		kind, match, spec = "CleanupPolicy", "", "serviceAccountName: "+account+", "+spec
	} else {
		name = s.name + "-" + name
		s.Cleanup(func() { s.afterwards("delete", "clustercleanuppolicy", name, "--ignore-not-found") })
	}
	spec = strings.Replace(spec, "matchConstraints: {", "matchConstraints: {"+match, 1)
	s.apply(fmt.Sprintf("{apiVersion: curfew.dev/v1alpha1, kind: %s, metadata: {name: %s}, spec: {schedule: %q, %s}}", kind, name, schedule, spec))
	return name
}

// janitor is an account of the space that may delete a resource, and as which Curfew may act.
func (s *space) janitor(resource string) {
	s.Helper()
	s.apply(strings.Join([]string{
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: janitor}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: janitor}, rules: [{apiGroups: [""], resources: [` + resource + `], verbs: [get, list, delete]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: janitor}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: janitor}, subjects: [{kind: ServiceAccount, name: janitor}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}`,
	}, "\n---\n"))
}

// awaitCleanup waits until the run of a policy has ended.
func (s *space) awaitCleanup(name string) *v1alpha1.CleanupPolicyStatus {
	s.Helper()
	return s.awaitStatus(name, "the run of "+name, func(status *v1alpha1.CleanupPolicyStatus) bool {
		return status.LastRun != nil && status.LastRun.Phase != v1alpha1.RunRunning
	})
}

// awaitStatus waits for a status of a policy.
func (s *space) awaitStatus(name, what string, done func(*v1alpha1.CleanupPolicyStatus) bool) *v1alpha1.CleanupPolicyStatus {
	s.Helper()
	out := &v1alpha1.CleanupPolicy{}
	s.poll(what, func(ctx context.Context) (bool, error) {
		object, err := s.readCleanup(ctx, name)
		if err != nil {
			return false, err
		}
		*out = v1alpha1.CleanupPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
			return false, err
		}
		return done(&out.Status), nil
	})
	return &out.Status
}

func (s *space) readCleanup(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	if strings.HasPrefix(name, s.name) {
		return s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)).Get(ctx, name, metav1.GetOptions{})
	}
	return s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)).Namespace(s.name).Get(ctx, name, metav1.GetOptions{})
}

// configMapsLeft are the names of the space's ConfigMaps but for the one of Kubernetes.
func (s *space) configMapsLeft() []string {
	s.Helper()
	list, err := s.objects(configMaps).Namespace(s.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	var out []string
	for i := range list.Items {
		if name := list.Items[i].GetName(); name != "kube-root-ca.crt" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func reasonOf(status *v1alpha1.CleanupPolicyStatus, condition string) string {
	found := meta.FindStatusCondition(status.Conditions, condition)
	if found == nil {
		return "none"
	}
	return string(found.Status) + " " + found.Reason
}

const allConfigMaps = `resourceRules: [{apiGroups: [""], resources: [configmaps]}]`

// A policy deletes what matches and nothing like it, once, and says how many.
func TestCleanupPolicy(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	s.apply(strings.Join([]string{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: match, labels: {app: x}}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: also, labels: {app: x}}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: other-label, labels: {app: z}}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: no-label}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: other-data, labels: {app: x}}, data: {tier: keep}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: no-data, labels: {app: x}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: keep-me, labels: {app: x}}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: protected, labels: {app: x}, annotations: {curfew.dev/protect: "true"}}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: finalized, labels: {app: x}, finalizers: [test.curfew.dev/hold]}, data: {tier: tmp}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: match, labels: {app: x}}, stringData: {tier: tmp}}`,
	}, "\n---\n"))
	s.Cleanup(func() {
		s.afterwards("-n", s.name, "patch", "configmap", "finalized", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	name := s.cleanupPolicy("tmp", "", `matchConstraints: {objectSelector: {matchLabels: {app: x}}, `+allConfigMaps+`},
		exclude: {resourceRules: [{apiGroups: ["*"], resources: ["*"], resourceNames: ["keep-*"]}]},
		variables: [{name: tier, expression: object.data.tier}], conditions: [{name: tmp, expression: 'variables.tier == "tmp"'}]`)
	status := s.awaitCleanup(name)
	if want := []string{"finalized", "keep-me", "no-data", "no-label", "other-data", "other-label", "protected"}; !slices.Equal(s.configMapsLeft(), want) {
		t.Errorf("left %v, want %v", s.configMapsLeft(), want)
	}
	if s.get(configMaps, "finalized").GetDeletionTimestamp() == nil {
		t.Error("the ConfigMap with a finalizer is not being deleted")
	}
	if _, err := suite.cluster.Client.CoreV1().Secrets(s.name).Get(s.ctx, "match", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret: %v", err)
	}
	run := status.LastRun
	var skipped []string
	for _, skipCount := range run.Skipped {
		skipped = append(skipped, fmt.Sprintf("%s %d", skipCount.Reason, skipCount.Count))
	}
	if status.Deleted != 3 || run.Deleted != 3 || run.Matched != 3 {
		t.Errorf("%d deleted in all, in the run %d of %d that match; want 3 each", status.Deleted, run.Deleted, run.Matched)
	}
	if got := fmt.Sprint(skipped); got != "[EvaluationFailed 1 Protected 1]" {
		t.Errorf("skipped %s", got)
	}
	if left := status.UncountedDeletions; len(left) != 0 {
		t.Errorf("uncounted deletions %v, want none", left)
	}
	if got := reasonOf(status, v1alpha1.ConditionStalled); got != "none" {
		t.Errorf("stalled: %s", got)
	}
	reports, err := s.objects(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupReports)).List(s.ctx, metav1.ListOptions{LabelSelector: "curfew.dev/cleanup-run=" + run.ID})
	s.ok(err)
	if len(reports.Items) != 1 || len(reports.Items[0].Object["objects"].([]any)) != 3 {
		t.Errorf("reports: %v", reports.Items)
	}
	s.eventAbout("ClusterCleanupPolicy", name, "CleanupCompleted", "deleted 3 of")
}

// A namespaced policy acts as its service account, in its own namespace, and stalls where that may
// not delete.
func TestCleanupWithTheRightsOfAnAccount(t *testing.T) {
	parallel(t)
	s, other := labelSpace(t), newSpace(t)
	for _, each := range []*space{s, other} {
		each.newConfigMap("a")
		each.apply("{apiVersion: v1, kind: Secret, metadata: {name: a}}")
	}
	s.janitor("configmaps")
	name := s.cleanupPolicy("all", "janitor", `matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps, secrets]}]}`)
	missing := s.cleanupPolicy("unknown-account", "unknown-account", `matchConstraints: {`+allConfigMaps+`}`)
	status := s.awaitCleanup(name)
	if left := s.configMapsLeft(); len(left) != 0 || status.Deleted != 1 {
		t.Errorf("left %v, deleted %d: %+v", left, status.Deleted, status.LastRun)
	}
	if got := reasonOf(status, v1alpha1.ConditionPermissionsGranted); got != "False Forbidden" {
		t.Errorf("permissions: %s", got)
	}
	if found := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled); found == nil || !strings.Contains(found.Message, "list secrets") {
		t.Errorf("stalled: %+v", found)
	}
	waits := s.awaitStatus(missing, "the run of "+missing+" to stall", func(status *v1alpha1.CleanupPolicyStatus) bool {
		return status.LastRun != nil && reasonOf(status, v1alpha1.ConditionStalled) != "none"
	})
	if waits.LastRun.Phase != v1alpha1.RunRunning || waits.Deleted != 0 || reasonOf(waits, v1alpha1.ConditionStalled) != "True Forbidden" ||
		reasonOf(waits, v1alpha1.ConditionPermissionsGranted) != "False Forbidden" {
		t.Errorf("an account without rights: %+v", waits)
	}
	s.awaitMetrics("both policies to count as stalled", func(text string) bool {
		return len(grep(text, `curfew_cleanup_stalled_policies{namespace="`+s.name+`",policy="",reason="Forbidden"} 2`)) == 1
	})
	for _, each := range []*space{s, other} {
		if _, err := suite.cluster.Client.CoreV1().Secrets(each.name).Get(each.ctx, "a", metav1.GetOptions{}); err != nil {
			t.Errorf("the Secret: %v", err)
		}
	}
	if left := other.configMapsLeft(); len(left) != 1 {
		t.Errorf("in another namespace: %v", left)
	}
}

// An author who may not delete what a policy matches cannot delete it through the policy's account.
func TestCleanupPolicyOfThoseWhoMayNotDelete(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.apply(strings.Join([]string{
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: author}, rules: [{apiGroups: [curfew.dev], resources: [cleanuppolicies], verbs: [create]}, {apiGroups: [""], resources: [configmaps], verbs: [get, list]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: author}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: author}, subjects: [{kind: User, name: ann}]}`,
	}, "\n---\n"))
	create := func() output {
		return s.kubectlInput(`{apiVersion: curfew.dev/v1alpha1, kind: CleanupPolicy, metadata: {name: all}, spec: {schedule: "@yearly", serviceAccountName: janitor, matchConstraints: {`+allConfigMaps+`}}}`,
			"create", "-f", "-", "--dry-run=server", "--as=ann")
	}
	want := denied("policies.curfew.dev", `spec.matchConstraints.resourceRules: the policy deletes objects, but you may not delete configmaps in namespace "`+s.name+`": ask for this permission, or match less`)
	s.poll("the denial", func(context.Context) (bool, error) {
		out := create()
		return out.failed && strings.Contains(out.stderr, want), nil
	})
	s.expectSuccess(s.kubectl("create", "role", "deleter", "--verb=delete", "--resource=configmaps"))
	s.expectSuccess(s.kubectl("create", "rolebinding", "deleter", "--role=deleter", "--user=ann"))
	s.poll("the permission of ann", func(context.Context) (bool, error) { return !create().failed, nil })
}

// Without an account, a policy of the cluster deletes Jobs and Pods by Curfew's own permissions.
func TestCleanupOfJobsAndPods(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	jobs, pods := map[string]*batchv1.Job{}, map[string]*corev1.Pod{}
	for _, app := range []string{"x", "z"} {
		job, pod := job("job-"+app, inTemplate(hold, "true")), pod("pod-"+app, corev1.RestartPolicyNever, hold, "true")
		job.Labels, pod.Labels = map[string]string{"app": app}, map[string]string{"app": app}
		jobs[app], pods[app] = s.newJob(job), s.newPod(pod)
	}
	s.cleanupPolicy("work", "", `matchConstraints: {objectSelector: {matchLabels: {app: x}}, resourceRules: [{apiGroups: [batch], resources: [jobs]}, {apiGroups: [""], resources: [pods]}]},
		conditions: [{name: here, expression: 'namespaceObject.metadata.name == "`+s.name+`"'}]`)
	s.awaitGone(jobs["x"])
	s.awaitGone(pods["x"])
	s.stillThere(jobs["z"])
	s.stillThere(pods["z"])
}

// A policy of a namespace waits for its approval, too.
func TestCleanupApprovalInANamespace(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	s.newConfigMap("a")
	s.janitor("configmaps")
	status := s.awaitCleanup(s.cleanupPolicy("asks", "janitor", `approval: Required, matchConstraints: {`+allConfigMaps+`}`))
	if got := reasonOf(status, v1alpha1.ConditionStalled); got != "True WaitingForApproval" || len(s.configMapsLeft()) != 1 {
		t.Errorf("stalled: %s, left %v", got, s.configMapsLeft())
	}
}

// Permissions that are missing show before the first run. Those that are taken away in the middle
// of one stall it, and it goes on when they are granted again, with exact counts.
func TestCleanupPermissionRevokedInMidRun(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	const binding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: janitor}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: janitor}, subjects: [{kind: ServiceAccount, name: janitor}]}`
	s.apply(strings.Join([]string{
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: janitor}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: janitor}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, delete]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}`,
	}, "\n---\n"))
	const objects, pass = 60, 10
	s.manyConfigMaps(objects)
	count, release := s.holdDeletes("configmaps", pass)
	name := s.cleanupPolicy("all", "janitor", `matchConstraints: {objectSelector: {matchLabels: {app: x}}, `+allConfigMaps+`}, conditions: [{name: slow, expression: '!lookup.owned'}]`)
	status := func(what string, done func(*v1alpha1.CleanupPolicyStatus) bool) *v1alpha1.CleanupPolicyStatus {
		t.Helper()
		return s.awaitStatus(name, what, done)
	}
	status("the missing permission", func(status *v1alpha1.CleanupPolicyStatus) bool {
		return reasonOf(status, v1alpha1.ConditionPermissionsGranted) == "False Forbidden"
	})
	s.apply(binding)
	s.poll("some deletions", func(context.Context) (bool, error) { return count() > pass, nil })
	s.expectSuccess(s.kubectl("delete", "rolebinding", "janitor"))
	s.poll("the API server to know", func(context.Context) (bool, error) {
		return s.kubectl("auth", "can-i", "delete", "configmaps", "--as=system:serviceaccount:"+s.name+":janitor").failed, nil
	})
	release()
	stalled := status("the run to stall", func(status *v1alpha1.CleanupPolicyStatus) bool {
		return reasonOf(status, v1alpha1.ConditionStalled) == "True Forbidden" && reasonOf(status, v1alpha1.ConditionPermissionsGranted) == "False Forbidden"
	})
	if left := len(s.configMapsLeft()); stalled.LastRun.Phase != v1alpha1.RunRunning || left != objects-pass {
		t.Errorf("%d are left, want %d; run %+v", left, objects-pass, stalled.LastRun)
	}
	s.apply(binding)
	if status := s.awaitCleanup(name); status.Deleted != objects || status.LastRun.Phase != v1alpha1.RunCompleted || len(s.configMapsLeft()) != 0 ||
		reasonOf(status, v1alpha1.ConditionPermissionsGranted) != "True Granted" {
		t.Errorf("of %d, %d are counted and %d left; run %+v", objects, status.Deleted, len(s.configMapsLeft()), status.LastRun)
	}
}

// manyConfigMaps creates ConfigMaps with a label.
func (s *space) manyConfigMaps(count int) {
	s.Helper()
	group, ctx := errgroup.WithContext(s.ctx)
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			_, err := suite.cluster.Client.CoreV1().ConfigMaps(s.name).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"app": "x"}}}, metav1.CreateOptions{})
			return err
		})
	}
	s.ok(group.Wait())
}

// The controller is killed in the middle of a run, when the API server has carried out some DELETEs
// whose answers it never reads. The next one goes on with the run, and the counts are exact.
func TestCleanupKilledInMidRun(t *testing.T) {
	s := labelSpace(t)
	defer restartController(s)()
	const objects, pass = 60, 20
	s.manyConfigMaps(objects)
	count, release := s.holdDeletes("configmaps", pass)
	name := s.cleanupPolicy("killed", "", `matchConstraints: {objectSelector: {matchLabels: {app: x}}, `+allConfigMaps+`}`)
	s.poll("some deletions", func(context.Context) (bool, error) {
		return count() > pass && len(s.configMapsLeft()) == objects-pass, nil
	})
	s.ok(suite.controller.Kill())
	release()
	s.ok(startController(s.ctx))
	status := s.awaitCleanup(name)
	if run := status.LastRun; status.Deleted != objects || run.Deleted != objects || run.Matched != objects || len(s.configMapsLeft()) != 0 {
		t.Errorf("of %d, %d are counted and %d left; run %+v", objects, status.Deleted, len(s.configMapsLeft()), run)
	}
	output := s.expectSuccess(s.curfew("report", name, "-o", `jsonpath={range .counts[*]}{.result} {.count};{end}`)).stdout
	if output != fmt.Sprintf("Deleted %d;Gone %d;", objects-pass, pass) {
		t.Errorf("the report counts %s", output)
	}
}

// API Priority and Fairness tells the requests of ClusterCleanupPolicies from the controller's. The
// requests of a CleanupPolicy count as its account's.
func TestCleanupHasItsFlowSchema(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	for user, want := range map[string]string{
		"system:serviceaccount:curfew-system:curfew-cleanup":    "curfew-cleanup",
		"system:serviceaccount:curfew-system:curfew-controller": "curfew-controller",
		"system:serviceaccount:" + s.name + ":janitor":          "service-accounts",
	} {
		config := rest.CopyConfig(suite.cluster.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
		client, err := rest.HTTPClientFor(config)
		s.ok(err)
		request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, config.Host+"/api/v1/namespaces/"+s.name+"/pods", nil)
		s.ok(err)
		response, err := client.Do(request)
		s.ok(err)
		s.ok(response.Body.Close())
		schema, err := suite.cluster.Client.FlowcontrolV1().FlowSchemas().Get(s.ctx, want, metav1.GetOptions{})
		s.ok(err)
		if got := response.Header.Get("X-Kubernetes-PF-FlowSchema-UID"); got != string(schema.UID) {
			t.Errorf("requests of %s are in FlowSchema %q, want that of %s", user, got, want)
		}
	}
}
