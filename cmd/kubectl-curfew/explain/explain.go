package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/record"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	*session.Connection
	selection world.Selection
	with      []string
	// from are manifests to explain instead of objects of the cluster.
	from fileOptions
}

// Command is kubectl curfew explain.
func Command(env console.Environment) *cobra.Command {
	options := &explainOptions{Connection: session.NewConnection(env, "text")}
	command := &cobra.Command{
		Use:   "explain (KIND/NAME... | KIND NAME... | KIND -l SELECTOR | -f FILE | rule/NAME...) [flags]",
		Short: "Explain when an object is deleted, why, and what blocks it",
		Long: `Explain when an object is deleted, or why it is not: what each level of
precedence sets and which one decides, for its TTL after finished, its TTL label
and its deadline. It also shows which cleanup policies match it, what blocks the
deletion, who else deletes the object, and the command that would change it. For
an hour after Curfew has deleted an object, it shows why. If one setting deleted
many objects at once, it knows ten of them. It names what you may not read.

With -f, it explains what would happen to the objects of manifests if they were
created now: by the cluster's namespaces, policies and runtimes, and by those
among the manifests, which come first. With --offline only these apply.

With rule/NAME, it prints why an admission rule denies or warns, an example, and
the fix. It needs no cluster for that.`,
		Example: `  # When is this Job deleted, why, and what blocks it?
  kubectl curfew explain job/build -n ci

  # What would happen to the objects of a manifest?
  kubectl curfew explain -f job.yaml

  # What would a policy change that is not applied yet?
  kubectl curfew explain job/build -n ci --with policy.yaml

  # What does this message of admission mean?
  kubectl curfew explain rule/bounds

  # For programs
  kubectl curfew explain configmap/demo -o json`,
		RunE:              options.Runs(options.run),
		ValidArgsFunction: options.CompleteObjects(),
	}
	flags := command.Flags()
	session.AddSelection(flags, &options.selection)
	flags.StringArrayVar(&options.with, "with", nil, "file with LifecyclePolicies and KindProfiles to treat as if they were applied")
	options.from.add(flags)
	options.AddTo(command, nil)
	return command
}

// explained is everything that explain reports about one object.
type explained struct {
	kind       world.Kind
	object     map[string]any
	controller world.Controller
	pauses     []world.Pause
	now        time.Time
	of         *judging.Explanation
	obstacles  []judging.Obstacle
	// unknown are possible obstacles that this user cannot check.
	unknown []string
	// entries are its expiry and its deadline, without regard to obstacles.
	entries []world.Entry
	// native is the deletion by the kind's own controller; nil for none.
	native *resolution.NativeDeletion
	// cascade is the earliest deletion of another object that deletes this one; nil for none.
	cascade *world.Cascade
	// cleanups are the next runs of cleanup policies that match it.
	cleanups []preview.ObjectRun
	// cleanupsUnknown names the cleanup policies that the user may not read, or that cannot be judged.
	cleanupsUnknown []string
	// history are the limits by which a CronJob deletes its Jobs; empty for none.
	history string
	// runtime that the object uses; nil for none.
	runtime *expression.Reference
	// enforcer says who enforces its deadline.
	enforcer string
	// What the user may do.
	mayChange, mayDelete bool
}

func (o *explainOptions) run(ctx context.Context, call *session.Call) error {
	o.selection.Args = call.Args
	switch {
	case len(call.Args) > 0 && strings.HasPrefix(call.Args[0], rulePrefix):
		return explainRules(call)
	case len(o.from.files) > 0:
		return o.runFiles(ctx, call)
	case o.from.offline || o.from.recursive:
		return errors.New("--offline and -R need -f")
	}
	now, progress := call.Now, call.Progress
	with, err := session.ReadOverlay(ctx, o.with)
	if err != nil {
		return err
	}
	if o.selection.Namespace, err = o.Namespace(); err != nil {
		return err
	}
	w, selected, err := o.Selected(ctx, now, with, o.selection, progress, nil)
	if absent, ok := errors.AsType[*world.GoneError](err); ok && o.selection.One() {
		progress.Done()
		return gone(ctx, w, absent, call)
	}
	if err != nil {
		return err
	}
	var all []*explained
	next := preview.ObjectRuns{}
	for i, object := range selected {
		progress.Say("explaining %d of %s", i+1, console.Count(len(selected), "object"))
		explained, err := explain(ctx, w, object, now)
		if err != nil {
			return err
		}
		facts := explained.of.Facts
		if explained.cleanups, explained.cleanupsUnknown, err = next.Of(ctx, w, object.Kind, facts.Namespace, facts.UID, now); err != nil {
			return err
		}
		if explained.history, err = w.HistoryLimits(ctx, facts); err != nil {
			return err
		}
		all = append(all, explained)
	}
	progress.Done()
	if call.Print != nil {
		return call.Print(printedOf(all, now, w.Notes()), call.Out)
	}
	console.PrintNotes(w.Notes(), call.Diagnostics)
	return writeAll(all, call.Out)
}

