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
	in := (*u)[object.GetNamespace()]
	if in == nil {
		if len(*u) >= maxUnused {
			return false // The report counts all.
		}
		if *u == nil {
			*u = unused{}
		}
		in = &unusedIn{}
		(*u)[object.GetNamespace()] = in
	}
	if in.count++; in.first == nil || decision.Until.Before(in.until) {
		in.first, in.until = &unstructured.Unstructured{Object: map[string]any{}}, decision.Until
		in.first.SetGroupVersionKind(object.GroupVersionKind())
		in.first.SetNamespace(object.GetNamespace())
		in.first.SetName(object.GetName())
		in.first.SetUID(object.GetUID())
	}
	return true
}
