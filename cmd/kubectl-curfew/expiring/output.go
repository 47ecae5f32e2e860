package expiring

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// Item is one expiry for programs.
type Item struct {
	// with --watch, which prints a list each time that rows change: NEW, CHANGED or GONE
	Event   string             `json:"event,omitempty"`
	Object  console.ObjectData `json:"object"`
	Trigger string             `json:"trigger" doc:"ttl, label, cleanup or deadline"`
	// object, runtime/NAME, job/NAME or tally/NAME (of a Pod), namespace/NAME, policy/NAME, or
	// cleanup/NAME or cleanup/NAMESPACE/NAME of a cleanup policy
	Source    string     `json:"source"`
	TTL       string     `json:"ttl" doc:"the TTL or deadline, as a duration, or never; 0s for cleanup"`
	ByOutcome bool       `json:"ttlByOutcome,omitempty" doc:"the outcome decides the TTL; ttl is the longer one"`
	Expiry    *time.Time `json:"expiry" doc:"null while the object has not finished"`
	// the object does not say when it finished: the TTL starts when the controller sees it. For
	// cleanup: a run before expiry may delete it, too
	Estimate  bool       `json:"estimated,omitempty"`
	Left      *int64     `json:"leftSeconds" doc:"negative where it is overdue"`
	Created   *time.Time `json:"created,omitempty"`
	Finished  *time.Time `json:"finished,omitempty"`
	DeletedBy string     `json:"deletedBy,omitempty" doc:"who deletes it in Curfew's place, by the native TTL"`
	// its Namespace or owner, if the deletion of that deletes it first; expiry is that of the other
	// object then
	With      *session.WithData      `json:"deletedWith,omitempty"`
	History   string                 `json:"historyLimits,omitempty" doc:"of the CronJob that owns it, whose controller may delete it first"`
	Uncertain bool                   `json:"uncertain,omitempty" doc:"what you may not read, or a limit of a cleanup policy, could block it"`
	Obstacles []session.ObstacleData `json:"obstacles,omitempty"`
}

func (r *expiringReport) items() []Item {
	var out []Item
	for _, entry := range r.entries {
		item := Item{
			Object:  session.ObjectOf(entry.Kind, entry.Namespace, entry.Name, entry.UID),
			Trigger: string(entry.Trigger), Source: entry.Source.String(), TTL: entry.Value.String(), ByOutcome: entry.ByOutcome,
			Expiry: console.TimeData(entry.Expiry, r.now), Created: console.TimeData(entry.Created, r.now),
			Finished: console.TimeData(entry.Finished, r.now), Estimate: entry.Estimated,
			DeletedBy: entry.DeletedBy(), History: entry.History, Uncertain: entry.Uncertain, Obstacles: session.ObstaclesData(entry.Obstacles),
		}
		if !entry.Expiry.IsZero() {
			item.Left = new(int64(entry.Expiry.Sub(r.now) / time.Second))
		}
		if entry.With != nil {
			item.With = session.WithDataOf(entry.With, r.now)
		}
		out = append(out, item)
	}
	return out
}

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

// view says which parts of a report its table shows.
type view struct {
	wide, bareNames, labels, noHeaders bool
	// width of the terminal; 0 for none.
	width int
}

// print writes the table of a report. One without rows has no header.
func (v view) print(report *expiringReport, out io.Writer) error {
	table := console.NewTable(report.header(v)...)
	for _, entry := range report.entries {
		console.AddRow(table, entry.Labels, report.row(entry, v)...)
	}
	if v.width > 0 && !v.wide {
		fit(table, slices.Index(report.header(v), "NAME"), v.width)
	}
	return console.PrintTable(table, v.options(), out)
}

// fit shortens names in the middle, so that a terminal shows the next column beside them.
func fit(table *metav1.Table, name, room int) {
	for column := range name + 2 {
		if column == name {
			continue
		}
		widest := len(table.ColumnDefinitions[column].Name)
		for _, row := range table.Rows {
			widest = max(widest, len(fmt.Sprint(row.Cells[column])))
		}
		room -= widest + 3
	}
	room = max(room, 20)
	for _, row := range table.Rows {
		if text := []rune(fmt.Sprint(row.Cells[name])); len(text) > room {
			row.Cells[name] = string(text[:room/2-1]) + "..." + string(text[len(text)-(room-3)/2:])
		}
	}
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
		out = append(out, console.OrDash(entry.Namespace))
	}
	name := entry.Kind.Name(entry.Name)
	if v.bareNames {
		name = entry.Name
	}
	out = append(out, name, session.Expires(entry, zone), console.Left(entry.Expiry, r.now))
	if entry.With == nil {
		out = append(out, string(entry.Trigger), entry.Source.String())
	} else {
		out = append(out, "owner", entry.With.Kind.Name(entry.With.Name))
	}
	blocker := entry.Blocker()
	if v.wide {
		out = append(out, ttlText(entry), console.Instant(entry.Created, zone), console.Instant(entry.Finished, zone))
	}
	switch {
	case entry.Uncertain:
		out = append(out, "?")
	case blocker == nil && slices.ContainsFunc(entry.Obstacles, func(o judging.Obstacle) bool { return o.Kind == judging.ObstacleValue }):
		out = append(out, string(judging.ObstacleValue)) // It stops Curfew alone.
	case blocker == nil:
		out = append(out, "-")
	case v.wide:
		out = append(out, blocker.Message)
	default:
		out = append(out, string(blocker.Kind))
	}
	if v.wide {
		out = append(out, console.OrDash(note(entry)))
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

// ttlText is how long an object may live. Until a date, that is no round number.
func ttlText(entry *world.Entry) string {
	switch entry.Trigger {
	case policy.TriggerLabel:
		return console.TwoUnits(entry.Value.After)
	case policy.TriggerCleanup:
		return "-"
	}
	return entry.Value.String()
}

// printed is the report in the forms that programs read. An object that has a deadline as well is
// named once.
func (r *expiringReport) printed() console.Printed {
	out := console.Printed{Document: console.ListOf("ExpiryList", r.now, r.items(), r.notes)}
	named := map[types.UID]bool{}
	for _, entry := range r.entries {
		if entry.UID == "" || !named[entry.UID] {
			named[entry.UID] = true
			out.Objects = append(out.Objects, session.ObjectOf(entry.Kind, entry.Namespace, entry.Name, entry.UID))
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
	keys, err := console.SortKeys(r.printed(), r.sortBy)
	if err != nil {
		return fmt.Errorf("--sort-by=%s: %w", r.sortBy, err)
	}
	byEntry := map[*world.Entry]any{}
	for i, entry := range r.entries {
		byEntry[entry] = keys[i]
	}
	slices.SortStableFunc(r.entries, func(a, b *world.Entry) int { return console.CompareKeys(byEntry[a], byEntry[b]) })
	return nil
}
