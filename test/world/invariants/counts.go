package invariants

import (
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
)

// triggerOf is why Curfew deletes an object; "" if that is ttl or label.
func (j *Judge) triggerOf(record *Record) string {
	switch _, labelled := record.Before.GetLabels()[labelTTL]; {
	case record.Trigger != "":
		return record.Trigger
	case j.CleanupUser != "" && record.User == j.CleanupUser:
		return "cleanup"
	case !labelled:
		return "ttl"
	case record.Kind == "ConfigMap":
		return "label"
	}
	return ""
}

// paused returns why a pause held a request when it was sent, or "".
func (j *Judge) paused(record *Record, trigger string) string {
	for _, key := range j.rules.of("deletionpauses") {
		for _, pause := range j.rules.between(key, record.Sent, record.Sent) {
			if pause.object == nil || record.Sent.Sub(pause.from) <= pausedFrom {
				continue
			}
			triggers, _, _ := unstructured.NestedStringSlice(pause.object.Object, "spec", "triggers")
			namespaces, _, _ := unstructured.NestedStringSlice(pause.object.Object, "spec", "namespaces")
			named := len(namespaces) == 0 || matchesAny(namespaces, record.Namespace)
			if named && (len(triggers) == 0 || slices.Contains(triggers, trigger)) {
				return fmt.Sprintf("%s holds it since %s", key, pause.from.Format(clock))
			}
		}
	}
	return ""
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// counts are what the counters of Curfew should show.
type counts struct {
	succeeded, failed map[string]int64 // Pods that were marked as counted, by the UID of the tally
	swept, others     map[types.UID]bool
}

// count notes what a counter should count.
func (j *Judge) count(record *Record) {
	if record.Code != 200 || record.DryRun || record.Before == nil {
		return
	}
	uid := record.Before.GetUID()
	switch {
	case record.Verb == "delete" && record.Kind == "ConfigMap" && record.User == j.CleanupUser:
		j.swept[uid] = true
	case record.Verb == "delete" && record.Kind == "ConfigMap":
		j.others[uid] = true
	case record.Verb == "patch" && record.Kind == "Pod" && j.Curfew(record.Client):
		after := record.After
		if after == nil { // The finalizer was the last one: the patch says by which tally.
			after = record.Last
		}
		by := after.GetAnnotations()[prefix+"counted-by"]
		switch {
		case by == "" || by == wellknown.CountedByNone || record.Before.GetAnnotations()[prefix+"counted-by"] == by:
		case text(record.Before, "status", "phase") == "Succeeded":
			j.succeeded[by]++
		default:
			j.failed[by]++
		}
	}
}

// tallies compares the counts of each PodTally with the Pods that were marked as counted by it
// (S7).
func (j *Judge) tallies() {
	for _, key := range j.rules.of("podtallies") {
		versions := j.rules[key]
		tally := versions[len(versions)-1].object
		if tally == nil {
			continue
		}
		by := string(tally.GetUID())
		succeeded, failed := number(tally, "status", "succeeded"), number(tally, "status", "failed")
		if succeeded != j.succeeded[by] || failed != j.failed[by] {
			j.fault("S7", nil, "%s counts %d succeeded and %d failed Pods, want %d and %d", key, succeeded, failed, j.succeeded[by], j.failed[by])
		}
		j.uncounted(key, tally)
	}
}

func number(object *unstructured.Unstructured, path ...string) int64 {
	out, _, _ := unstructured.NestedInt64(object.Object, path...)
	return out
}

// uncounted finds Pods that a tally should have counted.
func (j *Judge) uncounted(key string, tally *unstructured.Unstructured) {
	wanted := text(tally, "spec", "selector", "matchLabels", "app")
	for _, name := range j.rules.of("pods") {
		versions := j.rules[name]
		pod := versions[len(versions)-1].object
		if pod == nil || pod.GetNamespace() != tally.GetNamespace() || pod.GetLabels()["app"] != wanted || len(pod.GetOwnerReferences()) > 0 {
			continue
		}
		if endOf(pod, nil).finished && pod.GetAnnotations()[prefix+"counted-by"] == "" {
			j.fault("S7", nil, "%s has not counted %s", key, name)
		}
	}
}

// cleanups compares the counts of cleanup policies with the DELETEs that were accepted from their
// account (S7). An object that another client deleted may be in the counts.
func (j *Judge) cleanups() {
	var deleted, lost int64
	known := false
	for _, key := range j.rules.of("clustercleanuppolicies") {
		versions := j.rules[key]
		policy := versions[len(versions)-1].object
		if policy == nil {
			return // Its counts are gone with it.
		}
		deleted, lost, known = deleted+number(policy, "status", "deleted"), lost+number(policy, "status", "lastRun", "lost"), true
	}
	sent, others := int64(len(j.swept)), int64(len(j.others))
	switch {
	case !known:
	case sent > deleted+lost:
		j.fault("S7", nil, "the cleanup policies count %d deleted objects, and %d were deleted", deleted, sent)
	case deleted > sent+others:
		j.fault("S7", nil, "the cleanup policies count %d deleted objects, but only %d were deleted, and %d by others", deleted, sent, others)
	}
}

// cleanable returns why a cleanup policy does not allow that an object is deleted.
func (j *Judge) cleanable(record *Record) string {
	protected, ok := record.Before.GetAnnotations()[prefix+"protect"]
	if ok && protected != "false" {
		return "it is protected"
	}
	for _, key := range j.rules.of("clustercleanuppolicies") {
		for _, policy := range j.rules.between(key, j.since(record.Sent), record.At) {
			if policy.object != nil && matches(policy.object, record.Before) {
				return ""
			}
		}
	}
	return "no cleanup policy matches it"
}

// matches is how the cleanup policies of the tests match: by the name of a ConfigMap, unless label
// keep is set.
func matches(policy, object *unstructured.Unstructured) bool {
	rules := entries(policy.Object, "spec", "matchConstraints", "resourceRules")
	return object.GetLabels()["keep"] == "" && slices.ContainsFunc(rules, func(rule map[string]any) bool {
		names, _, _ := unstructured.NestedStringSlice(rule, "resourceNames")
		return matchesAny(names, object.GetName())
	})
}
