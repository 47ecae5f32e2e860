package rules

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// shipped are the profiles that come with Curfew, as admission has them.
func shipped(t *testing.T) policy.Profiles {
	t.Helper()
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	known, err := platform.New(builtin)
	if err != nil {
		t.Fatal(err)
	}
	return known.Snapshot().Profiles
}

// put sets a value below an object, creating what leads there; a name that ends in [] is a list of
// one.
func put(object map[string]any, path string, value any) map[string]any {
	names := strings.Split(path, ".")
	values := object
	for _, name := range names[:len(names)-1] {
		list, isList := strings.CutSuffix(name, "[]")
		inner, ok := values[list].(map[string]any)
		switch {
		case isList:
			inner = map[string]any{}
			values[list] = []any{inner}
		case !ok:
			inner = map[string]any{}
			values[name] = inner
		}
		values = inner
	}
	values[names[len(names)-1]] = value
	return object
}

// Every kind with pod templates, and what hands metadata on to the objects that it creates, denies
// every key by which Curfew would delete or stop these.
func TestKeysInTemplates(t *testing.T) {
	kinds := shipped(t)
	keys := []struct{ where, key, text string }{
		{"annotations", wellknown.AnnotationTTL, "1h"}, {"annotations", wellknown.AnnotationTTLSucceeded, "never"},
		{"annotations", wellknown.AnnotationTTLFailed, "soon"}, {"annotations", wellknown.AnnotationActiveDeadline, "1h"},
		{"labels", wellknown.LabelTTL, "1h"}, {"labels", wellknown.LabelTTL, "2020-01-01"},
	}
	const trainer, patch = "trainer.kubeflow.org", "spec.runtimePatches[].trainingRuntimeSpec.template."
	const claim = "spec.volumes[].ephemeral.volumeClaimTemplate.metadata"
	for _, place := range []struct{ group, kind, metadata, rule string }{
		{"apps", "Deployment", "spec.template.metadata", podTemplateTTL.Name},
		{"apps", "StatefulSet", "spec.template.metadata", podTemplateTTL.Name},
		{"apps", "DaemonSet", "spec.template.metadata", podTemplateTTL.Name},
		{"apps", "ReplicaSet", "spec.template.metadata", podTemplateTTL.Name},
		{"", "ReplicationController", "spec.template.metadata", podTemplateTTL.Name},
		{"", "PodTemplate", "template.metadata", podTemplateTTL.Name},
		{"batch", "Job", "spec.template.metadata", podTemplateTTL.Name},
		{"batch", "CronJob", "spec.jobTemplate.spec.template.metadata", podTemplateTTL.Name},
		{"jobset.x-k8s.io", "JobSet", "spec.replicatedJobs[].template.spec.template.metadata", podTemplateTTL.Name},
		{trainer, "TrainingRuntime", "spec.template.spec.replicatedJobs[].template.spec.template.metadata", podTemplateTTL.Name},
		{trainer, "TrainingRuntime", "spec.template.metadata", forbiddenField.Name},
		{trainer, "ClusterTrainingRuntime", "spec.template.metadata", forbiddenField.Name},
		{trainer, "TrainingRuntime", "spec.template.spec.replicatedJobs[].template.metadata", forbiddenField.Name},
		{trainer, "ClusterTrainingRuntime", "spec.template.spec.replicatedJobs[].template.metadata", forbiddenField.Name},
		{trainer, "TrainJob", "spec", forbiddenField.Name},
		{"jobset.x-k8s.io", "JobSet", "spec.replicatedJobs[].template.metadata", forbiddenField.Name},
		{"", "Pod", claim, forbiddenField.Name},
		{"apps", "Deployment", "spec.template." + claim, forbiddenField.Name},
		{"batch", "CronJob", "spec.jobTemplate.spec.template." + claim, forbiddenField.Name},
		{"jobset.x-k8s.io", "JobSet", "spec.replicatedJobs[].template.spec.template." + claim, forbiddenField.Name},
		{trainer, "TrainJob", patch + "metadata", forbiddenField.Name},
		{trainer, "TrainJob", patch + "spec.replicatedJobs[].template.metadata", forbiddenField.Name},
	} {
		profile := kinds[schema.GroupKind{Group: place.group, Kind: place.kind}]
		if profile == nil {
			t.Errorf("no profile of %s", place.kind)
			continue
		}
		for _, key := range keys {
			object := put(object(place.kind, map[string]any{}), place.metadata+"."+key.where, map[string]any{key.key: key.text})
			found := strings.ReplaceAll(place.metadata, "[]", "[0]") + "." + key.where + "[" + key.key + "]: "
			denials := 0
			for _, got := range judge(Rule{Name: place.rule}, profile, Request{}, nil, object) {
				if strings.HasPrefix(got, "error "+found) {
					denials++
				}
			}
			if denials != 1 {
				t.Errorf("%s with %s%s: %d denials", place.kind, found, key.text, denials)
			}
			if got := judge(Rule{Name: place.rule}, profile, Request{}, object, object); got != nil {
				t.Errorf("%s, unchanged: %q", place.kind, got)
			}
		}
	}
}

