package e2e

import (
	"context"
	"testing"
	"time"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// When a runtime gets a TTL, or another one, it applies to TrainJobs that finish from then on.
// TrainJobs that finished earlier are kept until backfill, and only Curfew says since when.
func TestRuntimeTTLIsForWhatFinishesLater(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	own := at("spec.runtimeRef.kind", "TrainingRuntime")
	s.creates(row{s.runtime("TrainingRuntime", "torch"), ""}, row{s.trainJob("early", "torch", own), ""}, row{s.trainJob("late", "torch", own), ""})
	early := now()
	s.finished("trainjob", "early", "Complete", early)
	s.awaitStamped(wellknown.AnnotationDefaultSince, "trainingruntime", "torch", `{"annotations":{"`+wellknown.AnnotationTTL+`":"1s"}}`)
	s.expectSuccess(s.kubectl("annotate", "trainingruntime", "torch", wellknown.AnnotationTTL+"=1s"))
	stamp := s.metaOf("trainingruntime", "torch").Annotations[wellknown.AnnotationDefaultSince]
	since, hash, ok := resolution.ParseSince(stamp)
	if !ok || since.Before(early) {
		t.Fatalf("the runtime is stamped %q, want a time from %s on", stamp, early)
	}
	for _, forged := range []string{wellknown.AnnotationDefaultSince + "=" + resolution.FormatSince(early.Add(-hour), hash), wellknown.AnnotationDefaultSince + "-"} {
		s.expectSuccess(s.kubectl("annotate", "--overwrite", "trainingruntime", "torch", forged))
		if got := s.metaOf("trainingruntime", "torch").Annotations[wellknown.AnnotationDefaultSince]; got != stamp {
			t.Errorf("after kubectl annotate %s it is %q, want %q", forged, got, stamp)
		}
	}
	late := since.Add(2 * second)
	s.finished("trainjob", "late", "Failed", late)
	s.goneBy("trainjob", "late", late.Add(second))
	s.outlast(late.Add(second))
	s.there("trainjob", "early")
	s.expectRefusal(s.kubectl("annotate", "trainingruntime", "torch", wellknown.AnnotationBackfill+"=yes"), `Error from server (Forbidden): admission webhook "validate-marked.trainingruntimes.trainer.kubeflow.org.curfew.dev" denied the request: `+
		`metadata.annotations[curfew.dev/backfill]: "yes" is neither "true" nor "false": use one of them`)
	s.expectStderr(s.kubectl("annotate", "trainingruntime", "torch", wellknown.AnnotationBackfill+"=true"),
		"Warning: curfew: metadata.annotations[curfew.dev/backfill]: lets the TTL delete 1 TrainJob that finished before the runtime had it, at most 1000 a minute")
	s.goneBy("trainjob", "early", early.Add(second))
}

// A runtime in Curfew's own namespace is not sent to admission: the controller stamps it.
func TestControllerStampsRuntimes(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	own := *s
	own.name = harness.Namespace
	name := s.name
	t.Cleanup(func() {
		s.afterwards("delete", "trainingruntime", name, "--namespace="+harness.Namespace, "--ignore-not-found")
	})
	started := now()
	s.expectSuccess(own.create(s.runtime("TrainingRuntime", name, noted(wellknown.AnnotationTTL, "1h"))))
	stamped := func() (out string) {
		s.poll("the stamp of the runtime", func(context.Context) (bool, error) {
			out = own.metaOf("trainingruntime", name).Annotations[wellknown.AnnotationDefaultSince]
			return out != "", nil
		})
		return out
	}
	first := stamped()
	if when, _, ok := resolution.ParseSince(first); !ok || when.Before(started) || when.After(time.Now().Add(second)) {
		t.Errorf("it is stamped %q, want a time from %s on", first, started)
	}
	s.expectSuccess(own.kubectl("annotate", "--overwrite", "trainingruntime", name, wellknown.AnnotationTTL+"=2h"))
	s.poll("another stamp", func(context.Context) (bool, error) { return stamped() != first, nil })
}

// A tenant may write a namespaced runtime: its TTL obeys the bounds. A cluster-scoped one is the
// platform's.
func TestBoundsOfATrainingRuntime(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMinTTL, "1h", wellknown.AnnotationMaxTTL, "7d")
	const webhook, key = "validate.trainingruntimes.trainer.kubeflow.org.curfew.dev", "metadata.annotations[curfew.dev/ttl-after-finished]: "
	s.eventually(row{s.runtime("TrainingRuntime", "torch", noted(wellknown.AnnotationTTL, "9d")), denied(webhook, key+`9d is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`)})
	s.wouldCreate(
		row{s.runtime("TrainingRuntime", "torch", noted(wellknown.AnnotationTTL, "2m")), denied(webhook, key+`2m is below curfew.dev/min-ttl 1h of namespace "`+s.name+`": use 1h or more`)},
		row{s.runtime("TrainingRuntime", "torch", noted(wellknown.AnnotationTTL, "never")), denied(webhook, key+`never is above curfew.dev/max-ttl 7d of namespace "`+s.name+`": use 7d or less`)},
		row{s.runtime("TrainingRuntime", "torch", noted(wellknown.AnnotationTTL, "2d")), ""},
		row{s.runtime("ClusterTrainingRuntime", s.name, noted(wellknown.AnnotationTTL, "9d")), ""},
	)
}
