package judging

import (
	"slices"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// TriggerInfo describes one trigger to everything that lists triggers: the controller's registry,
// which adds the action, and the flags and answers of the command line.
type TriggerInfo struct {
	Name policy.Trigger
	// Verb says what Curfew does to an object that is due. It is "" if no object ever is.
	Verb string
	// Settings says where a user finds the settings of the trigger.
	Settings string
	// Stops: Curfew stops the object, which stays.
	Stops bool
	// Pausable: a DeletionPause can name the trigger. The enum in package v1alpha1 has its name, too.
	Pausable bool
	// Unfinished: the trigger applies to objects that run. The controller and the command line then
	// read running Pods, too.
	Unfinished bool
	// Judge judges an object for [Explanation.Others]. It is nil for triggers whose verdict has a
	// field of its own there, and for those that judge no single object.
	Judge func(e *Explanation, now time.Time) policy.Verdict
}

const anywhere = " of objects, runtimes, Namespaces and LifecyclePolicies"

// triggers has one entry for each trigger.
var triggers = []TriggerInfo{
	{Name: policy.TriggerTTL, Verb: "deletes", Settings: "TTLs after finished" + anywhere, Pausable: true},
	{Name: policy.TriggerLabel, Verb: "deletes", Settings: "label " + wellknown.LabelTTL, Pausable: true},
	{Name: policy.TriggerCleanup, Verb: "deletes", Settings: "CleanupPolicies and ClusterCleanupPolicies", Pausable: true},
	{Name: policy.TriggerDeadline, Verb: "stops", Settings: "deadlines" + anywhere, Stops: true, Pausable: true, Unfinished: true},
	{Name: policy.TriggerTally, Settings: "PodTallies"},
}

// Triggers returns all triggers, in the order in which Curfew lists them.
func Triggers() []TriggerInfo { return slices.Clone(triggers) }

// RegisterTrigger adds a trigger until remove is called. It is not safe for concurrent use: call it
// before anything judges.
func RegisterTrigger(info TriggerInfo) (remove func()) {
	before := triggers
	triggers = append(slices.Clone(triggers), info)
	return func() { triggers = before }
}

// InfoOf describes a trigger. All fields but the name are empty for an unknown one.
func InfoOf(t policy.Trigger) TriggerInfo {
	for _, info := range triggers {
		if info.Name == t {
			return info
		}
	}
	return TriggerInfo{Name: t}
}

// Stops reports whether the trigger stops objects rather than deletes them.
func Stops(t policy.Trigger) bool { return InfoOf(t).Stops }
