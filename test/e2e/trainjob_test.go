package e2e

import (
	"strings"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// A TrainJob has a native deadline and no native TTL.
func TestTrainJobDefaults(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultDeadline, "2h", wellknown.AnnotationMaxDeadline, "1d")
	s.creates(row{s.runtime("TrainingRuntime", "silent"), ""})
	silent := []func(trained){at("spec.runtimeRef.kind", "TrainingRuntime")}
	from := ` from namespace "` + s.name + `"`
	filled := both(warned("curfew.dev/ttl-after-finished defaulted to 1d"+from), warned("activeDeadlineSeconds defaulted to 7200 (2h)"+from))
	s.eventually(row{s.trainJob("plain", "silent", silent...), filled})
	const webhook = "validate.trainjobs.trainer.kubeflow.org.curfew.dev"
	with := func(more ...func(trained)) []func(trained) { return append(more, silent...) }
	s.creates(
		row{s.trainJob("plain", "silent", silent...), filled},
		row{s.trainJob("own", "silent", with(noted(wellknown.AnnotationTTL, "3h"), at("spec.activeDeadlineSeconds", 3600))...), ""},
		row{s.trainJob("never", "silent", with(noted(wellknown.AnnotationTTL, "never"), at("spec.activeDeadlineSeconds", 3600))...), ""},
		row{s.trainJob("elsewhere", "silent", with(at("spec.managedBy", "kueue.x-k8s.io/multikueue"))...), ""},
		row{s.trainJob("long", "silent", with(at("spec.activeDeadlineSeconds", 90000))...), denied(webhook,
			`spec.activeDeadlineSeconds: 90000 (1d1h) is above curfew.dev/max-deadline 1d of namespace "`+s.name+`": use 1d or less`)},
		row{s.trainJob("annotated", "silent", with(noted(wellknown.AnnotationActiveDeadline, "1h"), noted(wellknown.AnnotationTTL, "3h"))...), ""},
		row{s.trainJob("twice", "silent", with(noted(wellknown.AnnotationActiveDeadline, "1h"), at("spec.activeDeadlineSeconds", 60), noted(wellknown.AnnotationTTL, "3h"))...), denied(webhook,
			"metadata.annotations[curfew.dev/active-deadline]: 1h differs from spec.activeDeadlineSeconds 60 (1m): set one of them, or both to the same")},
		row{s.trainJob("template", "silent", with(at("spec.activeDeadlineSeconds", 60), at("spec.runtimePatches", []any{map[string]any{"manager": "test.example.com/x",
			"trainingRuntimeSpec": map[string]any{"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{"name": "node",
				"template": map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "1h"}}}}}}}}}}}}))...),
			denied(webhook, "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template."+
				"metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: set metadata.annotations[curfew.dev/ttl-after-finished] on the TrainJob")},
	)
	for name, want := range map[string][3]string{
		"plain": {"1d", "namespace/" + s.name, "7200"}, "own": {"3h", "object", "3600"}, "never": {"never", "object", "3600"}, "elsewhere": {}, "annotated": {"3h", "object", "3600"},
	} {
		annotations := s.metaOf("trainjob", name).Annotations
		if got := [3]string{annotations[wellknown.AnnotationTTL], annotations[wellknown.AnnotationTTLSource], s.jsonpath("trainjob", name, ".spec.activeDeadlineSeconds")}; got != want {
			t.Errorf("TTL, source and deadline of %s are %q, want %q", name, got, want)
		}
	}
}