func explain(ctx context.Context, w *world.World, object world.Selected, now time.Time) (*explained, error) {
	explanation, err := w.Explain(ctx, object.Kind, object.Object, now)
	if err != nil {
		return nil, err
	}
	out := &explained{
		kind: object.Kind, object: object.Object, controller: w.Controller, pauses: w.Pauses.All, now: now, of: explanation,
		runtime: w.Platform().Reference(explanation.Facts, object.Object), native: resolution.NativeDeletionOf(explanation.Facts),
	}
	out.enforcer = "its own controller stops it"
	if world.Stops(explanation.Facts) {
		out.enforcer = "Curfew stops it"
		stopped := w.SwitchedOff(explanation.Facts, policy.TriggerDeadline)
		stopped = slices.Concat(stopped, explanation.Held(policy.TriggerDeadline), w.HeldByPause(explanation.Facts, policy.TriggerDeadline, explanation.ByDeadline.Expiry))
		if t := explanation.ByDeadline.Expiry; !t.IsZero() && !t.After(now) {
			refused, err := w.StopRefused(ctx, explanation.Facts)
			if err != nil {
				return nil, err
			}
			stopped = append(refused, stopped...)
		}
		for _, off := range stopped {
			out.enforcer = "nothing stops it: " + off.Message
		}
	}
	if out.obstacles, err = w.Obstacles(ctx, object.Kind, explanation); err != nil {
		return nil, err
	}
	if out.obstacles, out.unknown, err = w.WithState(ctx, object.Kind, explanation, out.obstacles, now); err != nil {
		return nil, err
	}
	if out.entries, err = w.Entries(ctx, object.Kind, object.Object, now); err != nil {
		return nil, err
	}
	cascade, unknown, err := w.Cascade(ctx, object.Object, now)
	if err != nil {
		return nil, err
	}
	out.cascade, out.unknown = cascade, append(out.unknown, unknown...)
	for _, entry := range out.entries {
		if !judging.Stops(entry.Trigger) {
			out.obstacles = slices.Concat(out.obstacles, w.SwitchedOff(explanation.Facts, entry.Trigger), explanation.Held(entry.Trigger),
				w.HeldByPause(explanation.Facts, entry.Trigger, entry.Expiry))
		}
	}
	if out.mayChange, err = w.MayI(ctx, object.Kind, explanation.Facts.Namespace, explanation.Facts.Name, "patch"); err != nil {
		return nil, err
	}
	out.mayDelete, err = w.MayI(ctx, object.Kind, explanation.Facts.Namespace, explanation.Facts.Name, "delete")
	return out, err
}

// deletedData is how Curfew deleted an object that does not exist any more.
type deletedData struct {
	Trigger string     `json:"trigger"`
	Source  string     `json:"source"`
	From    *time.Time `json:"from" doc:"it was deleted between from and to"`
	To      *time.Time `json:"to"`
}

// gone answers for an object that does not exist if Curfew deleted it and a record of that remains.
// Otherwise it returns an error.
func gone(ctx context.Context, w *world.World, missing *world.GoneError, call *session.Call) error {
	now := call.Now
	found, unnamed, unread, err := deletedBefore(ctx, w, missing)
	if err != nil {
		return err
	}
	if found == nil {
		why := "no record of its deletion by Curfew remains: a deletion of the last two minutes may not be recorded yet, " +
			"Events are kept for an hour, and the controller's log has a line for each deletion"
		if unnamed > 0 {
			why = fmt.Sprintf("whether Curfew deleted it is not known: it deleted %s that its Events do not name. "+
				"Of many at once they name the first ten, and the controller's log has a line for each", console.Count(unnamed, "object"))
		}
		if len(unread) > 0 {
			why += "; you may not list Events in namespace " + strings.Join(unread, ", ")
		}
		return fmt.Errorf("%w, and %s", missing, why)
	}
	by := byTrigger(policy.Trigger(found.Trigger))
	switch policy.Trigger(found.Trigger) {
	case policy.TriggerTTL:
		source := lifetime.ParseSource(found.Source)
		by = "by " + ownTTL(source, "the") + " TTL after finished" + fromSource(source)
	case policy.TriggerLabel:
		by = "by its TTL label"
	case policy.TriggerCleanup:
		by = "by " + cleanupPolicyOf(found.Source)
	}
	when := "at " + console.Instant(found.To, now.Location())
	if found.To.Sub(found.From) >= time.Second {
		when = "between " + console.Instant(found.From, now.Location()) + " and " + console.Instant(found.To, now.Location())
	}
	summary := fmt.Sprintf("does not exist: Curfew deleted it %s, %s, %s", when, console.Relative(found.To, now), by)
	if call.Print != nil {
		item := Item{
			Object: session.ObjectOf(missing.Kind, missing.Namespace, missing.Name, ""), Summary: summary, State: "does not exist",
			Deleted: &deletedData{found.Trigger, found.Source, console.TimeData(found.From, now), console.TimeData(found.To, now)},
		}
		return call.Print(console.Printed{Document: console.ListOf("ExplanationList", now, []Item{item}, w.Notes())}, call.Out)
	}
	fmt.Fprintf(call.Out, "%s %s\n", missing.Kind.Name(missing.Name)+in(missing.Namespace), console.OneLine(summary))
	return nil
}

