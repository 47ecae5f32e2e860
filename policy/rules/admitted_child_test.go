package rules

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// What a known controller creates for an owner passes every deny rule, with a warning: the
// controller carries out what was written before the rule was there.
func TestChildrenOfControllersAreAdmitted(t *testing.T) {
	annotated := map[string]any{wellknown.AnnotationTTL: "1h"}
	replicaSet := func() map[string]any {
		set := put(object("ReplicaSet", map[string]any{}), "spec.template.metadata.annotations", annotated)
		return controlled(set, "apps/v1", "Deployment", "web")
	}
	pod := builders.MakePod("ci", "web-1").ControlledBy("apps/v1", "ReplicaSet", "web").Annotation(wellknown.AnnotationTTL, "1h").RestartPolicy("Always")
	job := builders.MakeJob("ci", "nightly-1").ControlledBy("batch/v1", "CronJob", "nightly").TTL(-1).Label(wellknown.LabelTTL, "2026-12-24")
	unowned := put(object("ReplicaSet", map[string]any{}), "spec.template.metadata.annotations", annotated)
	notController := replicaSet()
	owners, _ := notController["metadata"].(map[string]any)["ownerReferences"].([]any)
	owners[0].(map[string]any)["controller"] = false
	strict := Options{StrictLabels: true, RequireDelete: true}
	profiles := shipped(t)
	const system, builder = "system:serviceaccount:kube-system:deployment-controller", "system:serviceaccount:argocd:argocd-application-controller"
	const tenant, operator, trainer = "system:serviceaccount:ci:default", "system:serviceaccount:ml:operator", "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"
	const sets, cron, jobSets, argo = "system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccount:kube-system:cronjob-controller", "system:serviceaccount:jobset-system:jobset-controller-manager", "system:serviceaccount:argo:argo"
	strict.ControllerAccounts = []string{operator}
	tooShort := builders.MakeJob("ci", "nightly-1").ControlledBy("v1", "ConfigMap", "mine").TTL(-1)
	ownedJob := func(apiVersion, kind string) map[string]any {
		return builders.MakeJob("ci", "a-1").ControlledBy(apiVersion, kind, "a").TTL(-1).Map()
	}
	labelled := func(kind, apiVersion, ownerKind string) map[string]any {
		return controlled(put(object(kind, nil), "metadata.labels", map[string]any{wellknown.LabelTTL: "2020-12-24"}), apiVersion, ownerKind, "a")
	}
	workflow := profiles[schema.GroupKind{Group: "argoproj.io", Kind: "Workflow"}]
	forbidden := controlled(object("TrainingRuntime", map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{
		map[string]any{"template": map[string]any{"spec": map[string]any{"activeDeadlineSeconds": int64(1)}}}}}}}), "v1", "ConfigMap", "mine")
	for name, test := range map[string]struct {
		user        string
		profile     *policy.Profile
		old, object map[string]any
		allowed     bool
	}{
		"a rollout of a Deployment older than the rule": {user: system, profile: policy.ReplicaSetProfile, object: replicaSet(), allowed: true},
		"the same by the controller manager's own name": {user: "system:kube-controller-manager", profile: policy.ReplicaSetProfile, object: replicaSet(), allowed: true},
		"its Pods":                              {user: sets, profile: policy.PodProfile, object: pod.Map(), allowed: true},
		"a CronJob's next Job":                  {user: cron, profile: policy.JobProfile, object: job.Map(), allowed: true},
		"a tenant's account, its own owner":     {user: tenant, profile: policy.JobProfile, object: tooShort.Map()},
		"a tenant's account, a CronJob's Job":   {user: tenant, profile: policy.JobProfile, object: job.Map()},
		"a tenant's account, a runtime":         {user: tenant, profile: trainingRuntime, object: forbidden},
		"an account with a like name":           {user: "system:serviceaccount:kube-system:deployment-controller2", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"the scheduler":                         {user: "system:kube-scheduler", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"a node":                                {user: "system:node:a", profile: policy.PodProfile, object: pod.Map()},
		"an account that the flag names":        {user: operator, profile: policy.JobProfile, object: tooShort.Map(), allowed: true},
		"Trainer, a TrainJob's JobSet":          {user: trainer, profile: profiles[jobSetKind], object: labelled("JobSet", "trainer.kubeflow.org/v1alpha1", "TrainJob"), allowed: true},
		"JobSet, its own Job":                   {user: jobSets, profile: policy.JobProfile, object: ownedJob("jobset.x-k8s.io/v1alpha2", "JobSet"), allowed: true},
		"Argo, a CronWorkflow's Workflow":       {user: argo, profile: workflow, object: labelled("Workflow", "argoproj.io/v1alpha1", "CronWorkflow"), allowed: true},
		"Trainer, an owner without a profile":   {user: trainer, profile: policy.JobProfile, object: tooShort.Map()},
		"Trainer, a CronJob's Job":              {user: trainer, profile: policy.JobProfile, object: job.Map()},
		"Trainer, a JobSet's Job":               {user: trainer, profile: policy.JobProfile, object: ownedJob("jobset.x-k8s.io/v1alpha2", "JobSet")},
		"Argo, a TrainJob's JobSet":             {user: argo, profile: profiles[jobSetKind], object: labelled("JobSet", "trainer.kubeflow.org/v1alpha1", "TrainJob")},
		"Argo, a Workflow of another group":     {user: argo, profile: workflow, object: labelled("Workflow", "example.com/v1", "CronWorkflow")},
		"JobSet, the kind of another group":     {user: jobSets, profile: policy.JobProfile, object: ownedJob("example.com/v1", "JobSet")},
		"a CronJob's controller, other Pods":    {user: cron, profile: policy.PodProfile, object: pod.Map()},
		"by a person":                           {user: "jane", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by an unknown user, as lint":           {profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by an administrator":                   {user: "system:admin", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by an anonymous user":                  {user: "system:anonymous", profile: policy.ReplicaSetProfile, object: replicaSet()},
		"by a GitOps tool, a root object":       {user: builder, profile: policy.ReplicaSetProfile, object: unowned},
		"by a service account, a plain owner":   {user: system, profile: policy.ReplicaSetProfile, object: notController},
		"by a service account, changed later":   {user: system, profile: policy.ReplicaSetProfile, old: controlled(object("ReplicaSet", map[string]any{}), "apps/v1", "Deployment", "web"), object: replicaSet()},
		"by a service account, scaled later":    {user: system, profile: policy.ReplicaSetProfile, old: replicaSet(), object: put(replicaSet(), "spec.replicas", int64(2)), allowed: true},
		"a Deployment older than the rule, too": {user: "jane", profile: policy.DeploymentProfile, old: unowned, object: unowned, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			request := &Request{Operation: Create, User: User{Name: test.user}, Object: test.object, Now: noon, Options: strict, Access: Access{User: No},
				Facts: policy.FactsOfObject(test.profile, test.object), Scope: &resolution.Scope{Creating: test.old == nil}}
			if test.old != nil {
				request.Operation, request.Old, request.OldFacts = Update, test.old, policy.FactsOfObject(test.profile, test.old)
			}
			effective := resolution.Resolve(request.Facts, request.Scope)
			request.Effective = &effective
			decision := Review(request)
			if request.ByController(profiles) {
				request.AdmitChild(decision, nil)
			}
			if decision.Allowed() != test.allowed {
				t.Errorf("allowed %v: %s", decision.Allowed(), decision.Reason())
			}
			if test.old == nil && len(decision.Findings) == 0 {
				t.Error("nothing is said")
			}
		})
	}
}

// Without a value that the owner has, a denial stays.
func TestChildIsDeniedForItsOwnValue(t *testing.T) {
	profile := shipped(t)[jobSetKind]
	spec := func(ttl int64) map[string]any {
		return map[string]any{"replicatedJobs": []any{map[string]any{"template": map[string]any{"spec": map[string]any{"ttlSecondsAfterFinished": ttl}}}}}
	}
	child := controlled(put(object("JobSet", spec(-1)), "metadata.labels", map[string]any{wellknown.LabelTTL: "2020-12-24"}), "example.com/v1", "Batch", "a")
	const template, label = "spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished", "metadata.labels[curfew.dev/ttl]"
	for name, c := range map[string]struct {
		owner map[string]any
		stay  []string
	}{
		"it has both":   {map[string]any{"spec": map[string]any{"of": spec(-1), "labels": map[string]any{wellknown.LabelTTL: "2020-12-24"}}}, nil},
		"another label": {map[string]any{"spec": map[string]any{"of": spec(-1), "labels": map[string]any{wellknown.LabelTTL: "2020-12-25"}}}, []string{label}},
		"another TTL":   {map[string]any{"spec": map[string]any{"of": spec(-2), "labels": map[string]any{wellknown.LabelTTL: "2020-12-24"}}}, []string{template}},
		"it is gone":    {nil, []string{template, label}},
	} {
		t.Run(name, func(t *testing.T) {
			request := &Request{Operation: Create, User: User{Name: policy.ControllerManager}, Object: child, Now: noon, Facts: policy.FactsOfObject(profile, child), Scope: &resolution.Scope{Creating: true}}
			decision := Review(request)
			request.AdmitChild(decision, func(denial Finding) bool { return policy.CarriedBy(c.owner, child, denial.Field) })
			var stay []string
			for _, denial := range decision.Denials() {
				stay = append(stay, denial.Field)
			}
			equal(t, slices.Compact(stay), c.stay) // The profile forbids the TTL, too.
		})
	}
}

func controlled(object map[string]any, apiVersion, kind, name string) map[string]any {
	object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "u", "controller": true}}
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
	labelled["metadata"].(map[string]any)["labels"] = map[string]any{wellknown.LabelTTL: "1d"}
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
