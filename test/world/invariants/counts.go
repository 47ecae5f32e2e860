package invariants

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/world"
)

// triggerOf is why Curfew deletes an object; "" if that is ttl or label.
func triggerOf(one *world.Record, cleanupUser string) string {
	switch _, labelled := one.Before.GetLabels()[labelTTL]; {
	case one.User == cleanupUser:
		return "cleanup"
	case !labelled:
		return "ttl"
	case one.Resource.Kind == "ConfigMap":
		return "label"
	}
	return ""
}

// paused returns why a pause held a request when it was sent, or "".
func (t timeline) paused(one *world.Record, trigger string) string {
	for _, key := range t.of("deletionpauses") {
		for _, pause := range t.between(key, one.Sent, one.Sent) {
			if pause.object == nil || one.Sent.Sub(pause.from) <= pausedFrom {
				continue
			}
			triggers, _, _ := unstructured.NestedStringSlice(pause.object.Object, "spec", "triggers")
			namespaces, _, _ := unstructured.NestedStringSlice(pause.object.Object, "spec", "namespaces")
			named := len(namespaces) == 0 || slices.ContainsFunc(namespaces, func(pattern string) bool {
				ok, _ := path.Match(pattern, one.Namespace)
				return ok
			})
			if named && (len(triggers) == 0 || slices.Contains(triggers, trigger)) {
				return fmt.Sprintf("%s holds it since %s", key, pause.from.Format(clock))
			}
		}
	}
	return ""
}

// certain is when an object is due by the rules of now, if no other rule can keep it.
func (t timeline) certain(object *unstructured.Unstructured, now time.Time) (time.Time, bool) {
	namespace := version{object: &unstructured.Unstructured{}}
	if object.GetNamespace() != "" {
		current := t.between(nameOf("namespaces", "", object.GetNamespace()), now, now)
		if len(current) == 0 || current[len(current)-1].object == nil {
			return now, false
		}
		namespace = current[len(current)-1]
	}
	rules := namespace.object.GetAnnotations()
	if rules["curfew.dev/mode"] == "dry-run" || object.GetAnnotations()["curfew.dev/protect"] == "true" || strings.HasPrefix(object.GetNamespace(), "kube-") {
		return now, false
	}
	if slices.Contains(object.GetFinalizers(), "batch.kubernetes.io/job-tracking") {
		return now, false
	}
	least, _ := time.ParseDuration(rules["curfew.dev/min-ttl"]) // 0 where there is none.
	due, why := labelDue(object, least)
	if finished, ok := finishOf(object); ok {
		if ttl, own, bad := ownTTL(object); own && bad == "" && ttl >= least {
			if at := finished.Add(ttl); why != "" || at.Before(due) {
				due, why = at, ""
			}
		}
	}
	deadline, err := time.ParseDuration(object.GetAnnotations()[annotationDeadline])
	if object.GetKind() == "Run" && err == nil && !marked(object) {
		if _, finished := finishOf(object); !finished {
			return object.GetCreationTimestamp().Add(deadline), true
		}
	}
	return due, why == ""
}

// tallies compares the counts of each PodTally with the Pods that were marked as counted by it, in
// a history at rest (S7).
func (j *Judge) tallies(records []*world.Record) {
	succeeded, failed := map[string]int64{}, map[string]int64{}
	for _, one := range records {
		if !j.Curfew(one.Client) || one.Code != 200 || one.DryRun || one.Verb != "patch" || one.Resource.Kind != "Pod" || one.Before == nil {
			continue
		}
		after := one.After
		if after == nil { // The finalizer was the last one: the patch says by which tally.
			after = one.Last
		}
		by := after.GetAnnotations()["curfew.dev/counted-by"]
		if by == "" || by == wellknown.CountedByNone || one.Before.GetAnnotations()["curfew.dev/counted-by"] == by {
			continue
		}
		if phase, _, _ := unstructured.NestedString(one.Before.Object, "status", "phase"); phase == "Succeeded" {
			succeeded[by]++
		} else {
			failed[by]++
		}
	}
	for _, key := range j.rules.of("podtallies") {
		versions := j.rules[key]
		tally := versions[len(versions)-1].object
		if tally == nil {
			continue
		}
		by := string(tally.GetUID())
		has := func(field string) int64 {
			count, _, _ := unstructured.NestedInt64(tally.Object, "status", field)
			return count
		}
		if has("succeeded") != succeeded[by] || has("failed") != failed[by] {
			j.fault("S7", nil, "%s counts %d succeeded and %d failed Pods, want %d and %d", key, has("succeeded"), has("failed"), succeeded[by], failed[by])
		}
		j.uncounted(key, tally)
	}
}

// uncounted finds Pods that a tally should have counted.
func (j *Judge) uncounted(key string, tally *unstructured.Unstructured) {
	wanted, _, _ := unstructured.NestedString(tally.Object, "spec", "selector", "matchLabels", "app")
	for _, of := range j.rules.of("pods") {
		versions := j.rules[of]
		pod := versions[len(versions)-1].object
		if pod == nil || pod.GetNamespace() != tally.GetNamespace() || pod.GetLabels()["app"] != wanted || len(pod.GetOwnerReferences()) > 0 {
			continue
		}
		if _, finished := finishOf(pod); finished && pod.GetAnnotations()["curfew.dev/counted-by"] == "" {
			j.fault("S7", nil, "%s has not counted %s", key, of)
		}
	}
}

// cleanups compares the counts of cleanup policies with the DELETEs that were accepted from their
// account, in a history at rest (S7). An object that another client deleted may be in the counts.
func (j *Judge) cleanups(records []*world.Record) {
	sent, others := map[types.UID]bool{}, map[types.UID]bool{}
	for _, one := range records {
		if one.Verb != "delete" || one.Code != 200 || one.DryRun || one.Resource.Kind != "ConfigMap" || one.Before == nil {
			continue
		}
		if one.User == j.CleanupUser {
			sent[one.Before.GetUID()] = true
		} else {
			others[one.Before.GetUID()] = true
		}
	}
	var deleted, lost int64
	known := false
	for _, key := range j.rules.of("clustercleanuppolicies") {
		versions := j.rules[key]
		policy := versions[len(versions)-1].object
		if len(versions) == 0 || policy == nil {
			return // Its counts are gone with it.
		}
		count, _, _ := unstructured.NestedInt64(policy.Object, "status", "deleted")
		missing, _, _ := unstructured.NestedInt64(policy.Object, "status", "lastRun", "lost")
		deleted, lost, known = deleted+count, lost+missing, true
	}
	switch {
	case !known:
	case int64(len(sent)) > deleted+lost:
		j.fault("S7", nil, "the cleanup policies count %d deleted objects, and %d were deleted", deleted, len(sent))
	case deleted > int64(len(sent)+len(others)):
		j.fault("S7", nil, "the cleanup policies count %d deleted objects, but only %d were deleted, and %d by others", deleted, len(sent), len(others))
	}
}
