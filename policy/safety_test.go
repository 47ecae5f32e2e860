package policy_test

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

var garbage = []string{"", "?", "soon", "-1", "1h30", "5 minutes", "99999999999999999999", "1.5s", "Never", "yes", "null", "{}"}

// S6: whatever stands in an object or in its namespace, replacing a value that can be read by one that cannot never makes
// the object go sooner, and never makes what happens to it more destructive.
func TestGarbageNeverShortensALife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := drawJob(t).Complete(drawTime(t, "finished")).Map()
		profile := policy.JobProfile
		if rapid.Bool().Draw(t, "is a Pod") {
			object, profile = drawPod(t).Map(), policy.PodProfile
		}
		namespace := map[string]string{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(namespaceKeys), 0, 6, rapid.ID).Draw(t, "namespace") {
			namespace[key] = drawReadable(t, key)
		}
		since := noon.Add(time.Duration(rapid.IntRange(-6000, 6000).Draw(t, "since")) * time.Second)
		before := verdictOf(profile, object, namespace, since)

		if annotations := annotationsOf(object); len(annotations) > 0 && rapid.Bool().Draw(t, "in the object") {
			key := rapid.SampledFrom(keysOf(annotations)).Draw(t, "key")
			annotations[key] = rapid.SampledFrom(garbage).Draw(t, "garbage")
		} else if native := nativeIn(object, profile); native != "" && rapid.Bool().Draw(t, "in a field") {
			object["spec"].(map[string]any)[native] = rapid.SampledFrom([]any{"soon", true, int64(-5), 1.5, []any{}, map[string]any{}}).Draw(t, "garbage")
		} else if len(namespace) > 0 {
			key := rapid.SampledFrom(keysOf(namespace)).Draw(t, "key")
			namespace[key] = rapid.SampledFrom(garbage).Draw(t, "garbage")
		}
		after := verdictOf(profile, object, namespace, since)

		if destructive(after) > destructive(before) {
			t.Fatalf("from %+v to %+v", before, after)
		}
		if !before.Expiry.IsZero() && !after.Expiry.IsZero() && after.Expiry.Before(before.Expiry) {
			t.Fatalf("due %v instead of %v", after.Expiry, before.Expiry)
		}
	})
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
	policy.AnnotationDefaultTTL, policy.AnnotationDefaultTTLSucceeded, policy.AnnotationDefaultTTLFailed, policy.AnnotationDefaultPodTTL,
	policy.AnnotationMinTTL, policy.AnnotationMaxTTL, policy.AnnotationMode, policy.AnnotationBackfill,
}

func drawReadable(t *rapid.T, key string) string {
	values := []string{"0", "5", "1h", "1d", "30d"}
	switch key {
	case policy.AnnotationMode:
		values = []string{"enforce", "warn", "dry-run"}
	case policy.AnnotationBackfill:
		values = []string{"true", "false"}
	}
	return rapid.SampledFrom(values).Draw(t, key)
}

// verdictOf judges with a default-since that fits, as the namespace webhook would have restamped it: the hardest case.
func verdictOf(profile *policy.Profile, object map[string]any, annotations map[string]string, since time.Time) policy.Verdict {
	annotations = maps.Clone(annotations)
	annotations[policy.AnnotationDefaultSince] = policy.FormatSince(since, policy.DefaultsHash(annotations))
	facts := policy.FactsOfObject(profile, object)
	effective := policy.Resolve(facts, &policy.Scope{Namespace: policy.ParseNamespace("ci", annotations, nil)})
	return policy.Judge(facts, &effective, noon)
}

func annotationsOf(object map[string]any) map[string]any {
	annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
	return annotations
}

func nativeIn(object map[string]any, profile *policy.Profile) string {
	spec, _ := object["spec"].(map[string]any)
	if _, ok := spec["ttlSecondsAfterFinished"]; ok && profile == policy.JobProfile {
		return "ttlSecondsAfterFinished"
	}
	return ""
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

// A default-since that cannot be read, or was noted for other defaults, reaches nothing that exists.
func TestUnreadableSinceKeeps(t *testing.T) {
	job := builders.MakeJob("ci", "a").Created(noon).Complete(noon).Obj()
	for _, since := range []string{"", "?", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z/abc", "/" + policy.DefaultsHash(annotated("default-ttl", "0"))} {
		facts := policy.FactsOfJob(job)
		namespace := policy.ParseNamespace("ci", annotated("default-ttl", "0", "default-since", since), nil)
		effective := policy.Resolve(facts, &policy.Scope{Namespace: namespace})
		if got := policy.Judge(facts, &effective, noon.Add(time.Hour)); got.Action != policy.Keep {
			t.Errorf("default-since %q: %s", since, got.Action)
		}
	}
}
