package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
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

func expiringCommand(around surroundings) *cobra.Command {
	options := expiringOptions{connection: newConnection(around), output: newOutput("table", "wide")}
	command := &cobra.Command{
		Use:   "expiring [KIND...] [flags]",
		Short: "List what goes, when, why, and what stands in its way",
		Long: `List what goes, when, why, and what stands in its way: by its TTL after finished, by its TTL label, or stopped at its deadline.

It asks the API server alone, with your own permissions, and judges as the controller does. What you may not read is said. Without a
KIND all kinds are asked about. Times are in the time zone of your machine, and shown with it. Pods that run are asked about only with
--trigger deadline, with --ttl-longer-than, or where they have a TTL label: their deadlines are the kubelet's affair.

A time is a time of day (17:00, 5pm), a day (today, tomorrow, friday, 2026-12-24), both (friday 17:00), a duration from now
(6h, 1d12h), now, or RFC 3339. A period is a day, a month (may, 2026-05) or a year (2026).`,
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
	flags := command.Flags()
	options.add(flags)
	flags.BoolVarP(&options.everywhere, "all-namespaces", "A", false, "all namespaces, and what lies in none")
	flags.StringVarP(&options.selector, "selector", "l", "", "labels of the objects, such as app=web")
	options.output.addFlags(command)
	flags.BoolVar(&options.showKind, "show-kind", true, "show the kind in front of each name")
	flags.BoolVar(&options.showLabels, "show-labels", false, "show the labels of each object in the last column")
	flags.StringVar(&options.sortBy, "sort-by", "", "sort by a field of the JSON items, such as {.object.name}; without it by time")
	flags.StringVar(&options.within, "within", "", "what goes in this length of time, such as 6h; what is overdue included")
	flags.StringVar(&options.before, "before", "", "what goes before a time, such as 17:00; what is overdue included")
	flags.StringVar(&options.between, "between", "", "what goes between two times, such as now..'friday 17:00'")
	flags.StringVar(&options.during, "during", "", "what goes in a period, such as 2026-05, may or friday")
	flags.StringVar(&options.longerThan, "ttl-longer-than", "", "what has a TTL over this, such as 7d, finished or not; never counts")
	flags.StringVar(&options.source, "source", "", "what goes by the word of a source, such as object, namespace/ci or policy/nightly")
	flags.StringVar(&options.trigger, "trigger", "", "what goes by a trigger: ttl, label or deadline")
	flags.StringArrayVar(&options.with, "with", nil, "file with LifecyclePolicies and KindProfiles that count as if they were applied now")
	flags.BoolVarP(&options.watch, "watch", "w", false, "go on and show changes: in place on a terminal, else a line for each")
	options.completeFlags(command, map[string][]string{"output": options.output.formats(), "trigger": {"deadline", "label", "ttl"}})
	return command
}

// seedQuestions are what people want to know, each with the line that answers it. They stand in the help and in the tests.
var seedQuestions = []struct{ question, line string }{
	{"What goes in the next 6 hours?", "expiring -A --within 6h"},
	{"Which Deployments go by 5pm today?", "expiring deployments -A --before 17:00"},
	{"What goes in namespace foo between now and Friday 5pm?", "expiring -n foo --between now..'friday 17:00'"},
	{"What has a TTL over 7 days?", "expiring -A --ttl-longer-than 7d"},
	{"What expires in May?", "expiring -A --during may"},
	{"What would this policy delete now, if it were applied?", "expiring -A --with policy.yaml --source policy/nightly --before now"},
	{"Why does this object have this expiry, and what stands in its way?", "explain job/build -n ci"},
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

// refuseEmpty refuses flags that are given without a value, as by a variable that is not set: they would ask for everything.
func refuseEmpty(flags *pflag.FlagSet, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := flags.Lookup(name); flag.Changed && flag.Value.String() == "" {
			errs = append(errs, fmt.Errorf("--%s= is empty: give a value, or leave it out", name))
		}
	}
	return errors.Join(errs...)
}

// expiringQuery is what is asked, read and checked.
type expiringQuery struct {
	now      time.Time
	kinds    []string
	span     *moment.Span
	longer   *time.Duration
	source   string
	trigger  policy.Trigger
	with     overlay
	selector string
	// print is nil for tables.
	print printFunc
}

// query names every flag that cannot be used, with its value and the fix.
func (o *expiringOptions) query(ctx context.Context, args []string, now time.Time) (*expiringQuery, error) {
	var errs []error
	bad := func(flag, value string, err error) {
		errs = append(errs, fmt.Errorf("--%s=%s: %w", flag, value, err))
	}
	out := &expiringQuery{now: now, source: o.source, selector: o.selector}
	for _, arg := range args {
		if strings.Contains(arg, "/") {
			errs = append(errs, fmt.Errorf("%q is one object: use kubectl curfew explain %[1]s", arg))
		}
		out.kinds = append(out.kinds, strings.Split(arg, ",")...)
	}
	given := 0
	for _, time := range []string{o.within, o.before, o.between, o.during} {
		if time != "" {
			given++
		}
	}
	if given > 1 {
		errs = append(errs, errors.New("--within, --before, --between and --during exclude each other: give one"))
	}
	var span moment.Span
	var err error
	switch {
	case o.within != "":
		var length time.Duration
		if length, err = policy.ParseDuration(o.within); err != nil {
			bad("within", o.within, err)
		}
		span.To = now.Add(length).Add(1) // up to and with
	case o.before != "":
		if span.To, err = moment.Parse(o.before, now); err != nil {
			bad("before", o.before, err)
		} else if span.To.Before(now) {
			bad("before", o.before, fmt.Errorf("that was at %s: give a time to come%s", instant(span.To, now.Location()), tomorrow(o.before, now)))
		}
		if span.To.Equal(now) {
			span.To = now.Add(1) // What is due at this very instant is due.
		}
	case o.between != "":
		if span, err = moment.ParseSpan(o.between, now); err != nil {
			bad("between", o.between, err)
		}
	case o.during != "":
		if span, err = moment.ParsePeriod(o.during, now); err != nil {
			bad("during", o.during, err)
		}
	}
	if given > 0 {
		out.span = &span
	}
	if o.longerThan != "" {
		length, err := policy.ParseDuration(o.longerThan)
		if err != nil {
			bad("ttl-longer-than", o.longerThan, err)
		}
		out.longer = &length
	}
	switch out.trigger = policy.Trigger(o.trigger); out.trigger {
	case "", policy.TriggerTTL, policy.TriggerLabel, policy.TriggerDeadline:
	default:
		bad("trigger", o.trigger, errors.New("give ttl, label or deadline"))
	}
	if policy.ParseSource(o.source).String() != o.source && o.source != "" {
		bad("source", o.source, errors.New("give object, runtime/NAME, namespace/NAME or policy/NAME"))
	}
	if _, err := labels.Parse(o.selector); err != nil {
		bad("selector", o.selector, err)
	}
	if out.print, err = o.output.printer(); err != nil {
		errs = append(errs, err)
	}
	if o.watch && out.print != nil {
		bad("output", o.output.format(), errors.New("with --watch give table or wide"))
	}
	if o.sortBy != "" {
		if _, err := parsePath(o.sortBy); err != nil {
			bad("sort-by", o.sortBy, err)
		}
	}
	if out.with, err = readOverlay(ctx, o.with); err != nil {
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// tomorrow is what to write instead of a time of day that is over; "" where another time was written.
func tomorrow(text string, now time.Time) string {
	instead := "tomorrow " + text
	if _, err := moment.Parse(instead, now); err != nil {
		return ""
	}
	return fmt.Sprintf(", such as %q", instead)
}

// matches reports whether an entry is asked about.
func (q *expiringQuery) matches(entry *world.Entry) bool {
	switch {
	case q.trigger != "" && entry.Trigger != q.trigger, q.source != "" && entry.Source.String() != q.source:
		return false
	case q.longer != nil && (entry.Trigger == policy.TriggerDeadline || !entry.Value.Never && entry.Value.After <= *q.longer):
		return false
	case entry.Expiry.IsZero():
		return q.longer != nil && q.span == nil
	default:
		return q.span == nil || q.span.Contains(entry.Expiry)
	}
}

// byTime sorts entries by when they go, those of which that is not known last.
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

func (o *expiringOptions) run(ctx context.Context, query *expiringQuery, out, diagnostics io.Writer) error {
	if o.watch {
		return o.follow(ctx, query, out, diagnostics)
	}
	progress := newProgress(o.surroundings, diagnostics)
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
	tellNotes(report.notes, diagnostics)
	if len(report.entries) == 0 && query.print == nil {
		fmt.Fprintln(diagnostics, o.nothing(query, report.namespace))
	}
	return nil
}

func (o *expiringOptions) view() view {
	return view{wide: o.output.format() == "wide", bareNames: !o.showKind, labels: o.showLabels, noHeaders: o.output.noHeaders}
}

// answer reads everything that the query is about, once.
func (o *expiringOptions) answer(ctx context.Context, query *expiringQuery, progress *progress) (*expiringReport, error) {
	progress.say("reading kinds, profiles and policies")
	w, err := o.open(ctx, query.now, query.with, nil)
	if err != nil {
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
	slices.SortStableFunc(entries, byTime)
	out := &expiringReport{now: query.now, everywhere: o.everywhere, namespace: reading.Namespace, entries: entries, notes: w.Notes()}
	for _, one := range left {
		if !world.Gone(one.err) {
			out.unlisted = append(out.unlisted, one.kind.GroupResource())
		}
	}
	if o.sortBy != "" {
		return out, out.sortBy(o.sortBy)
	}
	return out, nil
}

// nothing says what was asked, so that an empty answer is not taken for another one.
func (o *expiringOptions) nothing(query *expiringQuery, namespace string) string {
	out := "nothing"
	if len(query.kinds) > 0 {
		out += " of " + strings.Join(query.kinds, ", ")
	}
	if query.selector != "" {
		out += " labelled " + query.selector
	}
	if namespace != "" {
		out += fmt.Sprintf(" in namespace %q", namespace)
	}
	zone := query.now.Location()
	switch {
	case query.span != nil && query.span.From.IsZero():
		out += " goes before " + instant(query.span.To, zone)
	case query.span != nil:
		out += " goes between " + instant(query.span.From, zone) + " and " + instant(query.span.To, zone)
	case query.longer == nil:
		out += " has an expiry"
	}
	if query.trigger != "" {
		out += " by trigger " + string(query.trigger)
	}
	if query.source != "" {
		out += " by the word of " + query.source
	}
	if query.longer != nil {
		if query.span != nil {
			out += " and"
		}
		out += " has a TTL over " + policy.FormatDuration(*query.longer)
	}
	return out
}

// kinds are those that are asked about: named ones, else all that can go. Those that lie in no namespace are left out where one
// namespace is asked about.
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
