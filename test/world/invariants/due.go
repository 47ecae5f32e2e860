package invariants

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/test/world"
)

const (
	annotationTTL      = "curfew.dev/ttl-after-finished"
	annotationDeadline = "curfew.dev/active-deadline"
	labelTTL           = "curfew.dev/ttl"
)

// version is an object from one write to the next. object is nil where there is none.
type version struct {
	from, to time.Time // to is zero for the last one
	object   *unstructured.Unstructured
}

// timeline has the versions of all objects, by resource and key.
type timeline map[string][]version

func nameOf(resource, namespace, name string) string {
	return resource + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}

// add takes over a write.
func (t timeline) add(one *world.Record) {
	if one.Code != 200 || one.DryRun || one.Verb == "list" || one.Before == one.After {
		return
	}
	if kind := one.Resource.Kind; kind == "Event" || kind == "Lease" {
		return
	}
	key := nameOf(one.Resource.Resource, one.Namespace, one.Name)
	if known := t[key]; len(known) > 0 {
		known[len(known)-1].to = one.At
	}
	t[key] = append(t[key], version{from: one.At, object: one.After})
}

// between are the versions that existed at some time in an interval.
func (t timeline) between(key string, from, to time.Time) (out []version) {
	for _, one := range t[key] {
		if !one.from.After(to) && (one.to.IsZero() || !one.to.Before(from)) {
			out = append(out, one)
		}
	}
	return out
}

