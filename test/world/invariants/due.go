package invariants

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	prefix             = "curfew.dev/"
	annotationTTL      = prefix + "ttl-after-finished"
	annotationDeadline = prefix + "active-deadline"
	labelTTL           = prefix + "ttl"
	tracking           = "batch.kubernetes.io/job-tracking"
)

// question is whether an object is due by rules that were in effect at some time in an interval.
type question struct {
	timeline
	object   *unstructured.Unstructured
	trigger  string // "ttl" or "label": by this one alone
	from, to time.Time
	// ownOnly leaves out defaults.
	ownOnly bool
}

const noNamespace = "its namespace does not exist"

// due returns when the object is due at the earliest, or why it is not.
func (q *question) due() (soonest time.Time, why string) {
	why = noNamespace
	for _, namespace := range q.namespaces() {
		if namespace.object == nil {
			continue
		}
		for _, profile := range q.profiles() {
			t, reason := q.dueIn(namespace, endOf(q.object, profile))
			switch {
			case reason != "" && soonest.IsZero():
				why = reason
			case reason == "" && (soonest.IsZero() || t.Before(soonest)):
				soonest, why = t, ""
			}
		}
	}
	return soonest, why
}

func (q *question) namespaces() []version {
	if q.object.GetNamespace() == "" {
		return []version{{object: &unstructured.Unstructured{}}}
	}
	return q.between(nameOf("namespaces", "", q.object.GetNamespace()), q.from, q.to)
}

// profiles are what KindProfiles said about the kind of the object; one nil if none did.
func (q *question) profiles() (out []*unstructured.Unstructured) {
	for _, key := range q.of("kindprofiles") {
		for _, version := range q.between(key, q.from, q.to) {
			if version.object != nil && text(version.object, "spec", "kind", "kind") == q.object.GetKind() {
				out = append(out, version.object)
			}
		}
	}
	if out == nil {
		out = append(out, nil)
	}
	return out
}

// dueIn returns when the object is due by the rules of a namespace, or why it is not.
func (q *question) dueIn(namespace version, end end) (t time.Time, why string) {
	rules := namespace.object.GetAnnotations()
	switch protected, ok := q.object.GetAnnotations()[prefix+"protect"]; {
	case rules[prefix+"mode"] == "dry-run":
		return t, "its namespace is in dry-run"
	case ok && protected != "false":
		return t, "it is protected"
	}
	least, _ := read(rules[prefix+"min-ttl"]) // 0 where there is none.
	byLabel, whyLabel := q.labelDue(least)
	byTTL, whyTTL := q.ttlDue(namespace, end, least)
	switch {
	case q.trigger == "label":
		return byLabel, whyLabel
	case q.trigger == "ttl":
		return byTTL, whyTTL
	case whyLabel == "" && (whyTTL != "" || byLabel.Before(byTTL)):
		return byLabel, ""
	case whyTTL == "":
		return byTTL, ""
	case whyLabel == noLabel:
		return t, whyTTL
	}
	return t, whyLabel
}

const noLabel = "it has no TTL label"

// labelDue is when the object is due by its TTL label: a duration or a date.
func (q *question) labelDue(least time.Duration) (t time.Time, why string) {
	value := q.object.GetLabels()[labelTTL]
	if value == "" {
		return t, noLabel
	}
	if date, err := time.Parse("2006-01-02T150405Z", value); err == nil {
		return date, ""
	}
	ttl, why := read(value)
	switch {
	case why != "":
		return t, "its TTL label " + why
	case ttl < least:
		return t, "its TTL label is below the minimum of its namespace"
	}
	began := q.object.GetCreationTimestamp().Time
	if value := q.object.GetAnnotations()[prefix+"refreshed-at"]; value != "" {
		refreshed, err := time.Parse(time.RFC3339, value)
		if err != nil {
			return t, "its refreshed-at cannot be read"
		}
		began = refreshed
	}
	return began.Add(ttl), ""
}

const noTime = "it does not say when it finished"

// ttlDue is when the object is due by its TTL after it finished.
func (q *question) ttlDue(namespace version, end end, least time.Duration) (t time.Time, why string) {
	switch {
	case !end.finished:
		return t, "it has not finished, and " + noLabel
	case text(q.object, "spec", "restartPolicy") == "Always":
		return t, "it has restartPolicy Always"
	}
	ttl, own, why := end.ownTTL(q.object)
	switch {
	case why != "":
		return t, why
	case own && ttl < least:
		return t, "its TTL is below the minimum of its namespace"
	case end.at.IsZero() && own:
		return t, noTime
	case own:
		return end.at.Add(ttl), ""
	case q.ownOnly:
		return t, "it has no TTL of its own"
	}
	ttl, ok := q.defaultTTL(namespace)
	switch {
	case !ok:
		return t, "it has no TTL"
	case end.at.IsZero():
		return t, noTime
	}
	return end.at.Add(max(ttl, least)), ""
}

