package policy

import (
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
	root := map[string]any{"metadata": map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1h"}}, "spec": map[string]any{}}
	for name, test := range map[string]struct {
		profile             *Profile
		apiVersion, kind    string
		labels, annotations map[string]string
		owner               map[string]any
		keys                []string
		asks                bool
		want                string // part of the report; "" if the value counts
	}{
		"Pod of a ReplicaSet, label": {
			apiVersion: "apps/v1", kind: "ReplicaSet", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"spec": template("labels", wellknown.LabelTTL, "1h")},
			want:  `metadata.labels[curfew.dev/ttl]: "1h" comes from the template of ReplicaSet owner`,
		},
		"Pod of a Job, annotation by outcome": {
			apiVersion: "batch/v1", kind: "Job", annotations: map[string]string{wellknown.AnnotationTTLFailed: "5m"}, keys: wellknown.TTLAnnotations, asks: true,
			owner: map[string]any{"spec": template("annotations", wellknown.AnnotationTTLFailed, "5m")},
			want:  `metadata.annotations[curfew.dev/ttl-after-failed]: "5m" comes from the template of Job owner`,
		},
		"Job of a JobSet, in a list": {
			profile: JobProfile, apiVersion: "jobset.x-k8s.io/v1alpha2", kind: "JobSet", labels: map[string]string{wellknown.LabelTTL: "2026-12-24"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{}, template("labels", wellknown.LabelTTL, "2026-12-24")}}},
			want:  "comes from the template of JobSet owner",
		},
		"driver of a SparkApplication, where templates have no metadata": {
			apiVersion: "sparkoperator.k8s.io/v1beta2", kind: "SparkApplication", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"spec": map[string]any{"driver": map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1h"}}}},
			want:  "comes from the template",
		},
		"Pod of a Workflow, whose template is in its status": {
			apiVersion: "argoproj.io/v1alpha1", kind: "Workflow", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"status": map[string]any{"storedTemplates": map[string]any{"a": template("labels", wellknown.LabelTTL, "1h")}}},
			want:  "comes from the template",
		},
		"the alias": {
			apiVersion: "apps/v1", kind: "DaemonSet", labels: map[string]string{wellknown.LabelKyvernoTTL: "1h"}, keys: []string{wellknown.LabelKyvernoTTL}, asks: true,
			owner: map[string]any{"spec": template("labels", wellknown.LabelKyvernoTTL, "1h")}, want: "metadata.labels[cleanup.kyverno.io/ttl]",
		},
		"another value than the template's is its author's": {
			apiVersion: "apps/v1", kind: "ReplicaSet", labels: map[string]string{wellknown.LabelTTL: "2h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"spec": template("labels", wellknown.LabelTTL, "1h")},
		},
		"the owner's own label": {
			apiVersion: "apps/v1", kind: "ReplicaSet", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true, owner: root,
		},
		"an orphan": {
			apiVersion: "apps/v1", kind: "ReplicaSet", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
		},
		"a CronJob's Job": {
			profile: JobProfile, apiVersion: "batch/v1", kind: "CronJob", labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL},
		},
		"nothing that limits it":                 {apiVersion: "apps/v1", kind: "ReplicaSet", labels: map[string]string{"app": "web"}, keys: []string{wellknown.LabelTTL}},
		"an annotation says nothing for a label": {apiVersion: "apps/v1", kind: "ReplicaSet", annotations: map[string]string{wellknown.AnnotationTTL: "1h"}, keys: []string{wellknown.LabelTTL}},
		"a ReplicationController, whose labels are its template's": {
			profile: ReplicationControllerProfile, labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"metadata": map[string]any{"uid": "uid-a"}, "spec": template("labels", wellknown.LabelTTL, "1h")},
			want:  `comes from the template of ReplicationController a, whose labels apply to its Pods, and to itself if it has none: remove it there`,
		},
		"a ReplicationController with a label of its own": {
			profile: ReplicationControllerProfile, labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}, asks: true,
			owner: map[string]any{"metadata": map[string]any{"uid": "uid-a", "labels": map[string]any{wellknown.LabelTTL: "1h"}}, "spec": template("labels", "app", "web")},
		},
		"a Deployment's labels are its own": {
			profile: DeploymentProfile, labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL},
		},
		"no owner": {labels: map[string]string{wellknown.LabelTTL: "1h"}, keys: []string{wellknown.LabelTTL}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &Facts{Profile: PodProfile, Namespace: "ci", Name: "a", UID: "uid-a", Labels: test.labels, Annotations: test.annotations}
			if test.profile != nil {
				facts.Profile = test.profile
			}
			if test.kind != "" {
				facts.Owner = &metav1.OwnerReference{APIVersion: test.apiVersion, Kind: test.kind, Name: "owner", UID: "uid"}
			}
			owners := facts.TemplateOwners(test.keys...)
			if got := len(owners) == 1; got != test.asks {
				t.Errorf("TemplateOwners are %v, want one: %v", owners, test.asks)
			}
			if len(owners) == 0 {
				return
			}
			verdict, ok := facts.Inherited(owners[0], test.owner, test.keys...)
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
