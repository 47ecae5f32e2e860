package expression_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

var epoch = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// times are what a status can hold in the place of an instant: one, none, null, and the epoch that
// some runtimes report.
func times(t *rapid.T, name string) (any, bool) {
	switch rapid.IntRange(0, 5).Draw(t, name) {
	case 0:
		return nil, false
	case 1:
		return nil, true
	case 2:
		return "1970-01-01T00:00:00Z", true
	default:
		instant := epoch.Add(time.Duration(rapid.IntRange(0, 100000).Draw(t, name+" at")) * time.Second)
		if rapid.Bool().Draw(t, name+" zone") {
			instant = instant.In(time.FixedZone("", 2*60*60))
		}
		return instant.Format(time.RFC3339), true
	}
}

func put(t *rapid.T, into map[string]any, field string) {
	if value, ok := times(t, field); ok {
		into[field] = value
	}
}

func conditions(t *rapid.T, types ...string) []any {
	out := []any{}
	for range rapid.IntRange(0, 4).Draw(t, "conditions") {
		condition := map[string]any{"type": rapid.SampledFrom(types).Draw(t, "type"), "status": rapid.SampledFrom([]string{"True", "False", "Unknown"}).Draw(t, "status")}
		put(t, condition, "lastTransitionTime")
		out = append(out, condition)
	}
	return out
}

func containers(t *rapid.T) []any {
	out := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "containers") {
		status := map[string]any{"name": "c", "ready": false, "restartCount": int64(1), "image": "i", "imageID": ""}
		switch rapid.IntRange(0, 3).Draw(t, "state") {
		case 0:
		case 1:
			status["state"] = map[string]any{"running": map[string]any{}}
		default:
			terminated := map[string]any{"exitCode": int64(0)}
			put(t, terminated, "finishedAt")
			status["state"] = map[string]any{"terminated": terminated}
		}
		if rapid.Bool().Draw(t, "last") {
			status["lastState"] = map[string]any{"terminated": map[string]any{"exitCode": int64(1), "finishedAt": "2030-01-01T00:00:00Z"}}
		}
		out = append(out, status)
	}
	return out
}

func maybe(t *rapid.T, into map[string]any, field string, value any) {
	if rapid.Bool().Draw(t, "has "+field) {
		into[field] = value
	}
}

func metadata(t *rapid.T) map[string]any {
	out := map[string]any{"name": "x", "creationTimestamp": "2026-03-01T08:00:00Z"}
	maybe(t, out, "annotations", map[string]any{wellknown.AnnotationFinishedAt: rapid.SampledFrom([]string{"2026-04-01T00:00:00Z", "soon"}).Draw(t, "kept")})
	return out
}

func job(t *rapid.T) map[string]any {
	spec, status := map[string]any{}, map[string]any{}
	maybe(t, spec, "suspend", rapid.Bool().Draw(t, "suspend"))
	put(t, status, "startTime")
	put(t, status, "completionTime")
	maybe(t, status, "conditions", conditions(t, "Complete", "Failed", "SuccessCriteriaMet", "FailureTarget", "Suspended"))
	out := map[string]any{"metadata": metadata(t), "spec": spec}
	maybe(t, out, "status", status)
	return out
}

func pod(t *rapid.T) map[string]any {
	status := map[string]any{}
	maybe(t, status, "phase", rapid.SampledFrom([]string{"Pending", "Running", "Succeeded", "Failed", "Unknown"}).Draw(t, "phase"))
	put(t, status, "startTime")
	for _, field := range []string{"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"} {
		maybe(t, status, field, containers(t))
	}
	maybe(t, status, "conditions", conditions(t, "Ready", "PodScheduled", "DisruptionTarget"))
	return map[string]any{"metadata": metadata(t), "spec": map[string]any{"restartPolicy": "Never"}, "status": status}
}

// The manifests and the Go readers are two ways to say the same, so that nothing changes for
// whoever copies a manifest.
func TestJobAndPodExpressionsAgreeWithTheGoReaders(t *testing.T) {
	all := builtin(t)
	for name, c := range map[string]struct {
		native *policy.Profile
		draw   func(*rapid.T) map[string]any
	}{
		"job.batch": {policy.JobProfile, job},
		"pod.":      {policy.PodProfile, pod},
	} {
		t.Run(name, func(t *testing.T) {
			compiled := all[name].Profile
			rapid.Check(t, func(t *rapid.T) {
				object := c.draw(t)
				want, got := policy.FactsOfObject(c.native, object), policy.FactsOfObject(compiled, object)
				if want.StateError != nil || got.StateError != nil {
					t.Fatalf("errors: Go %v, expressions %v", want.StateError, got.StateError)
				}
				if got.Finished != want.Finished || got.Outcome != want.Outcome || got.Suspended != want.Suspended || !got.Started.Equal(want.Started) || !got.FinishTime.Equal(want.FinishTime) {
					t.Fatalf("expressions %+v, Go %+v", got.State, want.State)
				}
			})
		})
	}
}