// ownTTL is the TTL that the author of an object set, or its stamp.
func (e *end) ownTTL(object *unstructured.Unstructured) (ttl time.Duration, own bool, why string) {
	annotations := object.GetAnnotations()
	outcome, other := prefix+"ttl-after-succeeded", prefix+"ttl-after-failed"
	if e.failed {
		outcome, other = other, outcome
	}
	for _, key := range []string{outcome, annotationTTL} {
		if value := annotations[key]; value != "" {
			ttl, why := read(value)
			if why != "" {
				why = "its TTL " + why
			}
			return ttl, true, why
		}
	}
	if seconds, ok, _ := unstructured.NestedInt64(object.Object, e.ttlField...); ok {
		return time.Duration(seconds) * time.Second, true, ""
	}
	switch {
	case annotations[other] != "":
		return 0, false, "it has a TTL for the other outcome alone"
	case annotations[prefix+"ttl-source"] != "":
		return 0, false, "its stamped TTL was removed"
	}
	return 0, false, ""
}

// defaultTTL is the TTL that a tally, a namespace or a policy gives an object without its own.
func (q *question) defaultTTL(namespace version) (ttl time.Duration, ok bool) {
	owned := len(q.object.GetOwnerReferences()) > 0
	if q.object.GetKind() == "Pod" {
		for _, key := range q.of("podtallies") {
			for _, tally := range q.between(key, q.from, q.to) {
				if tally.object == nil || q.object.GetAnnotations()[prefix+"counted-by"] != string(tally.object.GetUID()) {
					continue
				}
				if ttl, why := read(text(tally.object, "spec", "ttlAfterCounted")); why == "" {
					return ttl, true
				}
			}
		}
	}
	for _, key := range []string{prefix + "default-pod-ttl", prefix + "default-ttl"} {
		if onlyPods := key == prefix+"default-pod-ttl"; onlyPods && q.object.GetKind() != "Pod" || !onlyPods && owned {
			continue
		}
		if ttl, why := read(namespace.object.GetAnnotations()[key]); why == "" && !q.older(namespace, key) {
			return ttl, true
		}
	}
	for _, name := range q.of("lifecyclepolicies") {
		for _, policy := range q.between(name, q.from, q.to) {
			if next, found := q.policyTTL(policy, namespace.object); found && (!ok || next < ttl) {
				ttl, ok = next, true
			}
		}
	}
	return ttl, ok
}

// older reports whether the object is older than a default of its namespace. A Pod of a Job takes
// the default at any age.
func (q *question) older(namespace version, key string) bool {
	annotations := namespace.object.GetAnnotations()
	if len(q.object.GetOwnerReferences()) > 0 || annotations[prefix+"backfill"] == "true" {
		return false
	}
	since := namespace.from
	versions := q.timeline[nameOf("namespaces", "", namespace.object.GetName())]
	for i := len(versions) - 1; i >= 0; i-- {
		version := versions[i]
		if version.from.After(namespace.from) {
			continue
		}
		if version.object == nil || version.object.GetAnnotations()[key] != annotations[key] {
			break
		}
		since = version.from
	}
	return q.object.GetCreationTimestamp().Time.Before(since.Truncate(time.Second))
}

func (q *question) policyTTL(policy version, namespace *unstructured.Unstructured) (time.Duration, bool) {
	if policy.object == nil || q.object.GetCreationTimestamp().Time.Before(policy.object.GetCreationTimestamp().Time) || len(q.object.GetOwnerReferences()) > 0 {
		return 0, false
	}
	kinds, _, _ := unstructured.NestedSlice(policy.object.Object, "spec", "match", "kinds")
	named := len(kinds) == 0
	for _, kind := range kinds {
		kind, _ := kind.(map[string]any)
		named = named || kind["kind"] == q.object.GetKind()
	}
	wanted, _, _ := unstructured.NestedStringMap(policy.object.Object, "spec", "match", "namespaceSelector", "matchLabels")
	for key, value := range wanted {
		named = named && namespace.GetLabels()[key] == value
	}
	ttl, why := read(text(policy.object, "spec", "defaults", "ttl", "value"))
	return ttl, why == "" && named && text(policy.object, "spec", "mode") != "DryRun"
}

// read reads a duration. What it cannot read keeps.
func read(value string) (d time.Duration, why string) {
	const unreadable = "cannot be read"
	if value == "never" {
		return 0, "is never"
	}
	if days, rest, ok := strings.Cut(value, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if d *= 24; err != nil || rest == "" {
			return d, unless(err == nil, unreadable)
		}
		more, why := read(rest)
		return d + more, why
	}
	if strings.Trim(value, "0123456789") == "" && value != "" {
		value += "s"
	}
	d, err := time.ParseDuration(value)
	return d, unless(err == nil && d >= 0, unreadable)
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}
