package expiring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/judging"
)

// expiringOptions are the flags of expiring, each documented where it is added.
type expiringOptions struct {
	*session.Connection
	everywhere              bool
	selector, sortBy        string
	within, before, between string
	longerThan              string
	source, trigger         string
	with                    []string
	watch                   bool
	showKind, showLabels    bool
}

// Command is kubectl curfew expiring.
func Command(env console.Environment) *cobra.Command {
	options := expiringOptions{Connection: session.NewConnection(env, "table", "wide")}
	command := &cobra.Command{
		Use:   "expiring [KIND...] [flags]",
		Short: "List what will be deleted, when, why, and what blocks it",
		Long: `List what will be deleted, when, which setting decided it, and what blocks it.
An object expires by its TTL after finished or its TTL label, or is stopped at
its deadline. Where its Namespace or its last owner is deleted first, TRIGGER is
owner and SOURCE names that object.

TRIGGER is cleanup where a cleanup policy would delete an object, judged by what
exists now: in its next run, or in the time that you name. "by" means one of
several runs, the last of them at the latest. A run that the controller missed,
and makes up for, has the time at which it was due. "?" means that permissions
or limits (maxDeletions, maxPercentage) leave it open. A note says which
policies you may not read, and how many delete nothing: suspended, unapproved
and unusable ones, dry runs, and runs over a limit. With --trigger cleanup it
names them. See also kubectl curfew preview.

The command asks only the API server, with your own permissions, and judges as
the controller does. Notes say what you may not read. Without a KIND it lists
all kinds. Running Pods are listed if they have a TTL label, and with --trigger
deadline or --ttl-longer-than: the kubelet enforces their deadlines.

Times are in the time zone of your machine. Names that are too long for the
terminal are shortened in the middle; -o wide and pipes show them in full.

Exit status: 0 the list is complete as far as you may read, 1 a kind could not
be listed for another reason, 2 there is no answer.

A time is a time of day (17:00, 5pm), a day (today, tomorrow, friday,
2026-12-24), both (friday 17:00), a duration from now (6h, 1d12h), now, or RFC
3339.`,
		Example: examples(Questions),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return refuseEmpty(cmd.Flags(), "within", "before", "between", "ttl-longer-than", "source", "trigger")
		},
		RunE:              options.Runs(options.run),
		ValidArgsFunction: options.CompleteKinds(),
	}
	options.addFlags(command)
	return command
}

func (o *expiringOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "all namespaces, and cluster-scoped objects")
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector, such as app=web")
	flags.BoolVar(&o.showKind, "show-kind", true, "show the kind in front of each name")
	flags.BoolVar(&o.showLabels, "show-labels", false, "show the labels of each object in the last column")
	flags.StringVar(&o.sortBy, "sort-by", "", "sort by a field of the JSON items, such as {.object.name}; by default by time")
	flags.StringVar(&o.within, "within", "",
		"list what expires within a duration, such as 6h, overdue objects included; or within a day or month, such as friday, may or 2026-05")
	flags.StringVar(&o.before, "before", "", "list what expires before a time, such as 17:00, overdue objects included")
	flags.StringVar(&o.between, "between", "", "list what expires between two times, such as now..'friday 17:00'")
	flags.StringVar(&o.longerThan, "ttl-longer-than", "", "list what has a longer TTL, such as 7d, finished or not; never is the longest")
	flags.StringVar(&o.source, "source", "", "list only this source, such as object, namespace/ci, policy/platform or cleanup/nightly")
	flags.StringVar(&o.trigger, "trigger", "", "list only this trigger: "+session.EitherOf(session.Triggers()))
	flags.StringArrayVar(&o.with, "with", nil, "file with LifecyclePolicies and KindProfiles to treat as if they were applied")
	flags.BoolVarP(&o.watch, "watch", "w", false,
		"keep watching: print a line for each change; with -o json, a list of the changes")
	o.AddTo(command, map[string][]string{"trigger": slices.Sorted(slices.Values(session.Triggers()))})
}

// refuseEmpty rejects flags without a value, for example from an unset variable: they would select
// everything.
func refuseEmpty(flags *pflag.FlagSet, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := flags.Lookup(name); flag.Changed && flag.Value.String() == "" {
			errs = append(errs, fmt.Errorf("--%s= is empty: give a value, or leave it out", name))
		}
	}
	return errors.Join(errs...)
}

