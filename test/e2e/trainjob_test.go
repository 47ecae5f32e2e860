package e2e

import (
	"strconv"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

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

// The runtime is read at the moment of deletion: with backfill, a change of it applies to what has
// finished already. One that is gone, or cannot be read, keeps.
func TestRuntimeIsReadLive(t *testing.T) {
	parallel(t)
	s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "1s")...)
	own, backfill := at("spec.runtimeRef.kind", "TrainingRuntime"), noted(wellknown.AnnotationBackfill, "true")
	deletes := func(runtime string) string {
		return `runtime "` + runtime + `" deletes this TrainJob 1h after it has finished`
	}
	const ignored = `metadata.annotations[curfew.dev/ttl-after-finished]: 1s is ignored: runtime "raised" sets 1h; remove it`
	const unasked = "metadata.annotations[curfew.dev/backfill]: lets the TTL delete 0 TrainJobs that finished before the runtime had it, at most 1000 a minute"
	s.creates(row{s.runtime("TrainingRuntime", "raised", noted(wellknown.AnnotationTTL, "1h")), ""})
	// The rules by which TrainJobs are sent follow the kinds that are served.
	s.eventually(row{s.trainJob("probe", "raised", own, noted(wellknown.AnnotationTTL, "1s")), warned(deletes("raised"), ignored)})
	s.creates(
		row{s.runtime("TrainingRuntime", "changed", noted(wellknown.AnnotationTTL, "1h"), backfill), warned(unasked)},
		row{s.runtime("TrainingRuntime", "gone", noted(wellknown.AnnotationTTL, "1h")), ""},
		row{s.trainJob("shortened", "changed", own), warned(deletes("changed"))},
		row{s.trainJob("kept", "gone", own), warned(deletes("gone"))},
		row{s.trainJob("longer", "raised", own, noted(wellknown.AnnotationTTL, "1s")), warned(deletes("raised"), ignored)},
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

// shown is what the API server shows of a value that a rule of a schema rejects: the value, and up
// to 1.34 the type that the schema declares.
func (s *space) shown(value, declared string) string {
	s.Helper()
	if s.release() <= 34 {
		return strconv.Quote(declared)
	}
	return value
}
