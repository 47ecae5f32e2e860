package policy

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

func TestInherited(t *testing.T) {
	template := func(under, key, value string) map[string]any {
		return map[string]any{"template": map[string]any{"metadata": map[string]any{under: map[string]any{key: value}}}}
	}
	const ttl, failed, set = wellknown.LabelTTL, wellknown.AnnotationTTLFailed, "apps/v1 ReplicaSet"
	spec := func(under, key, value string) map[string]any {
		return map[string]any{"spec": template(under, key, value)}
	}
	labelled := map[string]any{"uid": "uid-a", "labels": map[string]any{ttl: "1h"}}
	sets := map[string]any{"replicatedJobs": []any{map[string]any{}, template("labels", ttl, "2026-12-24")}}
	driver := map[string]any{"driver": map[string]any{"labels": map[string]any{ttl: "1h"}}}
	stored := map[string]any{"storedTemplates": map[string]any{"a": template("labels", ttl, "1h")}}
	for name, test := range map[string]struct {
		profile    *Profile // PodProfile, unless given
		owner      string
		key, value string // of the object
		asked      []string
		read       map[string]any // the owner, or the object itself
		asks       bool
		want       string // part of the report; "" if the value counts
	}{
		"Pod of a ReplicaSet, label": {owner: set, key: ttl, value: "1h", asks: true, read: spec("labels", ttl, "1h"), want: `metadata.labels[curfew.dev/ttl]: "1h" comes from the template of ReplicaSet owner`},
		"Pod of a Job, annotation by outcome": {owner: "batch/v1 Job", key: failed, value: "5m", asked: wellknown.TTLAnnotations, asks: true, read: spec("annotations", failed, "5m"),
			want: `metadata.annotations[curfew.dev/ttl-after-failed]: "5m" comes from the template of Job owner`},
		"Job of a JobSet, in a list": {profile: JobProfile, owner: "jobset.x-k8s.io/v1alpha2 JobSet", key: ttl, value: "2026-12-24", asks: true, read: map[string]any{"spec": sets},
			want: "comes from the template of JobSet owner"},
		"driver of a SparkApplication, where templates have no metadata": {owner: "sparkoperator.k8s.io/v1beta2 SparkApplication", key: ttl, value: "1h", asks: true,
			read: map[string]any{"spec": driver}, want: "comes from the template"},
		"Pod of a Workflow, whose template is in its status": {owner: "argoproj.io/v1alpha1 Workflow", key: ttl, value: "1h", asks: true, read: map[string]any{"status": stored}, want: "comes from the template"},
		"the alias": {owner: "apps/v1 DaemonSet", key: wellknown.LabelKyvernoTTL, value: "1h", asks: true, read: spec("labels", wellknown.LabelKyvernoTTL, "1h"), want: "metadata.labels[cleanup.kyverno.io/ttl]"},
		"another value than the template's is its author's": {owner: set, key: ttl, value: "2h", asks: true, read: spec("labels", ttl, "1h")},
		"the owner's own label":                             {owner: set, key: ttl, value: "1h", asks: true, read: map[string]any{"metadata": labelled, "spec": map[string]any{}}},
		"an orphan":                                         {owner: set, key: ttl, value: "1h", asks: true},
		"a CronJob's Job":                                   {profile: JobProfile, owner: "batch/v1 CronJob", key: ttl, value: "1h"},
		"nothing that limits it":                            {owner: set, key: "app", value: "web", asked: []string{ttl}},
		"an annotation says nothing for a label":            {owner: set, key: failed, value: "1h", asked: []string{ttl}},
		"a ReplicationController, whose labels are its template's": {profile: ReplicationControllerProfile, key: ttl, value: "1h", asks: true,
			read: map[string]any{"metadata": map[string]any{"uid": "uid-a"}, "spec": template("labels", ttl, "1h")},
			want: `comes from the template of ReplicationController a, whose labels apply to its Pods, and to itself if it has none: remove it there`},
		"a ReplicationController with a label of its own": {profile: ReplicationControllerProfile, key: ttl, value: "1h", asks: true,
			read: map[string]any{"metadata": labelled, "spec": template("labels", "app", "web")}},
		"a Deployment's labels are its own": {profile: DeploymentProfile, key: ttl, value: "1h"},
		"no owner":                          {key: ttl, value: "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &Facts{Profile: cmp.Or(test.profile, PodProfile), Namespace: "ci", Name: "a", UID: "uid-a"}
			if facts.Labels = map[string]string{test.key: test.value}; test.key == failed {
				facts.Labels, facts.Annotations = nil, facts.Labels
			}
			if apiVersion, kind, ok := strings.Cut(test.owner, " "); ok {
				facts.Owner = &metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "uid"}
			}
			if test.asked == nil {
				test.asked = []string{test.key}
			}
			owners := facts.TemplateOwners(test.asked...)
			if got := len(owners) == 1; got != test.asks {
				t.Errorf("TemplateOwners are %v, want one: %v", owners, test.asks)
			}
			if len(owners) == 0 {
				return
			}
			verdict, ok := facts.Inherited(owners[0], test.read, test.asked...)
			if ok != (test.want != "") {
				t.Fatalf("inherits %+v: %v, want %v", verdict, ok, test.want != "")
			}
			if ok && (verdict.Action != Keep || verdict.Err == nil || !strings.Contains(verdict.Err.Error(), test.want)) {
				t.Errorf("%s: %v; want it kept for %s", verdict.Action, verdict.Err, test.want)
			}
		})
	}
}

func TestOwnerUnreadable(t *testing.T) {
	facts := &Facts{Profile: PodProfile, Owner: &metav1.OwnerReference{Kind: "ReplicaSet", Name: "web"}}
	verdict := facts.OwnerUnreadable(facts.Owner, errors.New("forbidden"))
	if want := "ReplicaSet web cannot be read, and its template may contain the value: forbidden"; verdict.Action != Keep || verdict.Err == nil || verdict.Err.Error() != want {
		t.Errorf("%s: %v; want it kept: %s", verdict.Action, verdict.Err, want)
	}
}
