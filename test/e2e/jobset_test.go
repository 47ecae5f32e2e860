package e2e

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// A JobSet has a native TTL and no native deadline: the one is filled in, the other becomes an
// annotation that Curfew enforces.
func TestJobSetDefaults(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultDeadline, "2h")
	from := ` from namespace "` + s.name + `"`
	filled := both(warned("ttlSecondsAfterFinished defaulted to 86400 (1d)"+from), warned("curfew.dev/active-deadline defaulted to 2h"+from))
	s.eventually(row{s.jobSet("plain"), filled})
	owner := s.newJob(job("owner", inTemplate(hold, "true")))
	s.creates(
		row{s.jobSet("plain"), filled},
		row{s.jobSet("own", at("spec.ttlSecondsAfterFinished", 3600), noted(wellknown.AnnotationActiveDeadline, "1h")), ""},
		row{s.jobSet("never", noted(wellknown.AnnotationTTL, "never"), noted(wellknown.AnnotationActiveDeadline, "1d")), ""},
		// S5: the TrainJob that owns it would miss it.
		row{s.jobSet("owned", ownedBy(owner, "TrainJob")), ""},
		row{s.jobSet("elsewhere", at("spec.managedBy", "kueue.x-k8s.io/multikueue")), ""},
		row{s.jobSet("copied", tagged(wellknown.LabelMultiKueueOrigin, "manager")), ""},
		row{s.jobSet("protected", noted(wellknown.AnnotationProtect, "true")), ""},
	)
	const path = ".spec.ttlSecondsAfterFinished"
	for name, want := range map[string][3]string{
		"plain": {"86400", "namespace/" + s.name, "2h"}, "own": {"3600", "object", "1h"}, "never": {"", "object", "1d"},
		"owned": {}, "elsewhere": {}, "copied": {}, "protected": {},
	} {
		annotations := s.metaOf("jobset", name).Annotations
		if got := [3]string{s.jsonpath("jobset", name, path), annotations[wellknown.AnnotationTTLSource], annotations[wellknown.AnnotationActiveDeadline]}; got != want {
			t.Errorf("TTL, source and deadline of %s are %q, want %q", name, got, want)
		}
	}
}

// The rules of admission, on a JobSet.
func TestJobSetRules(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMaxTTL, "7d", wellknown.AnnotationMinDeadline, "10m")
	const webhook, field = "validate.jobsets.jobset.x-k8s.io.curfew.dev", "spec.ttlSecondsAfterFinished: "
	in := func(key string) string { return "metadata.annotations[" + key + "]: " }
	of := ` of namespace "` + s.name + `": use `
	s.eventually(row{s.jobSet("long", at("spec.ttlSecondsAfterFinished", 8*86400)), denied(webhook, field+"691200 (8d) is above curfew.dev/max-ttl 7d"+of+"7d or less")})
	s.wouldCreate(
		row{s.jobSet("never", noted(wellknown.AnnotationTTLFailed, "never")), denied(webhook, in(wellknown.AnnotationTTLFailed)+"never is above curfew.dev/max-ttl 7d"+of+"7d or less")},
		row{s.jobSet("short", noted(wellknown.AnnotationActiveDeadline, "1m")), denied(webhook, in(wellknown.AnnotationActiveDeadline)+
			"1m is below curfew.dev/min-deadline 10m"+of+"10m or more")},
		row{s.jobSet("zero", noted(wellknown.AnnotationActiveDeadline, "0")), denied(webhook, in(wellknown.AnnotationActiveDeadline)+`"0" is below 1: a deadline is 1s or more`)},
		row{s.jobSet("soon", noted(wellknown.AnnotationTTL, "soon")), denied(webhook, in(wellknown.AnnotationTTL)+`"soon" is not a duration: `+readable+", or never")},
		row{s.jobSet("both", at("spec.ttlSecondsAfterFinished", 60), noted(wellknown.AnnotationTTL, "1d")), denied(webhook, in(wellknown.AnnotationTTL)+
			"1d is longer than spec.ttlSecondsAfterFinished 60 (1m), which the JobSet's own controller acts on first: remove one")},
		row{s.jobSet("template", at("spec.replicatedJobs[0].template.spec.template.metadata", map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "1h"}})),
			denied(webhook, "spec.replicatedJobs[0].template.spec.template."+in(wellknown.AnnotationTTL)+"a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished")},
		row{s.jobSet("job-template", at("spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished", 8*86400)), denied(webhook,
			"spec.replicatedJobs[0].template."+field+"691200 (8d) is above curfew.dev/max-ttl 7d"+of+"7d or less")},
		row{s.jobSet("quick", at("spec.ttlSecondsAfterFinished", 5)), warned(field + "5 (5s) is under 60s: the JobSet may be deleted before anyone reads its logs; use 60s or more")},
		row{s.jobSet("hook", at("spec.ttlSecondsAfterFinished", 600), noted("argocd.argoproj.io/hook", "Sync")), warned(
			field + "Argo CD may sync again when its hook is deleted: use argocd.argoproj.io/hook-delete-policy")},
		row{s.jobSet("tracked", at("spec.ttlSecondsAfterFinished", 600), tagged("kustomize.toolkit.fluxcd.io/name", "apps")), warned(
			field + "Flux tracks this object and creates and runs it again after it is deleted: use a longer TTL or a hook")},
		row{s.jobSet("label", tagged(wellknown.LabelTTL, "90y")), warned("metadata.labels[curfew.dev/ttl]: " +
			`"90y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`)},
		row{s.jobSet("trained", noted(wellknown.AnnotationTTL, "1d"), at("metadata.ownerReferences", []any{map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1",
			"kind": "TrainJob", "name": "tune", "uid": "6f1f2c1e-0000-4000-8000-000000000001", "controller": true}})), denied(webhook, in(wellknown.AnnotationTTL)+
			"TrainJob tune controls this JobSet, and runs again after the JobSet is deleted: set metadata.annotations[curfew.dev/ttl-after-finished] on the TrainJob or its runtime")},
		row{s.jobSet("fits", at("spec.ttlSecondsAfterFinished", 3600), noted(wellknown.AnnotationTTLFailed, "30m"), noted(wellknown.AnnotationActiveDeadline, "1h")), ""},
	)
}

