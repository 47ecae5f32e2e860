package judging

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Obstacle is something that keeps an object from being deleted or stopped.
type Obstacle struct {
	// Kind is a word for machines, such as protection or finalizer.
	Kind ObstacleKind
	// Message names the obstacle, as in "is protected by annotation curfew.dev/protect".
	Message string
	// Stops means that Curfew does not delete the object. Other obstacles may keep it for a while,
	// or have it created again.
	Stops bool
}

// ObstacleKind is the kind of an obstacle.
type ObstacleKind string

// The kinds of obstacles.
const (
	ObstacleTerminating ObstacleKind = "terminating"
	ObstacleProtection  ObstacleKind = "protection"
	ObstacleValue       ObstacleKind = "value"
	ObstacleDryRun      ObstacleKind = "dry-run"
	ObstacleOff         ObstacleKind = "off"
	ObstacleAccounting  ObstacleKind = "accounting"
	ObstacleFinalizer   ObstacleKind = "finalizer"
	ObstacleOwner       ObstacleKind = "owner"
	ObstaclePermission  ObstacleKind = "permission"
	ObstacleController  ObstacleKind = "controller"
	ObstacleBreaker     ObstacleKind = "breaker"
	ObstaclePause       ObstacleKind = "pause"
	ObstacleRefused     ObstacleKind = "refused"
	ObstacleConflict    ObstacleKind = "conflict"
	ObstacleLimit       ObstacleKind = "limit"
)

// DefaultProtect are the namespaces that the controller protects beside its own if flag --protect
// is not set.
func DefaultProtect() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// Surroundings are the settings of the controller that protect objects.
type Surroundings struct {
	// Protect are the namespaces in which the controller deletes nothing, its own included. See
	// [Protects].
	Protect []string
	// DryRun is --dry-run of the controller.
	DryRun bool
	// Off are the triggers that are switched off.
	Off []policy.Trigger
}

// Obstacles are what blocks an object, according to the object, its scope and the controller's
// settings.
func (e *Explanation) Obstacles(around Surroundings) []Obstacle {
	var out []Obstacle
	add := func(kind ObstacleKind, stops bool, message string, values ...any) {
		out = append(out, Obstacle{kind, fmt.Sprintf(message, values...), stops})
	}
	facts := e.Facts
	if facts.Deleting {
		since := facts.DeletingSince.UTC().Format(timeFormat)
		add(ObstacleTerminating, true, "is being deleted since %s; Curfew does not send its DELETE again", since)
	}
	out = append(out, protections(facts, e.Scope, around)...)
	for _, verdict := range slices.Concat([]policy.Verdict{e.ByTTL, e.ByLabel, e.ByDeadline}, e.Others) {
		if verdict.Err != nil {
			add(ObstacleValue, true, "%s: %s", verdict.Reason, verdict.Err)
		}
	}
	for _, err := range e.unusableOnceFinished() {
		add(ObstacleValue, true, "%s", err)
	}
	if facts.IsPod() && facts.Uncounted() {
		add(ObstacleAccounting, true, "the Job controller has not accounted for it (finalizer %s)", wellknown.FinalizerJobTracking)
	}
	if facts.HeldByTally() {
		add(ObstacleAccounting, true, "its PodTally has not counted it (finalizer %s)", wellknown.FinalizerTally)
	}
	if counter := e.Scope.Counter; facts.Finished && counter.Keeps(facts.Outcome) != "" && counter.Err == nil {
		add(ObstacleAccounting, true, "%s", counter.Keeps(facts.Outcome))
	}
	out = append(out, dryRuns(e.Scope, around)...)
	if foreign := foreignFinalizers(facts); len(foreign) > 0 {
		add(ObstacleFinalizer, false, "has %s: its owner must remove it before the object is deleted", listed("finalizer", foreign))
	}
	if owner, until := facts.ReplacedBy(); owner != "" {
		add(ObstacleOwner, false, "is owned by %s, which makes another one in its place%s", owner, until)
	}
	return out
}