// A deadline is neither added, changed nor removed after creation. Trainer's own schema refuses the
// change of a field; that one is added or removed it lets pass.
func TestTrainJobDeadlineIsImmutable(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	refusal := `Error from server (Forbidden): admission webhook "validate-marked.trainjobs.trainer.kubeflow.org.curfew.dev" denied the request: `
	const field, key = "spec.activeDeadlineSeconds: ", "metadata.annotations[curfew.dev/active-deadline]: "
	s.creates(row{s.runtime("TrainingRuntime", "any"), ""})
	own := at("spec.runtimeRef.kind", "TrainingRuntime")
	s.eventually(row{s.trainJob("probe", "any", own, noted(wellknown.AnnotationTTL, "soon")), denied("validate-marked.trainjobs.trainer.kubeflow.org.curfew.dev",
		`metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: `+readable+`, or never`)})
	s.creates(row{s.trainJob("with", "any", own, at("spec.activeDeadlineSeconds", 3600), noted(wellknown.AnnotationActiveDeadline, "1h")), ""},
		row{s.trainJob("without", "any", own), ""})
	patch := func(name, patch string) output {
		return s.kubectl("patch", "trainjob", name, "--type=merge", "-p", patch)
	}
	s.expectRefusal(patch("without", `{"spec":{"activeDeadlineSeconds":60}}`), refusal+field+"cannot be added after creation: leave it out, or create a new TrainJob with it")
	s.expectRefusal(patch("with", `{"spec":{"activeDeadlineSeconds":null}}`), refusal+field+"cannot be removed after creation: leave it at 3600, or create a new TrainJob without it")
	if out := patch("with", `{"spec":{"activeDeadlineSeconds":60}}`); !out.failed || !strings.Contains(out.stderr, field+"Invalid value: "+s.shown("60", "integer")+": field is immutable") {
		t.Errorf("kubectl said %q", out.stderr)
	}
	s.expectRefusal(s.kubectl("annotate", "trainjob", "without", wellknown.AnnotationActiveDeadline+"=1h"),
		refusal+key+"cannot be added after creation: leave it out, or create a new TrainJob with it")
	s.expectRefusal(s.kubectl("annotate", "--overwrite", "trainjob", "with", wellknown.AnnotationActiveDeadline+"=2h"),
		refusal+key+"cannot be changed after creation, from 1h to 2h: leave it, or create a new TrainJob")
	s.expectRefusal(s.kubectl("annotate", "trainjob", "with", wellknown.AnnotationActiveDeadline+"-"),
		refusal+key+"cannot be removed after creation: leave it at 1h, or create a new TrainJob without it")
	s.expectStderr(s.kubectl("label", "trainjob", "with", "team=blue"))
}

// A training runtime has its TTL in an annotation. Inside its template one would take the JobSet,
// or single Jobs, away under the TrainJob that uses it; a deadline there would stop them one by
// one.
func TestRuntimeRules(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const template = "spec.template.spec."
	const inAnnotation = "must not be set: a runtime has its TTL in annotation curfew.dev/ttl-after-finished, for the TrainJobs that use it"
	for kind, webhook := range map[string]string{"TrainingRuntime": "validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev",
		"ClusterTrainingRuntime": "validate.clustertrainingruntimes.trainer.kubeflow.org.curfew.dev"} {
		name := s.name + "-torch"
		s.eventually(row{s.runtime(kind, name, at(template+"ttlSecondsAfterFinished", 60)), denied(webhook, template+"ttlSecondsAfterFinished: "+inAnnotation)})
		s.wouldCreate(
			row{s.runtime(kind, name, at(template+"replicatedJobs[0].template.spec.ttlSecondsAfterFinished", 60)), denied(webhook,
				template+"replicatedJobs[0].template.spec.ttlSecondsAfterFinished: "+inAnnotation)},
			row{s.runtime(kind, name, at(template+"replicatedJobs[0].template.spec.activeDeadlineSeconds", 60)), denied(webhook,
				template+"replicatedJobs[0].template.spec.activeDeadlineSeconds: must not be set: set spec.activeDeadlineSeconds on the TrainJob, which stops all of its Jobs together")},
			row{s.runtime(kind, name, at(template+"replicatedJobs[0].template.spec.template.metadata", map[string]any{"annotations": map[string]any{wellknown.AnnotationTTLFailed: "1h"}})), denied(webhook,
				template+"replicatedJobs[0].template.spec.template.metadata.annotations[curfew.dev/ttl-after-failed]: a pod template cannot have a TTL: "+
					"set metadata.annotations[curfew.dev/ttl-after-finished] on the "+kind)},
			row{s.runtime(kind, name, at("spec.template.metadata", map[string]any{"labels": map[string]any{wellknown.LabelTTL: "1h"}})), denied(webhook,
				"spec.template.metadata.labels[curfew.dev/ttl]: must not be set: the objects that a TrainJob creates inherit it, and a deleted one is created again: "+
					"set metadata.annotations[curfew.dev/ttl-after-finished] on the "+kind)},
			row{s.runtime(kind, name, noted(wellknown.AnnotationTTL, "soon")), denied(webhook, `metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: `+readable+", or never")},
			row{s.runtime(kind, name, noted(wellknown.AnnotationTTL, "30s")), warned("metadata.annotations[curfew.dev/ttl-after-finished]: 30s is under 60s: " +
				"a TrainJob that uses it may be deleted before anyone reads its logs; use 60s or more")},
			row{s.runtime(kind, name, noted(wellknown.AnnotationTTL, "1d"), noted(wellknown.AnnotationTTLFailed, "never")), ""},
		)
	}
}

