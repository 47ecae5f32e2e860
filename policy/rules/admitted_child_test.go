package rules

import (
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

// What a service account or the system creates for a controller passes every deny rule, with a
// warning: the controller carries out what was written before the rule was there.
func TestChildrenOfControllersAreAdmitted(t *testing.T) {
	annotated := map[string]any{policy.AnnotationTTL: "1h"}
	replicaSet := func() map[string]any {
		set := put(object("ReplicaSet", map[string]any{}), "spec.template.metadata.annotations", annotated)
		return controlled(set, "apps/v1", "Deployment", "web")
	}
	pod := builders.MakePod("ci", "web-1").ControlledBy("apps/v1", "ReplicaSet", "web").Annotation(policy.AnnotationTTL, "1h").RestartPolicy("Always")
	job := builders.MakeJob("ci", "nightly-1").ControlledBy("batch/v1", "CronJob", "nightly").TTL(-1).Label(policy.LabelTTL, "2026-12-24")
	unowned := put(object("ReplicaSet", map[string]any{}), "spec.template.metadata.annotations", annotated)
	notController := replicaSet()
	owners, _ := notController["metadata"].(map[string]any)["ownerReferences"].([]any)
	owners[0].(map[string]any)["controller"] = false
	strict := Options{StrictLabels: true, RequireDelete: true}
	const system, builder = "system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:argocd:argocd-application-controller"
	for name, test := range map[string]struct {
		user        string
		profile     *policy.Profile
		old, object map[string]any
		allowed     bool
	}{
		"a rollout of a Deployment older than the rule": {user: system, profile: policy.ReplicaSetProfile, object: replicaSet(), allowed: true},
		"the same by the controller manager's own name": {user: "system:kube-controller-manager", profile: policy.ReplicaSetProfile, object: replicaSet(), allowed: true},
		"its Pods":                              {user: system, profile: policy.PodProfile, object: pod.Map(), allowed: true},
		"a CronJob's next Job":                  {user: system, profile: policy.JobProfile, object: job.Map(), allowed: true},
		"by a person":                           {user: "jane", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by nobody known, as lint":              {profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by an administrator":                   {user: "system:admin", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by nobody":                             {user: "system:anonymous", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by a GitOps tool, a root object":       {user: builder, profile: policy.ReplicaSetProfile, object: unowned},
		"by a service account, a plain owner":   {user: system, profile: policy.ReplicaSetProfile, object: notController},
		"by a service account, changed later":   {user: system, profile: policy.ReplicaSetProfile, old: controlled(object("ReplicaSet", map[string]any{}), "apps/v1", "Deployment", "web"), object: replicaSet()},
		"by a service account, scaled later":    {user: system, profile: policy.ReplicaSetProfile, old: replicaSet(), object: put(replicaSet(), "spec.replicas", int64(2)), allowed: true},
		"a Deployment older than the rule, too": {user: "jane", profile: policy.DeploymentProfile, old: unowned, object: unowned, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			request := &Request{Operation: Create, User: User{Name: test.user}, Object: test.object, Now: noon, Options: strict, Access: Access{User: No},
				Facts: policy.FactsOfObject(test.profile, test.object), Scope: &policy.Scope{Creating: test.old == nil}}
			if test.old != nil {
				request.Operation, request.Old, request.OldFacts = Update, test.old, policy.FactsOfObject(test.profile, test.old)
			}
			effective := policy.Resolve(request.Facts, request.Scope)
			request.Effective = &effective
			decision := Review(request)
			if decision.Allowed() != test.allowed {
				t.Errorf("allowed %v: %s", decision.Allowed(), decision.Reason())
			}
			if test.old == nil && len(decision.Findings) == 0 {
				t.Error("nothing is said")
			}
		})
	}
	request := Request{User: User{Name: system}}
	equal(t, judge(podTemplateTTL, policy.ReplicaSetProfile, request, nil, replicaSet()), []string{
		"warning spec.template." + at("ttl-after-finished") + ": admitted only because Deployment web controls it: a pod template cannot have a TTL: remove it; what a ReplicaSet runs does not finish"})
}

func controlled(object map[string]any, apiVersion, kind, name string) map[string]any {
	object["metadata"].(map[string]any)["ownerReferences"] = []any{
		map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "u", "controller": true}}
	return object
}

// Trainer creates the JobSet of a TrainJob again when it is gone.
func TestTTLOnTheJobSetOfATrainJob(t *testing.T) {
	profile := shipped(t)[jobSetKind]
	const why = "TrainJob a controls this JobSet, and runs again after the JobSet is deleted: set metadata.annotations[curfew.dev/ttl-after-finished] on the TrainJob or its runtime"
	jobSet := func(spec map[string]any, annotations ...string) map[string]any {
		return controlled(object("JobSet", spec, annotations...), "trainer.kubeflow.org/v1alpha1", "TrainJob", "a")
	}
	native := map[string]any{"ttlSecondsAfterFinished": int64(3600)}
	labelled := jobSet(nil)
	labelled["metadata"].(map[string]any)["labels"] = map[string]any{policy.LabelTTL: "1d"}
	person, trainer := Request{User: User{Name: "jane"}}, Request{User: User{Name: "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"}}
	annotated := jobSet(nil, "ttl-after-failed", "1h")
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(nil), annotated), []string{"error " + at("ttl-after-failed") + ": " + why})
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(nil), jobSet(native)), []string{"error spec.ttlSecondsAfterFinished: " + why})
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(nil), labelled), []string{"error metadata.labels[curfew.dev/ttl]: " + why})
	equal(t, judge(trainJobsJobSet, profile, person, nil, jobSet(native)), []string{"error spec.ttlSecondsAfterFinished: " + why})
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(native), jobSet(native, "protect", "true")), nil)
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(native), jobSet(nil)), nil)
	equal(t, judge(trainJobsJobSet, profile, person, jobSet(nil), jobSet(nil, "ttl-after-finished", "never")), nil)
	equal(t, judge(trainJobsJobSet, profile, person, nil, object("JobSet", native)), nil)
	equal(t, judge(trainJobsJobSet, profile, trainer, jobSet(nil), jobSet(native)), []string{"warning spec.ttlSecondsAfterFinished: " + why})
	equal(t, judge(trainJobsJobSet, profile, trainer, nil, jobSet(native)), []string{"warning spec.ttlSecondsAfterFinished: " + why})
}