// Brakes are the obstacles that keep an object with a TTL label whatever its own values are:
// protection, the API server's rules, dry-run, and a trigger that is switched off.
func Brakes(facts *policy.Facts, scope *resolution.Scope, around Surroundings) []Obstacle {
	out := protections(facts, scope, around)
	if facts.NeverDeleted() {
		out = append(out, Obstacle{ObstacleProtection, "is one that the API server never deletes", true})
	}
	return append(append(out, dryRuns(scope, around)...), around.SwitchedOff(policy.TriggerLabel)...)
}

// SwitchedOff is the obstacle to a trigger that is switched off, if it is.
func (s Surroundings) SwitchedOff(trigger policy.Trigger) []Obstacle {
	if !slices.Contains(s.Off, trigger) {
		return nil
	}
	return []Obstacle{{ObstacleOff, fmt.Sprintf("trigger %s is switched off (--enable)", trigger), true}}
}

func protections(facts *policy.Facts, scope *resolution.Scope, around Surroundings) []Obstacle {
	var out []Obstacle
	add := func(message string, values ...any) {
		out = append(out, Obstacle{ObstacleProtection, fmt.Sprintf(message, values...), true})
	}
	if facts.Protected() {
		add("is protected by annotation %s", wellknown.AnnotationProtect)
	}
	if facts.CurfewsOwn() {
		add("is part of Curfew")
	}
	if facts.MultiKueueCopy() && !scope.NoMultiKueue {
		add("%s", policy.KeptCopy().Reason)
	}
	switch name := facts.Namespace; {
	case Protects(around.Protect, name):
		add("namespace %q is protected by the controller's --protect", name)
	case facts.IsNamespace() && Protects(around.Protect, facts.Name):
		add("is protected by the controller's --protect")
	}
	return out
}

func dryRuns(scope *resolution.Scope, around Surroundings) []Obstacle {
	switch {
	case scope.Mode() == resolution.ModeDryRun:
		message := fmt.Sprintf("namespace %q is in dry-run: Curfew only reports due objects", scope.Namespace.Name)
		return []Obstacle{{ObstacleDryRun, message, true}}
	case around.DryRun:
		return []Obstacle{{ObstacleDryRun, "the controller runs with --dry-run: it only reports due objects", true}}
	default:
		return nil
	}
}

// unusableOnceFinished returns the obstacles that will keep an unfinished object when it finishes.
func (e *Explanation) unusableOnceFinished() []string {
	if e.Facts.Finished || e.ByTTL.Err != nil || !e.Facts.Profile.Finishable() {
		return nil
	}
	var out []string
	for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
		facts := *e.Facts
		facts.Finished, facts.Outcome, facts.FinishTime = true, outcome, time.Unix(1, 0)
		verdict := Judge(&facts, &e.Effective, time.Time{})
		if verdict.Err == nil {
			continue
		}
		if text := fmt.Sprintf("%s: %s", verdict.Reason, verdict.Err); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

const timeFormat = "2006-01-02T15:04:05Z"

// foreignFinalizers returns the finalizers that neither the garbage collector nor the Job
// controller removes.
func foreignFinalizers(facts *policy.Facts) []string {
	return slices.DeleteFunc(slices.Clone(facts.Finalizers), func(name string) bool {
		return name == "foregroundDeletion" || name == "orphan" || name == wellknown.FinalizerJobTracking || name == wellknown.FinalizerTally
	})
}

func listed(noun string, names []string) string {
	if len(names) > 1 {
		noun += "s"
	}
	return noun + " " + strings.Join(names, ", ")
}

// Unobstructed are the facts without what merely blocks an object, to find out when it would be
// due.
func Unobstructed(facts *policy.Facts) *policy.Facts {
	out := facts.Without(wellknown.AnnotationProtect)
	out.Deleting = false
	return out
}