// What the runtime says comes before what the TrainJob, its namespace and policies say, longer or
// shorter: it is the platform's. A differing value gets a warning. The stamp says where the TTL is
// from; nothing is filled in, as nothing is frozen.
func TestRuntimePrecedence(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	cluster := s.name + "-cluster"
	s.Cleanup(func() { s.afterwards("delete", "clustertrainingruntime", cluster, "--ignore-not-found") })
	s.creates(
		row{s.runtime("ClusterTrainingRuntime", cluster, noted(wellknown.AnnotationTTL, "9d")), ""}, // above all bounds
		row{s.runtime("TrainingRuntime", "own", noted(wellknown.AnnotationTTL, "2h"), noted(wellknown.AnnotationTTLFailed, "6d")), ""},
	)
	own := at("spec.runtimeRef.kind", "TrainingRuntime")
	const key, failed = "metadata.annotations[curfew.dev/ttl-after-finished]: ", "metadata.annotations[curfew.dev/ttl-after-failed]: "
	s.eventually(row{s.trainJob("longer", "own", own, noted(wellknown.AnnotationTTL, "3h")), warned(key + `3h is ignored: runtime "own" sets 2h; remove it`)})
	s.creates(
		row{s.trainJob("plain", cluster), ""},
		row{s.trainJob("shorter", cluster, noted(wellknown.AnnotationTTL, "1h")), warned(key + `1h is ignored: runtime "` + cluster + `" sets 9d; remove it`)},
		row{s.trainJob("equal", cluster, noted(wellknown.AnnotationTTLSucceeded, "6d")), warned("metadata.annotations[curfew.dev/ttl-after-succeeded]: " +
			`6d is ignored: runtime "` + cluster + `" sets 9d; remove it`)},
		row{s.trainJob("longer", "own", own, noted(wellknown.AnnotationTTL, "3h")), warned(key + `3h is ignored: runtime "own" sets 2h; remove it`)},
		row{s.trainJob("outcome", "own", own, noted(wellknown.AnnotationTTLFailed, "1h"), noted(wellknown.AnnotationTTL, "2h")), warned(failed + `1h is ignored: runtime "own" sets 6d; remove it`)},
		row{s.trainJob("same", cluster, noted(wellknown.AnnotationTTL, "9d")), denied("validate.trainjobs.trainer.kubeflow.org.curfew.dev",
			key+`9d is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`)},
	)
	for name, want := range map[string]string{"plain": " runtime/" + cluster, "shorter": "1h runtime/" + cluster, "longer": "3h runtime/own", "outcome": "2h runtime/own"} {
		annotations := s.metaOf("trainjob", name).Annotations
		if got := annotations[wellknown.AnnotationTTL] + " " + annotations[wellknown.AnnotationTTLSource]; got != want {
			t.Errorf("TTL and source of %s are %q, want %q", name, got, want)
		}
	}
}

// A runtime's deadline is a default: a TrainJob that has one of its own keeps that, and the others
// get it at their creation, in a namespace that does not use Curfew as well. A later change of the
// runtime reaches none of them.
func TestRuntimeDeadlineIsADefault(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	own := at("spec.runtimeRef.kind", "TrainingRuntime")
	s.creates(row{s.runtime("TrainingRuntime", "timed", noted(wellknown.AnnotationActiveDeadline, "2h")), ""})
	given := warned(`activeDeadlineSeconds defaulted to 7200 (2h) from runtime "timed"`)
	s.eventually(row{s.trainJob("given", "timed", own), given})
	s.creates(
		row{s.trainJob("given", "timed", own), given},
		row{s.trainJob("longer", "timed", own, at("spec.activeDeadlineSeconds", 10800)), ""},
		row{s.trainJob("annotated", "timed", own, noted(wellknown.AnnotationActiveDeadline, "1h")), ""},
	)
	want := map[string][2]string{"given": {"7200", "runtime/timed"}, "longer": {"10800"}, "annotated": {"3600"}}
	expect := func(when string) {
		t.Helper()
		for name, want := range want {
			if got := [2]string{s.jsonpath("trainjob", name, ".spec.activeDeadlineSeconds"), s.metaOf("trainjob", name).Annotations[wellknown.AnnotationDeadlineSource]}; got != want {
				t.Errorf("%s: deadline and source of %s are %q, want %q", when, name, got, want)
			}
		}
	}
	expect("at creation")
	s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", "timed", wellknown.AnnotationActiveDeadline+"=1s"))
	s.eventually(row{s.trainJob("next", "timed", own), warned(`activeDeadlineSeconds defaulted to 1 (1s) from runtime "timed"`)})
	s.outlast(now().Add(3 * second))
	expect("after the runtime has changed")
	for name := range want {
		if got := s.jsonpath("trainjob", name, ".status"); strings.Contains(got, policy.ReasonDeadlineExceeded) {
			t.Errorf("%s was failed: %s", name, got)
		}
	}
}

