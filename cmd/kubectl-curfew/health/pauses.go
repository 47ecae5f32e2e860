package health

import (
	"fmt"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
)

// pauses shows the emergency stops that are in effect. What the controller cannot read is paused.
func (r *reader) pauses() (State, string) {
	if unread := r.report.HeldUnread; unread != "" && r.noReport == "" {
		return r.live(Failed, "nothing is deleted or stopped, since the controller cannot read whether there is a pause: "+unread)
	}
	if r.w.Pauses.Presence == world.Unread {
		switch {
		case r.noReport != "":
			return Unknown, "you may not read them, and " + r.noReport
		case r.report.Held.Count > 0:
			return r.live(Warning, named(r.report.Held, "; "))
		}
		return r.live(OK, "nothing is paused")
	}
	var messages []string
	for _, one := range r.w.Pauses.InEffect(r.Now) {
		messages = append(messages, one.Message()+" (kubectl curfew resume "+one.Name+" ends it)")
	}
	if held := settings.ListOf(messages); held.Count > 0 {
		return Warning, named(held, "; ")
	}
	message := "nothing is paused"
	if ended := len(r.w.Pauses.All); ended > 0 {
		message += fmt.Sprintf("; pauses that have ended, and can be deleted: %d", ended)
	}
	return OK, message
}
