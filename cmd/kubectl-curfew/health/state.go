package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
)

// triggers shows which are switched on. A dry run deletes nothing.
func (r *reader) triggers() (State, string) {
	c := &r.w.Controller
	if c.Unknown != "" {
		return Unknown, c.Unknown
	}
	on := strings.Join(strings.Split(c.Published["enable"], ","), ", ")
	var off []string
	for _, trigger := range c.Off {
		off = append(off, string(trigger))
	}
	message := "on: " + on
	if len(off) > 0 {
		message += "; off: " + strings.Join(off, ", ")
	}
	if c.LeaveNative {
		message += "; a Job's own ttlSecondsAfterFinished is left to Kubernetes (--leave-native-ttl)"
	}
	if c.DryRun {
		return Warning, message + "; the controller only reports what is due (--dry-run)"
	}
	return OK, message
}

// backlogAfter is how long an object may be due until that is a warning.
const backlogAfter = 5 * time.Minute

// deletions shows the backlog, and what is paused.
func (r *reader) deletions() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	report := &r.report
	state, parts := OK, []string{fmt.Sprintf("%d objects wait for their expiry", report.Tracked)}
	if report.Overdue > 0 {
		text := fmt.Sprintf("%d are overdue", report.Overdue)
		if report.OldestDue != nil {
			text += ", the oldest since " + r.when(*report.OldestDue)
			if r.Now.Sub(*report.OldestDue) > backlogAfter {
				state = Warning
			}
		}
		parts = append(parts, text)
	}
	for _, some := range []struct {
		count int
		what  string
	}{{report.Blocked, "cannot be deleted (Events DeleteRefused, DeleteConflict)"}, {report.Stuck, "have been terminating for long"}} {
		if some.count > 0 {
			state, parts = Warning, append(parts, fmt.Sprintf("%d %s", some.count, some.what))
		}
	}
	if report.IncompleteKinds > 0 {
		state, parts = Warning, slices.Insert(parts, 0, r.incomplete())
	}
	if report.Paused.Count > 0 {
		state, parts = Warning, slices.Insert(parts, 0, named(report.Paused, "; "))
	}
	if report.AllPaused {
		state = Failed
	}
	return r.live(state, strings.Join(parts, "; "))
}

// incomplete shows which kinds have objects that the controller does not know: what is due among
// them is not deleted.
func (r *reader) incomplete() string {
	list := settings.List{Count: r.report.IncompleteKinds}
	for _, kind := range r.report.Incomplete {
		list.First = append(list.First, fmt.Sprintf("%s (since %s)", kind.GroupKind(), r.when(kind.Since)))
	}
	return "not all objects are known of kind " + named(list, ", ")
}

// permissions shows which kinds Curfew leaves alone because it may not delete them.
func (r *reader) permissions() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	var parts []string
	state := OK
	if r.report.Skipped.Count > 0 {
		state = Warning
		parts = append(parts, "kinds with a profile are skipped: "+named(r.report.Skipped, ", "))
	}
	if !slices.Contains(r.w.Controller.Off, policy.TriggerLabel) {
		parts = append(parts, fmt.Sprintf("TTL labels have an effect on %d kinds", r.report.LabelKinds))
		if r.report.Unlabelled.Count > 0 {
			parts = append(parts, fmt.Sprintf("and not on %d that the controller may not delete", r.report.Unlabelled.Count))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "none is missing")
	}
	return r.live(state, strings.Join(parts, ", "))
}

// named are the first few of a list.
func named(list settings.List, separator string) string {
	const most = 3
	out := strings.Join(list.First[:min(most, len(list.First))], separator)
	if more := list.Count - most; more > 0 {
		out += fmt.Sprintf("%sand %d more", separator, more)
	}
	return out
}
