package judging

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// PausableTriggers are the names of the triggers that a pause can name.
func PausableTriggers() []string {
	var out []string
	for _, info := range triggers {
		if info.Pausable {
			out = append(out, string(info.Name))
		}
	}
	return out
}

// Pause is an emergency stop: deletions and stops that wait.
type Pause struct {
	Name, Reason string
	// Triggers and Namespaces limit it; empty means all. Namespaces may contain "*".
	Triggers   []policy.Trigger
	Namespaces []string
	// Until is zero for a pause without an end.
	Until time.Time
}

// PauseOf is the pause that a DeletionPause describes.
func PauseOf(object *v1alpha1.DeletionPause) Pause {
	out := Pause{Name: object.Name, Reason: object.Spec.Reason, Namespaces: object.Spec.Namespaces}
	out.Triggers = texts[policy.Trigger](object.Spec.Triggers)
	if until := object.Spec.Until; until != nil {
		out.Until = until.Time
	}
	return out
}

// Spec is the reverse of [PauseOf].
func (p *Pause) Spec() v1alpha1.DeletionPauseSpec {
	out := v1alpha1.DeletionPauseSpec{Reason: p.Reason, Namespaces: p.Namespaces}
	out.Triggers = texts[v1alpha1.PauseTrigger](p.Triggers)
	if !p.Until.IsZero() {
		out.Until = new(metav1.NewTime(p.Until))
	}
	return out
}

func texts[Out, In ~string](names []In) []Out {
	var out []Out
	for _, name := range names {
		out = append(out, Out(name))
	}
	return out
}

// Over reports whether the pause has ended.
func (p *Pause) Over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// HoldsAll reports whether it holds everything that a trigger does, wherever.
func (p *Pause) HoldsAll(trigger policy.Trigger) bool {
	return len(p.Namespaces) == 0 && p.Names(trigger)
}

// Holds reports whether it holds what a trigger does to an object. The namespace of a Namespace is
// its own name, since whatever lies in it is deleted with it. Other cluster-scoped objects have
// none.
func (p *Pause) Holds(trigger policy.Trigger, namespace string) bool {
	return p.Names(trigger) && (len(p.Namespaces) == 0 || Protects(p.Namespaces, namespace))
}

// Names reports whether it holds what a trigger does, in some namespaces at least.
func (p *Pause) Names(trigger policy.Trigger) bool {
	return len(p.Triggers) == 0 || slices.Contains(p.Triggers, trigger)
}

// PauseScope is the namespace by which a pause holds an object of a kind.
func PauseScope(group, kind, namespace, name string) string {
	if group == "" && kind == "Namespace" {
		return name
	}
	return namespace
}

// String describes the pause for people, without its reason: triggers ttl and label in namespaces
// team-*, until 2026-12-24T18:00:00Z.
func (p *Pause) String() string {
	what := "all triggers"
	if len(p.Triggers) > 0 {
		what = "trigger " + strings.Join(texts[string](p.Triggers), ", ")
	}
	if len(p.Namespaces) > 0 {
		what += " in namespace " + strings.Join(p.Namespaces, ", ")
	}
	if p.Until.IsZero() {
		return what + ", until it is deleted"
	}
	return what + ", until " + p.Until.UTC().Format(time.RFC3339)
}

// Message names the pause, what it holds, and its reason.
func (p *Pause) Message() string {
	return fmt.Sprintf("DeletionPause %s holds %s: %s", p.Name, quote.ShortenTo(p.String(), 300), quote.ShortenTo(printable(p.Reason), 256))
}

// printable is a text without line breaks and other control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Held is the obstacle that [Explanation.HeldBy] is to a trigger.
func (e *Explanation) Held(trigger policy.Trigger) []Obstacle {
	source, ok := e.HeldBy(trigger)
	if !ok {
		return nil
	}
	return []Obstacle{{ObstacleDryRun, source.Phrase() + " is in mode DryRun: what its defaults make due is only reported", true}}
}

// HeldBy is the policy in dry-run whose default alone makes the object due for a trigger; ok is
// false where there is none.
func (e *Explanation) HeldBy(trigger policy.Trigger) (source lifetime.Source, ok bool) {
	var values []resolution.Value
	switch trigger {
	case policy.TriggerTTL:
		values = []resolution.Value{e.Effective.Succeeded, e.Effective.Failed}
	case policy.TriggerDeadline:
		values = []resolution.Value{e.Effective.Deadline}
	case policy.TriggerLabel:
		source, _ := e.Scope.LabelSource(e.Facts)
		return source, e.LabelKey == wellknown.LabelTTL && e.Scope.HoldsLabel(source)
	}
	i := slices.IndexFunc(values, func(value resolution.Value) bool { return value.DryRun })
	if i < 0 {
		return lifetime.Source{}, false
	}
	return values[i].Source, true
}