// byTrigger names a trigger by the list of triggers, for those without words of their own here.
func byTrigger(trigger policy.Trigger) string {
	out := "by trigger " + string(trigger)
	if settings := judging.InfoOf(trigger).Settings; settings != "" {
		out += " (" + settings + ")"
	}
	return out
}

// cleanupPolicyOf names a cleanup policy by the source of its deletions.
func cleanupPolicyOf(source string) string {
	name := strings.TrimPrefix(source, "cleanup/")
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return fmt.Sprintf("CleanupPolicy %q of namespace %q", name, namespace)
	}
	return fmt.Sprintf("ClusterCleanupPolicy %q", name)
}

// deletedBefore is the record of the deletion of an object that is gone, by the Events of the
// controller (package policy/record) and the reports of cleanup policies; nil where none
// remains. unread are the namespaces whose Events the user may not list, and unnamed is how many
// deletions in the object's namespace or by a LifecyclePolicy have no record: after a burst an
// Event names a few.
func deletedBefore(ctx context.Context, w *world.World, gone *world.GoneError) (
	latest *record.Record, unnamed int, unread []string, err error) {
	namespaces := []string{metav1.NamespaceAll}
	for i := 0; i < len(namespaces); i++ {
		options := metav1.ListOptions{FieldSelector: "reason=" + record.Reason}
		err := w.Each(ctx, world.Events, namespaces[i], options, func(event *unstructured.Unstructured) error {
			all := record.Read(event.GetAnnotations())
			if concernsNamespace(event, gone.Namespace) && len(all) > 0 {
				unnamed += max(0, all[len(all)-1].Total-len(all))
			}
			for _, entry := range all {
				if entry.Resource == gone.Kind.GroupResource().String() && entry.Namespace == gone.Namespace && entry.Name == gone.Name &&
					(latest == nil || latest.To.Before(entry.To)) {
					latest = &entry
				}
			}
			return nil
		})
		switch {
		case apierrors.IsForbidden(err) && namespaces[i] == metav1.NamespaceAll:
			// Events about a Namespace or a policy are in default, the others beside the object.
			if namespaces = append(namespaces, metav1.NamespaceDefault); gone.Namespace != "" && gone.Namespace != metav1.NamespaceDefault {
				namespaces = append(namespaces, gone.Namespace)
			}
		case apierrors.IsForbidden(err):
			unread = append(unread, namespaces[i])
		case err != nil:
			return nil, 0, nil, fmt.Errorf("listing Events with reason %s: %w", record.Reason, err)
		}
	}
	reported, err := reported(ctx, w, gone)
	if err != nil {
		return nil, 0, nil, err
	}
	if reported != nil && (latest == nil || !reported.To.Before(latest.To)) {
		latest = reported
	}
	return latest, unnamed, unread, nil
}

// concernsNamespace reports whether an Event may be about objects of a namespace: those about other
// Namespaces are not.
func concernsNamespace(event *unstructured.Unstructured, namespace string) bool {
	kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
	name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
	return kind != "Namespace" || name == cmp.Or(namespace, metav1.NamespaceDefault)
}

// reported is the record of the deletion in the reports of cleanup policies, which outlast Events;
// nil where there is none, or where the user may not list them.
func reported(ctx context.Context, w *world.World, gone *world.GoneError) (latest *record.Record, err error) {
	resources := map[string]string{v1alpha1.ClusterCleanupReports: metav1.NamespaceAll}
	if gone.Namespace != "" {
		resources[v1alpha1.CleanupReports] = gone.Namespace
	}
	for resource, namespace := range resources {
		gvr := v1alpha1.GroupVersion.WithResource(resource)
		err := w.Each(ctx, gvr, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
			report := &v1alpha1.CleanupReport{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, report) != nil {
				return nil // Of another version.
			}
			written := report.CreationTimestamp.Time
			if listsDeleted(report, gone) && (latest == nil || latest.To.Before(written)) {
				source := path.Join("cleanup", report.Namespace, report.Policy.Name)
				latest = &record.Record{Trigger: string(policy.TriggerCleanup), Source: source, From: written, To: written}
			}
			return nil
		})
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("listing %s: %w", gvr.GroupResource(), err)
		}
	}
	return latest, nil
}

func listsDeleted(report *v1alpha1.CleanupReport, gone *world.GoneError) bool {
	kind := gone.Kind.GroupResource()
	return slices.ContainsFunc(report.Objects, func(cleanupItem v1alpha1.CleanupItem) bool {
		is := cleanupItem.Group == kind.Group && cleanupItem.Resource == kind.Resource && cleanupItem.Namespace == gone.Namespace && cleanupItem.Name == gone.Name
		return is && cleanupItem.Result == v1alpha1.ItemDeleted
	})
}