// of are the keys of a resource.
func (t timeline) of(resource string) (out []string) {
	for key := range t {
		if strings.HasPrefix(key, resource+" ") {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// early returns why an object was not due when it was deleted, by no rules of the last 15 seconds.
func (t timeline) early(one *world.Record, grain time.Duration) string {
	why := "its namespace does not exist"
	namespaces := []version{{object: &unstructured.Unstructured{}}}
	if one.Namespace != "" {
		namespaces = t.between(nameOf("namespaces", "", one.Namespace), one.Sent.Add(-staleFor), one.At)
	}
	for _, namespace := range namespaces {
		if namespace.object == nil {
			continue
		}
		due, reason := t.due(one.Before, namespace, one.Sent.Add(-staleFor), one.At)
		switch {
		case reason != "":
			why = reason
		case one.At.Add(grain).Before(due):
			why = fmt.Sprintf("it is due at %s", due.Format(clock))
		default:
			return ""
		}
	}
	return why
}

// due returns when an object is due by the rules of a namespace, or why it is not.
func (t timeline) due(object *unstructured.Unstructured, namespace version, from, to time.Time) (at time.Time, why string) {
	rules := namespace.object.GetAnnotations()
	switch {
	case rules["curfew.dev/mode"] == "dry-run":
		return at, "its namespace is in dry-run"
	case object.GetAnnotations()["curfew.dev/protect"] == "true":
		return at, "it is protected"
	}
	least, err := time.ParseDuration(rules["curfew.dev/min-ttl"])
	if err != nil {
		least = 0
	}
	byLabel, whyLabel := labelDue(object, least)
	byTTL, whyTTL := t.ttlDue(object, namespace, least, from, to)
	switch {
	case whyLabel == "" && (whyTTL != "" || byLabel.Before(byTTL)):
		return byLabel, ""
	case whyTTL == "":
		return byTTL, ""
	case whyLabel == noLabel:
		return at, whyTTL
	}
	return at, whyLabel
}

const noLabel = "it has no TTL label"

// labelDue is when an object is due by its TTL label.
func labelDue(object *unstructured.Unstructured, least time.Duration) (at time.Time, why string) {
	text := object.GetLabels()[labelTTL]
	if text == "" {
		return at, noLabel
	}
	ttl, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return at, "its TTL label cannot be read"
	case ttl < least:
		return at, "its TTL label is below the minimum of its namespace"
	}
	began := object.GetCreationTimestamp().Time
	if text := object.GetAnnotations()["curfew.dev/refreshed-at"]; text != "" {
		refreshed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return at, "its refreshed-at cannot be read"
		}
		began = refreshed
	}
	return began.Add(ttl), ""
}

// ttlDue is when an object is due by its TTL after it finished.
func (t timeline) ttlDue(object *unstructured.Unstructured, namespace version, least time.Duration, from, to time.Time) (at time.Time, why string) {
	finished, ok := finishOf(object)
	if !ok {
		return at, "it has not finished, and " + noLabel
	}
	if created := object.GetCreationTimestamp().Time; finished.Before(created) {
		finished = created
	}
	ttl, own, why := ownTTL(object)
	switch {
	case why != "":
		return at, why
	case own && ttl < least:
		return at, "its TTL is below the minimum of its namespace"
	case own:
		return finished.Add(ttl), ""
	}
	if ttl, ok := t.defaultTTL(object, namespace, from, to); ok {
		return finished.Add(max(ttl, least)), ""
	}
	return at, "it has no TTL"
}

// ownTTL is the TTL that the author of an object set.
func ownTTL(object *unstructured.Unstructured) (ttl time.Duration, own bool, why string) {
	if seconds, ok, _ := unstructured.NestedInt64(object.Object, "spec", "ttlSecondsAfterFinished"); ok && object.GetKind() == "Job" {
		return time.Duration(seconds) * time.Second, true, ""
	}
	text := object.GetAnnotations()[annotationTTL]
	if text == "" {
		return 0, false, ""
	}
	ttl, err := time.ParseDuration(text)
	if err != nil {
		return 0, true, "its TTL cannot be read"
	}
	return ttl, true, ""
}

// defaultTTL is the TTL that a namespace, a tally or a policy gives an object without its own.
func (t timeline) defaultTTL(object *unstructured.Unstructured, namespace version, from, to time.Time) (time.Duration, bool) {
	owned := len(object.GetOwnerReferences()) > 0
	if object.GetKind() == "Pod" {
		for _, key := range t.of("podtallies") {
			for _, tally := range t.between(key, from, to) {
				if tally.object == nil || object.GetAnnotations()["curfew.dev/counted-by"] != string(tally.object.GetUID()) {
					continue
				}
				text, _, _ := unstructured.NestedString(tally.object.Object, "spec", "ttlAfterCounted")
				if ttl, err := time.ParseDuration(text); err == nil {
					return ttl, true
				}
			}
		}
	}
	for _, key := range []string{"curfew.dev/default-pod-ttl", "curfew.dev/default-ttl"} {
		if onlyPods := key == "curfew.dev/default-pod-ttl"; onlyPods && object.GetKind() != "Pod" || !onlyPods && owned {
			continue
		}
		if ttl, err := time.ParseDuration(namespace.object.GetAnnotations()[key]); err == nil && !t.older(object, namespace, key) {
			return ttl, true
		}
	}
	for _, one := range t.of("lifecyclepolicies") {
		for _, policy := range t.between(one, from, to) {
			if ttl, ok := policyTTL(policy, object); ok {
				return ttl, true
			}
		}
	}
	return 0, false
}

// older reports whether an object is older than a default of its namespace. A Pod of a Job takes
// the default at any age.
func (t timeline) older(object *unstructured.Unstructured, namespace version, key string) bool {
	if len(object.GetOwnerReferences()) > 0 {
		return false
	}
	since := namespace.from
	versions := t[nameOf("namespaces", "", namespace.object.GetName())]
	for i := len(versions) - 1; i >= 0; i-- {
		one := versions[i]
		if one.from.After(namespace.from) {
			continue
		}
		if one.object == nil || one.object.GetAnnotations()[key] != namespace.object.GetAnnotations()[key] {
			break
		}
		since = one.from
	}
	return object.GetCreationTimestamp().Time.Before(since.Truncate(time.Second))
}

func policyTTL(policy version, object *unstructured.Unstructured) (time.Duration, bool) {
	if policy.object == nil || object.GetCreationTimestamp().Time.Before(policy.object.GetCreationTimestamp().Time) || len(object.GetOwnerReferences()) > 0 {
		return 0, false
	}
	mode, _, _ := unstructured.NestedString(policy.object.Object, "spec", "mode")
	text, _, _ := unstructured.NestedString(policy.object.Object, "spec", "defaults", "ttl", "value")
	ttl, err := time.ParseDuration(text)
	return ttl, err == nil && mode != "DryRun" && object.GetKind() == "Job"
}

// finishOf is when an object finished.
func finishOf(object *unstructured.Unstructured) (at time.Time, ok bool) {
	text := ""
	switch object.GetKind() {
	case "Job":
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			if condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed") {
				text, _ = condition["lastTransitionTime"].(string)
			}
		}
	case "Pod":
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		containers, _, _ := unstructured.NestedSlice(object.Object, "status", "containerStatuses")
		if len(containers) > 0 && (phase == "Succeeded" || phase == "Failed") {
			container, _ := containers[0].(map[string]any)
			text, _, _ = unstructured.NestedString(container, "state", "terminated", "finishedAt")
		}
	case "Run":
		text, _, _ = unstructured.NestedString(object.Object, "status", "finishedAt")
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		if len(conditions) > 0 && text == "" {
			condition, _ := conditions[0].(map[string]any)
			text, _ = condition["lastTransitionTime"].(string)
		}
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// cleanable returns why a cleanup policy does not allow that an object is deleted.
func (t timeline) cleanable(one *world.Record) string {
	from := one.Sent.Add(-staleFor)
	for _, key := range t.of("clustercleanuppolicies") {
		for _, policy := range t.between(key, from, one.At) {
			if policy.object != nil && matches(policy.object, one.Before) && one.Before.GetAnnotations()["curfew.dev/protect"] != "true" {
				return ""
			}
		}
	}
	return "no cleanup policy matches it"
}

// matches is how the cleanup policies of the tests match: by the name of a ConfigMap, unless label
// keep is set.
func matches(policy, object *unstructured.Unstructured) bool {
	rules, _, _ := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	return object.GetLabels()["keep"] == "" && slices.ContainsFunc(rules, func(one any) bool {
		rule, _ := one.(map[string]any)
		names, _, _ := unstructured.NestedStringSlice(rule, "resourceNames")
		return slices.ContainsFunc(names, func(pattern string) bool {
			ok, _ := path.Match(pattern, object.GetName())
			return ok
		})
	})
}