// A JobSet goes at finish + TTL, by its native field or an annotation, by outcome; one that has not
// finished stays.
func TestJobSetVanishesAtItsSecond(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.expectSuccess(s.create(s.jobSet("field", at("spec.ttlSecondsAfterFinished", 3))))
	s.expectSuccess(s.create(s.jobSet("failed", noted(wellknown.AnnotationTTLFailed, "3s"), noted(wellknown.AnnotationTTLSucceeded, "never"))))
	s.expectSuccess(s.create(s.jobSet("succeeded", noted(wellknown.AnnotationTTLFailed, "3s"), noted(wellknown.AnnotationTTLSucceeded, "never"))))
	s.expectSuccess(s.create(s.jobSet("running", at("spec.ttlSecondsAfterFinished", 3))))
	end := now()
	s.finished("jobset", "succeeded", "Completed", end)
	s.finished("jobset", "failed", "Failed", end)
	s.finished("jobset", "field", "Completed", end)
	s.goneBy("jobset", "field", end.Add(3*second))
	s.goneBy("jobset", "failed", end.Add(3*second))
	s.outlast(now())
	s.there("jobset", "succeeded")
	s.there("jobset", "running")
}

// Curfew fails a JobSet at its deadline, and no other. TestPeersJobSetDeadline has what its own
// controller does then.
func TestJobSetDeadline(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.creates(row{s.jobSet("hangs", noted(wellknown.AnnotationActiveDeadline, "2s")), ""}, row{s.jobSet("far", noted(wellknown.AnnotationActiveDeadline, "1h")), ""})
	s.expectSuccess(s.kubectl("wait", "jobset/hangs", "--for=condition=Failed", "--timeout=10m"))
	if early := time.Until(s.metaOf("jobset", "hangs").CreationTimestamp.Add(2 * second)); early > 0 {
		t.Errorf("it failed %s before its deadline", early)
	}
	const reasons = ".status.conditions[*].reason"
	if got := s.jsonpath("jobset", "hangs", reasons); got != policy.ReasonDeadlineExceeded {
		t.Errorf("its conditions have the reasons %q", got)
	}
	if got := s.jsonpath("jobset", "far", reasons); got != "" {
		t.Errorf("the other has conditions with the reasons %q", got)
	}
}
