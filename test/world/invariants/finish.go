package invariants

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// end is how an object finished.
type end struct {
	finished, failed bool
	at               time.Time // never before the creation; zero if the object does not say
	ttlField         []string  // the native field of the kind
}

// endOf reads it from the status, for a custom kind as its KindProfile says.
func endOf(object, profile *unstructured.Unstructured) end {
	var out end
	switch object.GetKind() {
	case "Job":
		out.ttlField = []string{"spec", "ttlSecondsAfterFinished"}
		for _, condition := range entries(object.Object, "status", "conditions") {
			if condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed") {
				out.finished, out.failed = true, condition["type"] == "Failed"
				out.later(condition["lastTransitionTime"])
			}
		}
	case "Pod":
		phase := text(object, "status", "phase")
		out.failed = phase == "Failed"
		if out.finished = out.failed || phase == "Succeeded"; out.finished {
			out.podEnd(object)
		}
	default:
		out.custom(object, profile)
	}
	if created := object.GetCreationTimestamp().Time; !out.at.IsZero() && out.at.Before(created) {
		out.at = created // Nothing finishes before it exists.
	}
	return out
}

// later moves the end to a time in a status.
func (e *end) later(value any) {
	written, _ := value.(string)
	if t, err := time.Parse(time.RFC3339, written); err == nil && t.Unix() > 0 && t.After(e.at) {
		e.at = t
	}
}

// podEnd is the end of the last container, else the last transition of a condition, else what
// Curfew wrote down.
func (e *end) podEnd(pod *unstructured.Unstructured) {
	for _, list := range []string{"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"} {
		for _, container := range entries(pod.Object, "status", list) {
			finishedAt, _, _ := unstructured.NestedString(container, "state", "terminated", "finishedAt")
			e.later(finishedAt)
		}
	}
	if e.at.IsZero() {
		for _, condition := range entries(pod.Object, "status", "conditions") {
			e.later(condition["lastTransitionTime"])
		}
	}
	if e.at.IsZero() {
		e.later(pod.GetAnnotations()[prefix+"finished-at"])
	}
}

var statusField = regexp.MustCompile(`object\.\?status\.\?(\w+)`)

// custom reads the field that the profile names as the finish time, else the time of the first
// condition. The profiles of the tests leave out failed objects or do not.
func (e *end) custom(object, profile *unstructured.Unstructured) {
	field := "finishedAt"
	e.failed = text(object, "status", "outcome") == "Failed"
	if profile != nil {
		if named := statusField.FindStringSubmatch(text(profile, "spec", "state", "finishTime")); named != nil {
			field = named[1]
		}
		if e.failed && strings.Contains(text(profile, "spec", "state", "finished"), `!= "Failed"`) {
			return
		}
		e.ttlField = strings.Split(text(profile, "spec", "fields", "ttl"), ".")
	}
	e.later(text(object, "status", field))
	if conditions := entries(object.Object, "status", "conditions"); e.at.IsZero() && len(conditions) > 0 {
		e.failed = true
		e.later(conditions[0]["lastTransitionTime"])
	}
	e.finished = !e.at.IsZero()
}

// entries are the objects in a list.
func entries(values map[string]any, path ...string) (out []map[string]any) {
	value, _, _ := unstructured.NestedFieldNoCopy(values, path...)
	list, _ := value.([]any)
	for _, v := range list {
		if inner, ok := v.(map[string]any); ok {
			out = append(out, inner)
		}
	}
	return out
}
