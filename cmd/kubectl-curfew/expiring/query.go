package expiring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

// expiringQuery is the user's question, parsed and checked.
type expiringQuery struct {
	now      time.Time
	kinds    []string
	span     *moment.Span
	longer   *time.Duration
	source   string
	trigger  policy.Trigger
	with     session.Overlay
	selector string
	// history: the answer shows the history limits of CronJobs.
	history bool
	// note is about the query itself; empty for none.
	note string
}

// query names every flag that cannot be used, with its value and the fix.
func (o *expiringOptions) query(ctx context.Context, args []string, now time.Time) (*expiringQuery, error) {
	var errs []error
	bad := func(flag, value string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s=%s: %w", flag, value, err))
		}
	}
	out := &expiringQuery{now: now, source: o.source, selector: o.selector}
	for _, arg := range args {
		if strings.Contains(arg, "/") {
			errs = append(errs, fmt.Errorf("%q is one object: use kubectl curfew explain %[1]s", arg))
		}
		out.kinds = append(out.kinds, strings.Split(arg, ",")...)
	}
	given := slices.DeleteFunc([]string{o.within, o.before, o.between}, func(text string) bool { return text == "" })
	if len(given) > 1 {
		errs = append(errs, errors.New("--within, --before and --between exclude each other: give one"))
	}
	if len(given) > 0 {
		span, flag, err := o.span(out)
		bad(flag, given[0], err)
		out.span = &span
	}
	if o.longerThan != "" {
		length, err := lifetime.ParseDuration(o.longerThan)
		bad("ttl-longer-than", o.longerThan, err)
		out.longer = &length
	}
	out.trigger = policy.Trigger(o.trigger)
	if triggers := session.Triggers(); o.trigger != "" && !slices.Contains(triggers, o.trigger) {
		bad("trigger", o.trigger, errors.New("give "+session.EitherOf(triggers)))
	}
	if o.source != "" && !isSource(o.source) {
		bad("source", o.source, errors.New("give object, runtime/NAME, namespace/NAME, policy/NAME, cleanup/NAME, job/NAME or tally/NAME"))
	}
	_, err := labels.Parse(o.selector)
	bad("selector", o.selector, err)
	if o.watch && o.Output.Format == console.NameFormat {
		bad("output", o.Output.Format, errors.New("with --watch a name does not show what changed: give json or jsonpath"))
	}
	if o.sortBy != "" {
		_, err := console.ParsePath(o.sortBy)
		bad("sort-by", o.sortBy, err)
	}
	if out.with, err = session.ReadOverlay(ctx, o.with); err != nil {
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// span parses the first of the three flags that is given.
func (o *expiringOptions) span(query *expiringQuery) (out moment.Span, flag string, err error) {
	switch {
	case o.within != "":
		flag = "within"
		out, err = moment.ParseWithin(o.within, query.now)
	case o.before != "":
		flag = "before"
		out.To, err = moment.Parse(o.before, query.now)
		switch {
		case err != nil:
		case out.To.Before(query.now):
			query.note = fmt.Sprintf("--before=%s is in the past (%s): only objects that were due before it are listed%s",
				o.before, console.Instant(out.To, query.now.Location()), tomorrow(o.before, query.now))
		case out.To.Equal(query.now):
			out.To = query.now.Add(1) // An object that expires at this very instant is due.
		}
	default:
		flag = "between"
		out, err = moment.ParseSpan(o.between, query.now)
	}
	return out, flag, err
}

// tomorrow suggests another text for a time of day that has passed.
func tomorrow(text string, now time.Time) string {
	instead := "tomorrow " + text
	if _, err := moment.Parse(instead, now); err != nil {
		return ""
	}
	return fmt.Sprintf("; for tomorrow write --before %q", instead)
}

// matches reports whether an entry is asked about.
func (q *expiringQuery) matches(entry *world.Entry) bool {
	switch {
	case q.trigger != "" && entry.Trigger != q.trigger, q.source != "" && entry.Source.String() != q.source:
		return false
	case q.longer != nil && (judging.Stops(entry.Trigger) || !entry.Value.Never && entry.Value.After <= *q.longer):
		return false
	case entry.Expiry.IsZero():
		return q.longer != nil && q.span == nil
	default:
		return q.span == nil || q.span.Contains(entry.Expiry)
	}
}

// nothing repeats what was asked, so that an empty answer is not misread.
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
		out += " expires before " + console.Instant(query.span.To, zone)
	case query.span != nil:
		out += " expires between " + console.Instant(query.span.From, zone) + " and " + console.Instant(query.span.To, zone)
	case query.longer == nil:
		out += " has an expiry"
	}
	if query.trigger != "" {
		out += " by trigger " + string(query.trigger)
	}
	if query.source != "" {
		out += " from " + query.source
	}
	if query.longer != nil {
		if query.span != nil {
			out += " and"
		}
		out += " has a TTL over " + lifetime.FormatDuration(*query.longer)
	}
	return out
}

// isSource reports whether text is a source as [lifetime.Source] writes it. Sources of Pod TTLs are
// no stamps, which [lifetime.ParseSource] reads.
func isSource(text string) bool {
	level, name, _ := strings.Cut(text, "/")
	return lifetime.ParseSource(text).String() == text ||
		name != "" && (level == string(lifetime.LevelJob) || level == string(lifetime.LevelTally) || level == string(policy.TriggerCleanup))
}

// Questions are what people ask, each with the command line that answers it. The help shows
// them, and tests run them.
var Questions = []struct{ Question, Line string }{
	{"What is deleted in the next 6 hours?", "expiring -A --within 6h"},
	{"Which Deployments are deleted by 5pm today?", "expiring deployments -A --before 17:00"},
	{"What is deleted in namespace foo between now and Friday 5pm?", "expiring -n foo --between now..'friday 17:00'"},
	{"What has a TTL over 7 days?", "expiring -A --ttl-longer-than 7d"},
	{"What expires in May?", "expiring -A --within may"},
	{"What would this policy delete now, if it were applied?", "expiring -A --with policy.yaml --source policy/nightly --before now"},
	{"Why does this object have this expiry, and what blocks it?", "explain job/build -n ci"},
}

func examples(questions []struct{ Question, Line string }) string {
	var out strings.Builder
	for i, each := range questions {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "  # %s\n  kubectl curfew %s", each.Question, each.Line)
	}
	return out.String()
}
