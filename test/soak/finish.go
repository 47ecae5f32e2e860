package main

import (
	"context"
	"time"
)

// finish writes into the status what the kind's own controller would have written, so that the
// object finished at an instant.
func (w *world) finish(ctx context.Context, o *object, at time.Time) error {
	var status map[string]any
	switch o.kind {
	case jobs:
		status = o.jobStatus(at)
	case pods:
		status = o.podStatus(at)
	default:
		// The KindProfile reads one time or the other, see meanings.
		status = map[string]any{"outcome": o.outcome(), "finishedAt": stamp(at), "verifiedAt": stamp(at.Add(o.verified))}
	}
	// With the UID, so that it never finishes another object that has taken the name.
	return w.patch(ctx, o, map[string]any{"metadata": map[string]any{"uid": o.uid}, "status": status}, "status")
}

func (o *object) outcome() string {
	if o.failed {
		return "Failed"
	}
	return "Succeeded"
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func condition(kind, reason string, at time.Time) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": stamp(at)}
}

// jobStatus has both conditions, as the API server wants to see the one that announces the end
// before or with the end.
func (o *object) jobStatus(at time.Time) map[string]any {
	status := map[string]any{"startTime": stamp(at.Add(-time.Minute))}
	if o.failed {
		status["failed"] = 1
		status["conditions"] = []any{condition("FailureTarget", "BackoffLimitExceeded", at), condition("Failed", "BackoffLimitExceeded", at)}
		return status
	}
	status["succeeded"], status["completionTime"] = 1, stamp(at)
	status["conditions"] = []any{condition("SuccessCriteriaMet", "CompletionsReached", at), condition("Complete", "CompletionsReached", at)}
	return status
}

// podStatus is that of a Pod whose container ended last, whose init container ended last, or that
// was evicted before any ran.
func (o *object) podStatus(at time.Time) map[string]any {
	status := map[string]any{"phase": o.outcome()}
	if o.silent {
		status["reason"] = "NodeLost"
		return status
	}
	ended := func(name string, at time.Time) map[string]any {
		code := 0
		if o.failed {
			code = 1
		}
		return map[string]any{"name": name, "image": "registry.example/" + name + ":1", "imageID": "", "ready": false, "restartCount": 0,
			"state": map[string]any{"terminated": map[string]any{"exitCode": code, "startedAt": stamp(at.Add(-time.Minute)), "finishedAt": stamp(at)}}}
	}
	switch form := o.name[len(o.name)-1] % 3; {
	case form == 0 && o.failed:
		status["reason"] = "Evicted"
		status["conditions"] = []any{condition("DisruptionTarget", "TerminationByKubelet", at)}
	case form == 1:
		status["initContainerStatuses"] = []any{ended("setup", at)}
	default:
		status["initContainerStatuses"] = []any{ended("setup", at.Add(-2*time.Hour))}
		status["containerStatuses"] = []any{ended("work", at)}
	}
	return status
}
