package engine

import (
	"errors"
	"fmt"
	"slices"

	"curfew.dev/curfew/controller/action"
)

// Trigger is one reason why objects become due. An object has at most one entry for each trigger.
// The entries are independent, and the first that is due acts.
type Trigger struct {
	// Name is the trigger's name in KindOptions, metrics and logs. Required.
	Name string
	// Action is carried out on due objects. Required.
	Action action.Action
	// Deletes says that the action deletes the object itself: Done means that it is gone, and each
	// attempt counts against the budget of deletions. Otherwise Done means that there is nothing
	// to do until the object changes.
	Deletes bool
	// Payload says that the action needs Object.Payload.
	Payload bool
	// Priority is Normal, or Background for a trigger that yields to others.
	Priority action.Priority
}

// trigger is a registered Trigger. It never changes.
type trigger struct {
	Trigger
	id uint8
}

// label is the name in metrics and logs.
func (t *trigger) label(phase string) string {
	if phase == "" {
		return t.Name
	}
	return t.Name + "-" + phase
}

// verb names the action in errors.
func (t *trigger) verb() string {
	if t.Deletes {
		return "deleting"
	}
	return "acting on"
}

// triggersMost is the number of triggers that fit into entry.trigger.
const triggersMost = 256

func register(list []Trigger) ([]*trigger, error) {
	var errs []error
	var out []*trigger
	if len(list) == 0 || len(list) > triggersMost {
		errs = append(errs, fmt.Errorf("engine: Options.Triggers has %d entries: give 1 to %d", len(list), triggersMost))
	}
	for i, t := range list {
		switch {
		case t.Name == "":
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Name is empty", i))
		case t.Action == nil:
			errs = append(errs, fmt.Errorf("engine: Options.Triggers[%d].Action of %q is nil", i, t.Name))
		case slices.ContainsFunc(out, func(other *trigger) bool { return other.Name == t.Name }):
			errs = append(errs, fmt.Errorf("engine: Options.Triggers has two of the name %q", t.Name))
		}
		out = append(out, &trigger{Trigger: t, id: uint8(i)})
	}
	return out, errors.Join(errs...)
}

func (e *Engine) triggerNamed(name string) *trigger {
	if i := slices.IndexFunc(e.triggers, func(t *trigger) bool { return t.Name == name }); i >= 0 {
		return e.triggers[i]
	}
	return nil
}