// The runtime is read at the moment of deletion: with backfill, a change of it applies to what has
// finished already. One that is gone, or cannot be read, keeps.
func TestRuntimeIsReadLive(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "1s")...)
	own, backfill := at("spec.runtimeRef.kind", "TrainingRuntime"), noted(wellknown.AnnotationBackfill, "true")
	const unasked = "metadata.annotations[curfew.dev/backfill]: lets the TTL delete 0 TrainJobs that finished before the runtime had it, at most 1000 a minute"
	s.creates(row{s.runtime("TrainingRuntime", "raised", noted(wellknown.AnnotationTTL, "1h")), ""})
	// The rules by which TrainJobs are sent follow the kinds that are served.
	s.eventually(row{s.trainJob("probe", "raised", own, noted(wellknown.AnnotationTTL, "1s")), warned("metadata.annotations[curfew.dev/ttl-after-finished]: " +
		`1s is ignored: runtime "raised" sets 1h; remove it`)})
	s.creates(
		row{s.runtime("TrainingRuntime", "changed", noted(wellknown.AnnotationTTL, "1h"), backfill), warned(unasked)},
		row{s.runtime("TrainingRuntime", "gone", noted(wellknown.AnnotationTTL, "1h")), ""},
		row{s.trainJob("shortened", "changed", own), ""},
		row{s.trainJob("kept", "gone", own), ""},
		row{s.trainJob("longer", "raised", own, noted(wellknown.AnnotationTTL, "1s")), warned("metadata.annotations[curfew.dev/ttl-after-finished]: " +
			`1s is ignored: runtime "raised" sets 1h; remove it`)},
	)
	end := now()
	for _, name := range []string{"shortened", "kept", "longer"} {
		s.finished("trainjob", name, "Complete", end)
	}
	s.expectSuccess(s.kubectl("delete", "trainingruntime", "gone"))
	s.awaitLog(suite.controller.Log, s.name+"/kept", `"kept"`, "does not exist")
	s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", "changed", wellknown.AnnotationTTL+"=2s"))
	s.goneBy("trainjob", "shortened", end.Add(2*second))
	s.outlast(end.Add(2 * second))
	s.there("trainjob", "kept")
	s.there("trainjob", "longer")
	// Back again, it counts for what finishes from now on, and by backfill for the rest.
	s.expectSuccess(s.create(s.runtime("TrainingRuntime", "gone", noted(wellknown.AnnotationTTL, "1s"))))
	s.outlast(now().Add(second))
	s.there("trainjob", "kept")
	s.expectSuccess(s.kubectl("annotate", "trainingruntime", "gone", wellknown.AnnotationBackfill+"=true"))
	s.goneBy("trainjob", "kept", end.Add(second))
}

// A runtime that does not exist: the TrainJob is let in, nothing is filled in, and it stays when it
// has finished.
func TestRuntimeThatDoesNotExist(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1h")
	missing := func(name string) string {
		return warned(`spec.runtimeRef.name: runtime "` + name + `" does not exist: this TrainJob is kept until it exists and sets a TTL`)
	}
	s.creates(row{s.runtime("TrainingRuntime", "some"), ""})
	s.eventually(row{s.trainJob("probe", "some", at("spec.runtimeRef.kind", "TrainingRuntime"), noted(wellknown.AnnotationTTL, "soon")), denied("validate.trainjobs.trainer.kubeflow.org.curfew.dev",
		`metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: `+readable+`, or never`)})
	s.expectStderr(s.create(s.trainJob("orphan", s.name+"-none")), missing(s.name+"-none"))
	s.expectStderr(s.create(s.trainJob("another", "none", at("spec.runtimeRef.kind", "TrainingRuntime"))), missing("none"))
	if got := s.metaOf("trainjob", "orphan").Annotations; len(got) > 0 {
		t.Errorf("it became %v", got)
	}
}