func TestKeysInTemplatesSayWhereTheyBelong(t *testing.T) {
	kinds := shipped(t)
	for name, test := range map[string]struct {
		group, kind, path, key string
		options                Options
		rule                   Rule
		want                   string
	}{
		"a label in a Deployment": {"apps", "Deployment", "spec.template.metadata.labels", wellknown.LabelTTL, Options{}, podTemplateTTL,
			"error spec.template.metadata.labels[curfew.dev/ttl]: a pod template cannot have a TTL: set metadata.labels[curfew.dev/ttl] on the Deployment"},
		"a label in a CronJob": {"batch", "CronJob", "spec.jobTemplate.spec.template.metadata.labels", wellknown.LabelTTL, Options{}, podTemplateTTL,
			"error spec.jobTemplate.spec.template.metadata.labels[curfew.dev/ttl]: a pod template cannot have a TTL: set spec.jobTemplate.metadata.labels[curfew.dev/ttl]"},
		"a deadline in a Job": {"batch", "Job", "spec.template.metadata.annotations", wellknown.AnnotationActiveDeadline, Options{}, podTemplateTTL,
			"error spec.template." + at("active-deadline") + ": a pod template cannot have a deadline: set spec.activeDeadlineSeconds"},
		"a deadline in a Deployment": {"apps", "Deployment", "spec.template.metadata.annotations", wellknown.AnnotationActiveDeadline, Options{}, podTemplateTTL,
			"error spec.template." + at("active-deadline") + ": a pod template cannot have a deadline: remove it; what a Deployment runs has no deadline"},
		"the alias": {"apps", "Deployment", "spec.template.metadata.labels", wellknown.LabelKyvernoTTL, Options{KyvernoLabel: true}, podTemplateTTL,
			"error spec.template.metadata.labels[cleanup.kyverno.io/ttl]: a pod template cannot have a TTL: set metadata.labels[cleanup.kyverno.io/ttl] on the Deployment"},
		"the alias, not understood": {"apps", "Deployment", "spec.template.metadata.labels", wellknown.LabelKyvernoTTL, Options{}, podTemplateTTL, ""},
		"a runtime": {"trainer.kubeflow.org", "ClusterTrainingRuntime", "spec.template.metadata.annotations", wellknown.AnnotationTTL, Options{}, forbiddenField,
			"error spec.template." + at("ttl-after-finished") + ": must not be set: the objects that a TrainJob creates inherit it, and a deleted one is created again: " +
				"set metadata.annotations[curfew.dev/ttl-after-finished] on the ClusterTrainingRuntime"},
		"an ephemeral volume": {"batch", "Job", "spec.template.spec.volumes[].ephemeral.volumeClaimTemplate.metadata.labels", wellknown.LabelTTL, Options{}, forbiddenField,
			"error spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels[curfew.dev/ttl]: must not be set: " +
				"the claim of the volume inherits it, and would be deleted while its Pod needs it: set metadata.labels[curfew.dev/ttl] on the Job"},
		"a native TTL in a JobSet": {"jobset.x-k8s.io", "JobSet", "spec.replicatedJobs[].template.spec", "ttlSecondsAfterFinished", Options{}, forbiddenField,
			"error spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished: must not be set: " +
				"it would delete Jobs one by one, and a deleted one is created again; set spec.ttlSecondsAfterFinished on the JobSet"},
		"a TrainJob": {"trainer.kubeflow.org", "TrainJob", "spec.labels", wellknown.LabelTTL, Options{}, forbiddenField,
			"error spec.labels[curfew.dev/ttl]: must not be set: the objects that a TrainJob creates inherit it, and a deleted one is created again: set metadata.labels[curfew.dev/ttl] on the TrainJob"},
	} {
		t.Run(name, func(t *testing.T) {
			object := put(object(test.kind, map[string]any{}), test.path, map[string]any{test.key: "1h"})
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			equal(t, judge(test.rule, kinds[schema.GroupKind{Group: test.group, Kind: test.kind}], Request{Options: test.options}, nil, object), want)
		})
	}
}

// Labels in a CronJob's Job template are the label of each Job; the rule reports their faults where
// they are written.
func TestTTLLabelInAJobTemplate(t *testing.T) {
	const field = "spec.jobTemplate.metadata.labels[curfew.dev/ttl]: "
	cronJob := func(label string) map[string]any {
		return put(object("CronJob", map[string]any{}), "spec.jobTemplate.metadata.labels", map[string]any{wellknown.LabelTTL: label})
	}
	past := []string{"warning " + field + "2026-12-24 expired at 2026-12-24T00:00:00Z: each Job created from this template would be expired from the start; use a later one"}
	bounded := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "1h"), nil)}
	for name, test := range map[string]struct {
		label   string
		old     map[string]any
		request Request
		want    []string
	}{
		"a time from creation":         {label: "1d"},
		"a date to come":               {label: "2026-12-25"},
		"past":                         {label: "2026-12-24", want: past},
		"past, strict":                 {label: "2026-12-24", request: Request{Options: Options{StrictLabels: true}}, want: past},
		"outside the bounds":           {label: "1d", request: Request{Scope: bounded}, want: []string{"error " + field + `1d is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"a date that has passed since": {label: "2026-12-24", old: cronJob("2026-12-24")},
	} {
		t.Run(name, func(t *testing.T) {
			request := test.request
			request.Now = noon
			got := judge(ttlLabel, policy.CronJobProfile, request, test.old, cronJob(test.label))
			equal(t, append(got, judge(expiredLabel, policy.CronJobProfile, request, test.old, cronJob(test.label))...), test.want)
		})
	}
	if got := judge(ttlLabel, policy.CronJobProfile, Request{Now: noon, Options: Options{StrictLabels: true}}, nil, cronJob("soon")); len(got) != 1 || !strings.HasPrefix(got[0], "warning "+field) {
		t.Errorf("a label that cannot be read: %q", got)
	}
	unreadable := put(object("CronJob", map[string]any{}), "spec.jobTemplate.metadata.annotations", map[string]any{wellknown.AnnotationTTL: "soon"})
	if got := judge(readableValue, policy.CronJobProfile, Request{Now: noon}, nil, unreadable); len(got) != 1 {
		t.Errorf("an annotation that cannot be read: %q", got)
	}
}
