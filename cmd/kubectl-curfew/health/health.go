package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
)

// State is the result of a check.
type State string

// The states. A Warning needs attention, and Curfew still does its work. What Failed does not.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failed  State = "failed"
	Unknown State = "unknown"
)

// Check is the result of one check.
type Check struct {
	Name    string `json:"name" doc:"what is checked: kinds, controller, webhook, certificate, coverage, statuses, version, triggers, deletions, pauses, permissions, cleanup or in-tree TTL"`
	State   State  `json:"state" doc:"ok, warning, failed or unknown"`
	Message string `json:"message" doc:"what was found, for people"`
}

// Report is the result of all checks.
type Report struct {
	Checks []Check
	// Notes say what could not be read, and what that hides.
	Notes []string
}

// Options of [Run].
type Options struct {
	// Now is the API server's time.
	Now time.Time
	// Version of the command line.
	Version string
}

// checks are made in this order. Without the essential ones the whole is not known.
var checks = []struct {
	name      string
	essential bool
	check     func(*reader) (State, string)
}{
	{"kinds", false, (*reader).kinds},
	{"controller", true, (*reader).controller},
	{"webhook", true, (*reader).webhook},
	{"certificate", false, (*reader).certificate},
	{"coverage", false, (*reader).coverage},
	{"statuses", false, (*reader).statuses},
	{"version", false, (*reader).version},
	{"triggers", false, (*reader).triggers},
	{"deletions", false, (*reader).deletions},
	{"pauses", false, (*reader).pauses},
	{"permissions", false, (*reader).permissions},
	{"cleanup", false, (*reader).cleanup},
	{"in-tree TTL", false, (*reader).inTree},
}

// Run makes all checks.
func Run(ctx context.Context, w *world.World, options Options) *Report {
	r := &reader{ctx: ctx, w: w, Options: options}
	r.readConfigurations()
	made := checks
	if w.Installed() == nil {
		r.readReport()
		r.readProbe()
	} else {
		made = checks[:3] // The others would say nothing.
	}
	out := &Report{}
	for _, one := range made {
		state, message := one.check(r)
		out.Checks = append(out.Checks, Check{Name: one.name, State: state, Message: message})
	}
	out.Notes = append(w.Notes(), r.notes...)
	return out
}

// Worst is Failed where a check failed, else Unknown where an essential one could not be made,
// else OK.
func (r *Report) Worst() State {
	worst := OK
	for i, check := range r.Checks {
		switch {
		case check.State == Failed:
			return Failed
		case check.State == Unknown && checks[i].essential:
			worst = Unknown
		}
	}
	return worst
}

// Missing returns the checks that keep the report from OK, with their states.
func (r *Report) Missing() string {
	var out []string
	for i, check := range r.Checks {
		if check.State == Failed || check.State == Unknown && checks[i].essential {
			out = append(out, check.Name+" "+string(check.State))
		}
	}
	return strings.Join(out, ", ")
}

// reader has the data that several checks need.
type reader struct {
	Options
	ctx   context.Context
	w     *world.World
	notes []string

	configurations []*configuration
	probe          world.Probe
	report         settings.Report
	reported       time.Time
	// noReport says why there is no report.
	noReport string
}

// note keeps a note, once.
func (r *reader) note(format string, values ...any) {
	if text := fmt.Sprintf(format, values...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// presence notes what the user may not get, or what fails, and what that hides.
func (r *reader) presence(presence world.Presence, err error, what, hides string) world.Presence {
	switch {
	case err != nil:
		r.note("%s: %s is not known", err, hides)
	case presence == world.Unread:
		r.note("you may not get %s: %s is not known", what, hides)
	}
	return presence
}

// live is the result of a check of what the controller reported. Once it has stopped, that says
// nothing of the present.
func (r *reader) live(state State, message string) (State, string) {
	message += ", as of " + r.when(r.reported)
	if r.w.Controller.State == world.Stopped {
		return Unknown, "before the controller stopped: " + message
	}
	return state, message
}

// readReport reads the report that the controller has published.
func (r *reader) readReport() {
	c := &r.w.Controller
	report, at, ok, err := settings.ReadReport(c.Published)
	switch {
	case c.Unknown != "":
		r.noReport = c.Unknown
	case err != nil:
		r.noReport = fmt.Sprintf("ConfigMap %s in namespace %q cannot be used: %s", settings.Name, c.Namespace, err)
	case !ok:
		r.noReport = "the controller has not reported yet"
	default:
		r.report, r.reported = report, at
	}
}

func (r *reader) readProbe() {
	var err error
	if r.probe, err = r.w.Probe(r.ctx); err != nil {
		r.note("%s: whether the API server calls the webhook was not tried", err)
	}
}

// when is an instant in the user's time zone.
func (r *reader) when(at time.Time) string {
	return at.In(r.Now.Location()).Format("2006-01-02 15:04:05 MST")
}
