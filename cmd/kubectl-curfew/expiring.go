package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// expiringOptions are the flags of expiring, each documented where it is added.
type expiringOptions struct {
	*connection
	output                          *output
	everywhere                      bool
	selector, sortBy                string
	within, before, between, during string
	longerThan                      string
	source, trigger                 string
	with                            []string
	watch                           bool
	showKind, showLabels            bool
}

func expiringCommand(env environment) *cobra.Command {
	options := expiringOptions{connection: newConnection(env), output: newOutput("table", "wide")}
	command := &cobra.Command{
		Use:   "expiring [KIND...] [flags]",
		Short: "List what will be deleted, when, why, and what blocks it",
		Long: `List what will be deleted, when, which setting decided it, and what blocks it:
by TTL after finished, by TTL label, or stopped at the deadline.

It asks the API server alone, with your own permissions, and judges as the
controller does. What you may not read is said. Without a KIND all kinds are
asked about. Times are in the time zone of your machine, and shown with it. Pods
that run are asked about only with --trigger deadline, with --ttl-longer-than,
or where they have a TTL label: their deadlines are the kubelet's affair.

A time is a time of day (17:00, 5pm), a day (today, tomorrow, friday,
2026-12-24), both (friday 17:00), a duration from now (6h, 1d12h), now, or RFC
3339. A period is a day, a month (may, 2026-05) or a year (2026).`,
		Example: examples(seedQuestions),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd.Flags(), "within", "before", "between", "during", "ttl-longer-than", "source", "trigger"); err != nil {
				return err
			}
			query, err := options.query(cmd.Context(), args, options.now())
			if err != nil {
				return err
			}
			return options.run(cmd.Context(), query, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: options.completeKinds(),
	}
	options.addFlags(command)
	return command
}

func (o *expiringOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	o.add(flags)
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false, "all namespaces, and what lies in none")
	flags.StringVarP(&o.selector, "selector", "l", "", "labels of the objects, such as app=web")
	o.output.addFlags(command)
	flags.BoolVar(&o.showKind, "show-kind", true, "show the kind in front of each name")
	flags.BoolVar(&o.showLabels, "show-labels", false, "show the labels of each object in the last column")
	flags.StringVar(&o.sortBy, "sort-by", "", "sort by a field of the JSON items, such as {.object.name}; without it by time")
	flags.StringVar(&o.within, "within", "", "what expires within this time, such as 6h, including what is overdue")
	flags.StringVar(&o.before, "before", "", "what expires before a time, such as 17:00, including what is overdue")
	flags.StringVar(&o.between, "between", "", "what expires between two times, such as now..'friday 17:00'")
	flags.StringVar(&o.during, "during", "", "what expires in a period, such as 2026-05, may or friday")
	flags.StringVar(&o.longerThan, "ttl-longer-than", "", "what has a TTL over this, such as 7d, finished or not; never counts")
	flags.StringVar(&o.source, "source", "", "what expires because of a source, such as object, namespace/ci or policy/nightly")
	flags.StringVar(&o.trigger, "trigger", "", "what expires by a trigger: ttl, label or deadline")
	flags.StringArrayVar(&o.with, "with", nil, "file with LifecyclePolicies and KindProfiles that count as if they were applied now")
	flags.BoolVarP(&o.watch, "watch", "w", false, "go on and show changes: in place on a terminal, else a line for each")
	o.completeFlags(command, map[string][]string{"output": o.output.formats(), "trigger": {"deadline", "label", "ttl"}})
}

// seedQuestions are what people ask, each with the command line that answers it. The help shows
// them, and tests run them.
var seedQuestions = []struct{ question, line string }{
	{"What is deleted in the next 6 hours?", "expiring -A --within 6h"},
	{"Which Deployments go by 5pm today?", "expiring deployments -A --before 17:00"},
	{"What is deleted in namespace foo between now and Friday 5pm?", "expiring -n foo --between now..'friday 17:00'"},
	{"What has a TTL over 7 days?", "expiring -A --ttl-longer-than 7d"},
	{"What expires in May?", "expiring -A --during may"},
	{"What would this policy delete now, if it were applied?", "expiring -A --with policy.yaml --source policy/nightly --before now"},
	{"Why does this object have this expiry, and what blocks it?", "explain job/build -n ci"},
}

