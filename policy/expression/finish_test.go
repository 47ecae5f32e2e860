package expression_test

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// eachFinished visits the finished samples of every kind, each with a TTL of an hour.
func eachFinished(t *testing.T, visit func(t *testing.T, profile *expression.Profile, object map[string]any)) {
	for _, profile := range builtin(t) {
		if profile.State == nil {
			continue
		}
		file := fileOf(profile.Kind)
		text, err := os.ReadFile(filepath.Join("testdata", "states", file))
		must(t, err)
		var samples []sample
		must(t, yaml.Unmarshal(text, &samples))
		visited := 0
		for _, sample := range samples {
			noted := policy.FactsOfObject(profile.Profile, sample.Object).Annotations[wellknown.AnnotationFinishedAt] != ""
			if !sample.Want.Finished || sample.Want.FinishTime.IsZero() || noted {
				continue
			}
			metadata, _ := sample.Object["metadata"].(map[string]any)
			delete(metadata, "finalizers")
			metadata["annotations"] = map[string]any{wellknown.AnnotationTTL: "1h"}
			if profile.Kind.Kind == "Pod" {
				spec, _ := sample.Object["spec"].(map[string]any)
				spec = maps.Clone(spec)
				if spec == nil {
					spec = map[string]any{}
				}
				spec["restartPolicy"] = "Never"
				sample.Object["spec"] = spec
			}
			visited++
			t.Run(strings.TrimSuffix(file, ".yaml")+"/"+sample.Name, func(t *testing.T) { visit(t, profile, sample.Object) })
		}
		if visited == 0 {
			t.Errorf("%s has no finished sample", file)
		}
	}
}

func judged(profile *expression.Profile, object map[string]any, now time.Time) policy.Verdict {
	facts := policy.FactsOfObject(profile.Profile, object)
	facts.Owner = nil // No owner's TTL decides instead.
	facts.NativeTTL, facts.NativeSucceeded, facts.NativeFailed = lifetime.NativeField{}, lifetime.NativeField{}, lifetime.NativeField{}
	effective := resolution.Resolve(facts, &resolution.Scope{})
	return judging.Judge(facts, &effective, now)
}

// withTimes replaces every time in a status.
func withTimes(value, replacement any) any {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = withTimes(value[key], replacement)
		}
	case []any:
		for i := range value {
			value[i] = withTimes(value[i], replacement)
		}
	case string:
		_, millis := strconv.ParseInt(value, 10, 64)
		if _, err := time.Parse(time.RFC3339, value); err == nil || millis == nil && len(value) == len("1772357400000") {
			return replacement
		}
	}
	return value
}

// S6: whatever the kind, no object is due by a finish time that is missing, zero or the epoch. It
// is kept and reported, and a note of Curfew's does not count. A Pod waits until Curfew has written
// down when it saw the Pod finished.
func TestFinishTimeIsMissing(t *testing.T) {
	for name, replacement := range map[string]any{"null": nil, "zero": "0001-01-01T00:00:00Z", "epoch": "1970-01-01T00:00:00Z"} {
		t.Run(name, func(t *testing.T) {
			eachFinished(t, func(t *testing.T, profile *expression.Profile, object map[string]any) {
				object = runtime.DeepCopyJSON(object)
				object["status"] = withTimes(object["status"], replacement)
				now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
				if profile.Kind.Kind == "Pod" {
					if got := judged(profile, object, now); got.Action != policy.RecordFinish {
						t.Errorf("%s, %q, %v; want record-finish", got.Action, got.Reason, got.Err)
					}
					return
				}
				metadata, _ := object["metadata"].(map[string]any)
				annotations, _ := metadata["annotations"].(map[string]any)
				annotations[wellknown.AnnotationFinishedAt] = "2026-11-22T10:00:00Z"
				if got := judged(profile, object, now); got.Action != policy.Keep || got.Err == nil && got.Reason != "is not finished" {
					t.Errorf("%s, %q, %v; want it kept and reported", got.Action, got.Reason, got.Err)
				}
			})
		})
	}
}

// S6: whatever the kind, a finish time from before the creation counts as the creation, and so does
// a start. The status of an object that comes from a backup was copied.
func TestFinishedBeforeItWasCreated(t *testing.T) {
	eachFinished(t, func(t *testing.T, profile *expression.Profile, object map[string]any) {
		created := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		metadata, _ := object["metadata"].(map[string]any)
		metadata["creationTimestamp"] = created.Format(time.RFC3339)
		got := judged(profile, object, created.Add(time.Hour-time.Second))
		if got.Action != policy.Wait || !got.Expiry.Equal(created.Add(time.Hour)) {
			t.Errorf("%s at %s, %q, %v; want it to wait for an hour after its creation", got.Action, got.Expiry, got.Reason, got.Err)
		}
		facts := policy.FactsOfObject(profile.Profile, object)
		for name, instant := range map[string]time.Time{"finish": facts.FinishTime, "start": facts.Started, "failure for its deadline": facts.Exceeded} {
			if !instant.IsZero() && instant.Before(created) {
				t.Errorf("its %s is at %s, before its creation", name, instant)
			}
		}
	})
}
