package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// expiringReport is the answer of expiring.
type expiringReport struct {
	now        time.Time
	everywhere bool
	// namespace that was asked about; empty for all.
	namespace string
	// sortBy is a field of the items in the document; empty for time.
	sortBy  string
	entries []*world.Entry
	notes   []string
	// unlisted are the kinds that could not be listed, whose objects are not known.
	unlisted []schema.GroupResource
	// silent are groups that do not answer. unanswered says so of single kinds; empty for none.
	silent     []string
	unanswered string
	// cleanupFailed: the API server failed while runs of cleanup policies were evaluated.
	cleanupFailed bool
}

// partial reports whether the API server failed to list a kind that it serves, or what a run of a
// cleanup policy matches. What the user may not list does not count: few users may list everything.
func (r *expiringReport) partial() bool {
	return r.unanswered != "" || len(r.silent) > 0 || r.cleanupFailed
}

// view is what of a report its table shows.
type view struct {
	wide, bareNames, labels, noHeaders bool
	// width of the terminal; 0 where there is none.
	width int
}

// print writes the table of a report. One without rows has no header.
func (v view) print(report *expiringReport, out io.Writer) error {
	table := newTable(report.header(v)...)
	for _, entry := range report.entries {
		addRow(table, entry.Labels, report.row(entry, v)...)
	}
	if !v.wide && !v.labels {
		fit(table, v.width)
	}
	return printTable(table, v.options(), out)
}

func (v view) options() printers.PrintOptions {
	return printers.PrintOptions{NoHeaders: v.noHeaders, ShowLabels: v.labels}
}

func (r *expiringReport) header(v view) []string {
	out := []string{"NAME", "EXPIRES", "LEFT", "TRIGGER", "SOURCE", "BLOCKER"}
	if r.everywhere {
		out = append([]string{"NAMESPACE"}, out...)
	}
	if v.wide {
		out = append(out[:len(out)-1], "TTL", "CREATED", "FINISHED", "BLOCKER", "NOTE")
	}
	return out
}

func (r *expiringReport) row(entry *world.Entry, v view) []string {
	zone := r.now.Location()
	var out []string
	if r.everywhere {
		out = append(out, orDash(entry.Namespace))
	}
	name := entry.Kind.Name(entry.Name)
	if v.bareNames {
		name = entry.Name
	}
	out = append(out, name, expires(entry, zone), left(entry.Expiry, r.now))
	if entry.With == nil {
		out = append(out, string(entry.Trigger), entry.Source.String())
	} else {
		out = append(out, "owner", entry.With.Kind.Name(entry.With.Name))
	}
	blocker := entry.Blocker()
	if v.wide {
		out = append(out, ttlText(entry), instant(entry.Created, zone), instant(entry.Finished, zone))
	}
	switch {
	case entry.Uncertain:
		out = append(out, "?")
	case blocker == nil && slices.ContainsFunc(entry.Obstacles, func(o policy.Obstacle) bool { return o.Kind == policy.ObstacleValue }):
		out = append(out, string(policy.ObstacleValue)) // It stops Curfew alone.
	case blocker == nil:
		out = append(out, "-")
	case v.wide:
		out = append(out, blocker.Message)
	default:
		out = append(out, string(blocker.Kind))
	}
	if v.wide {
		out = append(out, orDash(note(entry)))
	}
	return out
}

// note is what else there is to know: who deletes the object in Curfew's place, and what may delay
// its deletion or undo it.
func note(entry *world.Entry) string {
	var out []string
	if by := entry.DeletedBy(); by != "" {
		out = append(out, by+" deletes it by "+entry.Native.Setting.Field())
	}
	if entry.History != "" {
		out = append(out, "the CronJob controller "+entry.History)
	}
	for _, obstacle := range entry.Obstacles {
		if !obstacle.Stops {
			out = append(out, obstacle.Message)
		}
	}
	return strings.Join(out, "; ")
}

// expires is when an object is deleted, or how long after it has finished.
func expires(entry *world.Entry, zone *time.Location) string {
	switch {
	case entry.Estimated && entry.Trigger == policy.TriggerCleanup:
		return "by " + instant(entry.Expiry, zone)
	case entry.Estimated:
		return "about " + instant(entry.Expiry, zone)
	case !entry.Expiry.IsZero():
		return instant(entry.Expiry, zone)
	case entry.Value.Never && entry.ByOutcome:
		return "never, or as it ends"
	case entry.Value.Never:
		return "never"
	case entry.ByOutcome:
		return "up to " + entry.Value.String() + " after it finishes"
	default:
		return entry.Value.String() + " after it finishes"
	}
}

// ttlText is how long an object may live. Until a date, that is no round number.
func ttlText(entry *world.Entry) string {
	switch entry.Trigger {
	case policy.TriggerLabel:
		return twoUnits(entry.Value.After)
	case policy.TriggerCleanup:
		return "-"
	}
	return entry.Value.String()
}

// printed is the report in the forms that programs read. An object that has a deadline as well is
// named once.
func (r *expiringReport) printed() printed {
	out := printed{document: listOf("ExpiryList", r.now, r.items(), r.notes)}
	named := map[types.UID]bool{}
	for _, entry := range r.entries {
		if entry.UID == "" || !named[entry.UID] {
			named[entry.UID] = true
			out.objects = append(out.objects, objectOf(entry.Kind, entry.Namespace, entry.Name, entry.UID))
		}
	}
	return out
}

// sort sorts the entries by --sort-by, or by time.
func (r *expiringReport) sort() error {
	slices.SortStableFunc(r.entries, byTime)
	if r.sortBy == "" {
		return nil
	}
	keys, err := sortKeys(r.printed(), r.sortBy)
	if err != nil {
		return fmt.Errorf("--sort-by=%s: %w", r.sortBy, err)
	}
	byEntry := map[*world.Entry]any{}
	for i, entry := range r.entries {
		byEntry[entry] = keys[i]
	}
	slices.SortStableFunc(r.entries, func(a, b *world.Entry) int { return compareKeys(byEntry[a], byEntry[b]) })
	return nil
}