func examples(of []struct{ question, line string }) string {
	var out strings.Builder
	for i, each := range of {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "  # %s\n  kubectl curfew %s", each.question, each.line)
	}
	return out.String()
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

func (o *expiringOptions) run(ctx context.Context, query *expiringQuery, out, diagnostics io.Writer) error {
	if o.watch {
		return o.follow(ctx, query, out, diagnostics)
	}
	progress := newProgress(o.environment, diagnostics)
	defer progress.done()
	report, err := o.answer(ctx, query, progress)
	if err != nil {
		return err
	}
	progress.done()
	if query.print != nil {
		err = query.print(report.printed(), out)
	} else {
		err = o.view().print(report, out)
	}
	if err != nil {
		return err
	}
	printNotes(report.notes, diagnostics)
	if len(report.entries) == 0 && query.print == nil {
		fmt.Fprintln(diagnostics, o.nothing(query, report.namespace))
	}
	return nil
}

func (o *expiringOptions) view() view {
	return view{wide: o.output.format == "wide", bareNames: !o.showKind, labels: o.showLabels, noHeaders: o.output.noHeaders}
}

// answer reads everything that the query asks about, once.
func (o *expiringOptions) answer(ctx context.Context, query *expiringQuery, progress *progress) (*expiringReport, error) {
	progress.say("reading kinds, profiles and policies")
	w, err := o.open(ctx, query.now, query.with, nil)
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
	reading := world.Query{Selector: query.selector, Unfinished: query.longer != nil || query.trigger == policy.TriggerDeadline}
	if !o.everywhere {
		if reading.Namespace, err = o.namespace(); err != nil {
			return nil, err
		}
	}
	entries, left, err := gather(ctx, w, kinds, reading, query, progress)
	if err != nil {
		return nil, err
	}
	if err := noteLeftOut(w, left, kinds, reading); err != nil {
		return nil, err
	}
	if len(query.kinds) == 0 && query.selector == "" {
		// What deletes everything in a namespace concerns those who ask about it.
		of, err := w.NamespaceEntries(ctx, reading.Namespace, query.now)
		if err != nil {
			return nil, err
		}
		for i := range of {
			if query.matches(&of[i]) {
				entries = append(entries, &of[i])
			}
		}
	}
	out := &expiringReport{now: query.now, everywhere: o.everywhere, namespace: reading.Namespace, sortBy: o.sortBy, entries: entries, notes: w.Notes()}
	for _, one := range left {
		if !world.Gone(one.err) {
			out.unlisted = append(out.unlisted, one.kind.GroupResource())
		}
	}
	return out, out.sort()
}

// byTime sorts entries by expiry, those without one last.
func byTime(a, b *world.Entry) int {
	switch {
	case a.Expiry.IsZero() != b.Expiry.IsZero():
		if a.Expiry.IsZero() {
			return 1
		}
		return -1
	case !a.Expiry.Equal(b.Expiry):
		return a.Expiry.Compare(b.Expiry)
	default:
		return strings.Compare(a.Namespace+"/"+a.Kind.Name(a.Name), b.Namespace+"/"+b.Kind.Name(b.Name))
	}
}

// kinds are the named ones, else all whose objects can expire. Cluster-scoped kinds are left out
// where one namespace is asked about.
func (o *expiringOptions) kinds(w *world.World, query *expiringQuery) ([]world.Kind, error) {
	if len(query.kinds) > 0 {
		var out []world.Kind
		for _, text := range query.kinds {
			kind, err := w.KindOf(text)
			if err != nil {
				return nil, err
			}
			out = append(out, kind)
		}
		return out, nil
	}
	all, err := w.Kinds()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(kind world.Kind) bool { return kind.ClusterScoped && !o.everywhere }), nil
}