func (o *expiringOptions) run(ctx context.Context, call *session.Call) error {
	query, err := o.query(ctx, call.Args, call.Now)
	if err != nil {
		return err
	}
	query.history = call.Print != nil || o.Output.Format == "wide"
	if o.watch {
		return o.follow(ctx, query, call)
	}
	report, err := o.answer(ctx, query, call.Progress)
	if err != nil {
		return err
	}
	if report.unanswered != "" {
		report.notes = append(report.notes, report.unanswered)
	}
	call.Progress.Done()
	if call.Print != nil {
		err = call.Print(report.printed(), call.Out)
	} else {
		view := o.view()
		view.width = console.Width(call.Out)
		err = view.print(report, call.Out)
	}
	if err != nil {
		return err
	}
	console.PrintNotes(report.notes, call.Diagnostics)
	if len(report.entries) == 0 && call.Print == nil {
		fmt.Fprintln(call.Diagnostics, o.nothing(query, report.namespace))
	}
	// What the user may not list does not count: few users may list everything.
	if report.unanswered != "" || len(report.silent) > 0 || report.cleanupFailed {
		return console.ErrBadNews
	}
	return nil
}

func (o *expiringOptions) view() view {
	return view{wide: o.Output.Format == "wide", bareNames: !o.showKind, labels: o.showLabels, noHeaders: o.Output.NoHeaders}
}

// namespace is the one that is asked about, which has to exist; "" for all.
func (o *expiringOptions) namespace(ctx context.Context, w *world.World) (string, error) {
	if o.everywhere {
		return "", nil
	}
	name, err := o.Namespace()
	if err == nil {
		err = w.NoNamespace(ctx, name)
	}
	return name, err
}

// answer reads everything that the query asks about, once.
func (o *expiringOptions) answer(ctx context.Context, query *expiringQuery, progress *console.Progress) (*expiringReport, error) {
	progress.Say("reading kinds, profiles and policies")
	w, err := o.Open(ctx, query.now, query.with, nil)
	if err != nil {
		return nil, err
	}
	if err := w.Installed(); err != nil {
		return nil, err
	}
	kinds, err := o.kinds(w, query)
	if err != nil {
		return nil, err
	}
	reading := world.Query{Selector: query.selector, Unfinished: query.longer != nil || judging.InfoOf(query.trigger).Unfinished}
	if reading.Namespace, err = o.namespace(ctx, w); err != nil {
		return nil, err
	}
	entries, left, err := gather(ctx, w, kinds, reading, query, progress)
	if err != nil {
		return nil, err
	}
	unanswered, err := noteLeftOut(w, left, kinds, reading)
	if err != nil {
		return nil, err
	}
	namespaces, err := expiringNamespaces(ctx, w, kinds, reading.Namespace, query)
	if err != nil {
		return nil, err
	}
	cleaned, cleanupFailed, err := query.cleanup(ctx, w, kinds, reading, progress)
	if err != nil {
		return nil, err
	}
	entries = append(entries, cleaned...)
	if len(query.kinds) == 0 && query.selector == "" {
		entries = append(entries, namespaces...)
	} else if len(namespaces) > 0 {
		w.Note(namespacesText(namespaces, query.now))
	}
	if query.note != "" {
		w.Note(query.note)
	}
	if query.history {
		if err := w.AddHistory(ctx, reading.Namespace, entries); err != nil {
			return nil, err
		}
	}
	out := &expiringReport{
		now: query.now, everywhere: o.everywhere, namespace: reading.Namespace, sortBy: o.sortBy, entries: entries,
		notes: w.Notes(), unanswered: unanswered, silent: w.SilentGroups(), cleanupFailed: cleanupFailed,
	}
	for _, leftOut := range left {
		if !world.Gone(leftOut.err) {
			out.unlisted = append(out.unlisted, leftOut.kind.GroupResource())
		}
	}
	return out, out.sort()
}

// byTime sorts entries by expiry, those without one last.
func byTime(a, b *world.Entry) int {
	if a.Expiry.IsZero() != b.Expiry.IsZero() {
		return b.Expiry.Compare(a.Expiry)
	}
	if order := a.Expiry.Compare(b.Expiry); order != 0 {
		return order
	}
	return strings.Compare(a.Namespace+"/"+a.Kind.Name(a.Name), b.Namespace+"/"+b.Kind.Name(b.Name))
}

// kinds are the named ones, else all whose objects can expire. Cluster-scoped kinds are left out
// where one namespace is asked about.
func (o *expiringOptions) kinds(w *world.World, query *expiringQuery) ([]world.Kind, error) {
	if len(query.kinds) > 0 {
		out := make([]world.Kind, len(query.kinds))
		for i, text := range query.kinds {
			var err error
			if out[i], err = w.KindOf(text); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	all, err := w.Kinds()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(kind world.Kind) bool { return kind.ClusterScoped && !o.everywhere }), nil
}
