package policy_test

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

var garbage = []string{"", "?", "soon", "-1", "1h30", "5 minutes", "99999999999999999999", "1.5s", "Never", "yes", "null", "{}"}

// S6: whatever stands in an object or in its namespace, replacing a value that can be read by one
// that cannot never makes the object go sooner, and never makes what happens to it more
// destructive.
func TestGarbageNeverShortensALife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object, profile := drawFinished(t)
		namespace := map[string]string{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(namespaceKeys), 0, 5, rapid.ID).Draw(t, "namespace") {
			namespace[key] = drawReadable(t, key)
		}
		since := noon.Add(time.Duration(rapid.SampledFrom([]int{-6000, -500, 0}).Draw(t, "since")) * time.Second)
		before := verdictOf(profile, object, namespace, since)
		annotations := annotationsOf(object)
		for _, bad := range garbage {
			for _, key := range keysOf(annotations) {
				good := annotations[key]
				annotations[key] = bad
				noWorse(t, key, before, verdictOf(profile, object, namespace, since))
				annotations[key] = good
			}
			for _, key := range keysOf(namespace) {
				good := namespace[key]
				namespace[key] = bad
				noWorse(t, key, before, verdictOf(profile, object, namespace, since))
				namespace[key] = good
			}
		}
		spec := object["spec"].(map[string]any)
		for _, key := range []string{"ttlSecondsAfterFinished", "managedBy", "suspend", "restartPolicy"} {
			good, ok := spec[key]
			for _, bad := range []any{"soon", true, int64(-5), 1.5, []any{}, map[string]any{}} {
				if _, text := bad.(string); ok && !(text && key == "managedBy") {
					spec[key] = bad
					noWorse(t, key, before, verdictOf(profile, object, namespace, since))
					spec[key] = good
				}
			}
		}
	})
}

// drawFinished is a Job or Pod that is finished and to which most defaults apply, so that there is
// a life to shorten.
func drawFinished(t *rapid.T) (map[string]any, *policy.Profile) {
	finished := noon.Add(-time.Duration(rapid.SampledFrom([]int{0, 10, 4000, 100000}).Draw(t, "finished ago")) * time.Second)
	readable := map[string]string{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(annotationKeys), 0, 3, rapid.ID).Draw(t, "annotations") {
		readable[key] = drawReadable(t, key)
	}
	if rapid.Bool().Draw(t, "is a Pod") {
		pod := builders.MakePod("ci", "a").Created(noon.Add(-500 * time.Second)).Phase("Succeeded").Terminated(finished)
		for key, value := range readable {
			pod.Annotation(key, value)
		}
		if rapid.Bool().Draw(t, "always restarts") {
			pod.RestartPolicy("Always")
		}
		return pod.Map(), policy.PodProfile
	}
	job := builders.MakeJob("ci", "a").Created(noon.Add(-500 * time.Second)).Complete(finished)
	for key, value := range readable {
		job.Annotation(key, value)
	}
	if rapid.Bool().Draw(t, "has TTL") {
		job.TTL(int32(rapid.SampledFrom([]int{0, 5, 3600, 86400}).Draw(t, "TTL")))
	}
	if rapid.Bool().Draw(t, "is managed") {
		job.ManagedBy(rapid.SampledFrom([]string{wellknown.JobController, "example.com/x"}).Draw(t, "managedBy"))
	}
	return job.Map(), policy.JobProfile
}

func noWorse(t *rapid.T, key string, before, after policy.Verdict) {
	if destructive(after) > destructive(before) {
		t.Fatalf("garbage in %s: from %+v to %+v", key, before, after)
	}
	if !before.Expiry.IsZero() && !after.Expiry.IsZero() && after.Expiry.Before(before.Expiry) {
		t.Fatalf("garbage in %s: due %v instead of %v", key, after.Expiry, before.Expiry)
	}
}

// destructive orders verdicts by what they do to the object.
func destructive(verdict policy.Verdict) int {
	switch {
	case verdict.Action == policy.Keep || verdict.DryRun:
		return 0
	case verdict.Action == policy.RecordFinish:
		return 1
	case verdict.Action == policy.Wait:
		return 2
	default:
		return 3
	}
}

var namespaceKeys = []string{
	wellknown.AnnotationDefaultTTL, wellknown.AnnotationDefaultTTLSucceeded, wellknown.AnnotationDefaultTTLFailed, wellknown.AnnotationDefaultPodTTL,
	wellknown.AnnotationMinTTL, wellknown.AnnotationMaxTTL, wellknown.AnnotationMode, wellknown.AnnotationBackfill,
}

func drawReadable(t *rapid.T, key string) string {
	values := []string{"0", "5", "1h", "1d", "30d"}
	switch key {
	case wellknown.AnnotationMode:
		values = []string{"enforce", "warn", "dry-run"}
	case wellknown.AnnotationProtect:
		values = []string{"true", "false"}
	case wellknown.AnnotationTTLSource:
		values = []string{"object", "namespace/ci", "policy/a"}
	case wellknown.AnnotationFinishedAt:
		values = []string{"2026-12-24T11:00:00Z"}
	case wellknown.AnnotationBackfill:
		values = []string{"true", "false"}
	}
	return rapid.SampledFrom(values).Draw(t, key)
}

// verdictOf judges with a default-since that fits, as the namespace webhook would have restamped
// it: the hardest case.
func verdictOf(profile *policy.Profile, object map[string]any, annotations map[string]string, since time.Time) policy.Verdict {
	annotations = maps.Clone(annotations)
	annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(since, resolution.DefaultsHash(annotations))
	facts := policy.FactsOfObject(profile, object)
	effective := resolution.Resolve(facts, &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotations, nil)})
	return judging.Judge(facts, &effective, noon)
}

func annotationsOf(object map[string]any) map[string]any {
	annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	return annotations
}

func keysOf[V any](fields map[string]V) []string {
	var out []string
	for _, key := range append(append([]string{}, annotationKeys...), namespaceKeys...) {
		if _, ok := fields[key]; ok {
			out = append(out, key)
		}
	}
	return out
}

// A default-since that cannot be read, or was noted for other defaults, reaches nothing that
// exists.
func TestUnreadableSinceKeeps(t *testing.T) {
	job := builders.MakeJob("ci", "a").Created(noon).Complete(noon).Obj()
	for _, since := range []string{"", "?", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z/abc", "/" + resolution.DefaultsHash(annotated("default-ttl", "0"))} {
		facts := policy.FactsOfJob(job)
		namespace := resolution.ParseNamespace("ci", annotated("default-ttl", "0", "default-since", since), nil)
		effective := resolution.Resolve(facts, &resolution.Scope{Namespace: namespace})
		if got := judging.Judge(facts, &effective, noon.Add(time.Hour)); got.Action != policy.Keep {
			t.Errorf("default-since %q: %s", since, got.Action)
		}
	}
}
