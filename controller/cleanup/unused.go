package cleanup

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/cleanup"
)

// ReasonUnused is the reason of Events about objects that minUnused keeps.
const ReasonUnused = "Unused"

// maxUnused is for how many namespaces one run writes Events about unused objects. Tests make it
// smaller.
var maxUnused = 500

// unused are the objects of a run that minUnused keeps, by namespace.
type unused map[string]*unusedIn

type unusedIn struct {
	count int
	// first is the object that is deleted first, and until when minUnused keeps it.
	first *unstructured.Unstructured
	until time.Time
}

// add counts an object that minUnused keeps, and no other. It reports false if no Event will announce
// that object.
func (u *unused) add(object *unstructured.Unstructured, decision cleanup.Decision) bool {
	if decision.Reason != cleanup.SkipUnused {
		return true
	}
	found := (*u)[object.GetNamespace()]
	if found == nil {
		if len(*u) >= maxUnused {
			return false // The report counts all.
		}
		if *u == nil {
			*u = unused{}
		}
		found = &unusedIn{}
		(*u)[object.GetNamespace()] = found
	}
	if found.count++; found.first == nil || decision.Until.Before(found.until) {
		found.first, found.until = &unstructured.Unstructured{Object: map[string]any{}}, decision.Until
		found.first.SetGroupVersionKind(object.GroupVersionKind())
		found.first.SetNamespace(object.GetNamespace())
		found.first.SetName(object.GetName())
		found.first.SetUID(object.GetUID())
	}
	return true
}
