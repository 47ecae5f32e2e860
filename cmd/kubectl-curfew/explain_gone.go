package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// deletedData is how Curfew deleted an object that does not exist any more.
type deletedData struct {
	Trigger string     `json:"trigger"`
	Source  string     `json:"source"`
	From    *time.Time `json:"from" doc:"it was deleted between from and to"`
	To      *time.Time `json:"to"`
}

// gone answers for an object that does not exist if Curfew deleted it and a record of that remains.
// Otherwise it returns an error.
func (o *explainOptions) gone(ctx context.Context, w *world.World, missing *world.GoneError, now time.Time, print printFunc, out io.Writer) error {
	found, unnamed, unread, err := w.Deleted(ctx, missing)
	if err != nil {
		return err
	}
	if found == nil {
		why := "no record of its deletion by Curfew remains: Events are kept for an hour, and the controller's log has a line for each deletion"
		if unnamed > 0 {
			why = fmt.Sprintf("whether Curfew deleted it is not known: it deleted %s that its Events do not name, and the controller's log has a line for each", count(unnamed, "object"))
		}
		if len(unread) > 0 {
			why += "; you may not list Events in namespace " + strings.Join(unread, ", ")
		}
		return fmt.Errorf("%w, and %s", missing, why)
	}
	source := policy.ParseSource(found.Source)
	by := "by " + ownTTL(source, "the") + " TTL after finished" + fromSource(source)
	switch policy.Trigger(found.Trigger) {
	case policy.TriggerLabel:
		by = "by its TTL label"
	case policy.TriggerCleanup:
		by = "by " + cleanupPolicyOf(found.Source)
	}
	when := "at " + instant(found.To, now.Location())
	if found.To.Sub(found.From) >= time.Second {
		when = "between " + instant(found.From, now.Location()) + " and " + instant(found.To, now.Location())
	}
	summary := fmt.Sprintf("does not exist: Curfew deleted it %s, %s, %s", when, relative(found.To, now), by)
	if print != nil {
		item := explainedItem{
			Object: objectOf(missing.Kind, missing.Namespace, missing.Name, ""), Summary: summary, State: "does not exist",
			Deleted: &deletedData{found.Trigger, found.Source, timeData(found.From, now), timeData(found.To, now)},
		}
		return print(printed{document: listOf("ExplanationList", now, []explainedItem{item}, w.Notes())}, out)
	}
	name := missing.Kind.Name(missing.Name)
	if missing.Namespace != "" {
		name += " in namespace " + missing.Namespace
	}
	fmt.Fprintf(out, "%s %s\n", name, oneLine(summary))
	return nil
}

// cleanupPolicyOf names a cleanup policy by the source of its deletions.
func cleanupPolicyOf(source string) string {
	name := strings.TrimPrefix(source, "cleanup/")
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return fmt.Sprintf("CleanupPolicy %q of namespace %q", name, namespace)
	}
	return fmt.Sprintf("ClusterCleanupPolicy %q", name)
}

// missing is the error that a named object does not exist; nil for another one.
func missing(err error) *world.GoneError {
	var out *world.GoneError
	if errors.As(err, &out) {
		return out
	}
	return nil
}
