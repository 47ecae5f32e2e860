package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
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
	// one of kinds, controller, webhook, certificate, coverage, statuses, version, triggers,
	// deletions, pauses, permissions, cleanup or in-tree TTL
	Name    string `json:"name"`
	State   State  `json:"state" doc:"ok, warning, failed or unknown"`
	Message string `json:"message" doc:"what was found, for people"`
}

// Report is the result of all checks.
type Report struct {
	Checks []Check
	// Notes say what could not be read, and what that hides.
	Notes []string
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

// Run makes all checks at an instant of the API server's clock.
func Run(ctx context.Context, w *world.World, now time.Time) *Report {
	r := &reader{ctx: ctx, w: w, now: now}
	r.readConfigurations()
	made := checks
	if w.Installed() == nil {
		r.readReport()
		r.readProbe()
	} else {
		made = checks[:3] // The others would say nothing.
	}
	out := &Report{}
	for _, check := range made {
		state, message := check.check(r)
		out.Checks = append(out.Checks, Check{Name: check.name, State: state, Message: message})
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
	now   time.Time
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

// get reads an object, and notes what the user may not get, or what fails, and what that hides.
func get[T any](r *reader, resource schema.GroupVersionResource, namespace, name, hides string) (*T, world.Presence) {
	read, presence, err := world.Read[T](r.ctx, r.w, resource, namespace, name)
	return read, r.presence(presence, err, resource.Resource+"/"+name, hides)
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
	report, t, ok, err := settings.ReadReport(c.Published)
	switch {
	case c.Unknown != "":
		r.noReport = c.Unknown
	case err != nil:
		r.noReport = fmt.Sprintf("ConfigMap %s in namespace %q cannot be used: %s", settings.Name, c.Namespace, err)
	case !ok:
		r.noReport = "the controller has not reported yet"
	default:
		r.report, r.reported = report, t
	}
}

func (r *reader) readProbe() {
	var err error
	if r.probe, err = r.w.Probe(r.ctx); err != nil {
		r.note("%s: whether the API server calls the webhook was not tried", err)
	}
}

// when is an instant in the user's time zone.
func (r *reader) when(t time.Time) string {
	return t.In(r.now.Location()).Format("2006-01-02 15:04:05 MST")
}

// remedies say how to fix a stalled cleanup policy, by reason.
var remedies = map[string]string{
	v1alpha1.ReasonForbidden:          "create its service account if it does not exist, and grant it what condition PermissionsGranted names",
	v1alpha1.ReasonWaitingForApproval: "kubectl curfew approve it",
	v1alpha1.ReasonTooManyMatches:     "look at kubectl curfew preview, then raise its limit or match less",
	v1alpha1.ReasonTooManyGroups:      "match less, or group by a field with fewer values",
	v1alpha1.ReasonPaused:             "a pause holds it, see check pauses; it goes on afterwards",
	v1alpha1.ReasonUnread:             "pauses cannot be read, see check pauses; it goes on afterwards",
	v1alpha1.ReasonKindNotListed:      "condition Stalled names the kind and the error; the next run tries it again",
	v1alpha1.ReasonTimeLimit:          "match less, or use cheaper expressions",
	v1alpha1.ReasonNeedsNewerVersion:  "condition Ready names the field and the fix",
	v1alpha1.ReasonRunFailed:          "condition Stalled says what failed; Curfew tries again",
}

// cleanup shows the policies that do not delete all that they should, with the remedy.
func (r *reader) cleanup() (State, string) {
	switch {
	case r.noReport != "":
		return Unknown, r.noReport
	case slices.Contains(r.w.Controller.Off, policy.TriggerCleanup):
		return OK, "off"
	case r.report.Stalled.Count == 0:
		return r.live(OK, "no policy is stalled")
	}
	var advice []string
	for _, name := range r.report.Stalled.First {
		_, reason, _ := strings.Cut(strings.TrimSuffix(name, ")"), " (")
		remedy := cmp.Or(remedies[reason], "condition Ready names the field to correct")
		if text := reason + ": " + remedy; !slices.Contains(advice, text) {
			advice = append(advice, text)
		}
	}
	message := fmt.Sprintf("%d stalled: %s. %s", r.report.Stalled.Count, named(r.report.Stalled, ", "), strings.Join(advice, "; "))
	return r.live(Warning, message)
}

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
	messages := console.Map(r.w.Pauses.InEffect(r.now), func(pause world.Pause) string {
		return pause.Message() + " (kubectl curfew resume " + pause.Name + " ends it)"
	})
	if held := settings.ListOf(messages); held.Count > 0 {
		return Warning, named(held, "; ")
	}
	message := "nothing is paused"
	if ended := len(r.w.Pauses.All); ended > 0 {
		message += fmt.Sprintf("; pauses that have ended, and can be deleted: %d", ended)
	}
	return OK, message
}

// unprotected is the match condition of webhooks that fail closed. The controller keeps it in its
// own configurations. In the other one, which is installed, nothing follows its --protect.
const unprotected = "not-protected"

// protection says where --protect of the controller is not in effect: in requests that an outage
// refuses, and in the defaults that the webhook gives. It is "" where they agree.
func (r *reader) protection() string {
	c := &r.w.Controller
	protect := othersIn(c.Protect, c.Namespace)
	var out []string
	if workload, err := r.w.Workload(r.ctx, "curfew-webhook"); err == nil && workload.Presence == world.Found {
		theirs := othersIn(protectIn(workload.Args), c.Namespace)
		if !slices.Equal(theirs, protect) {
			out = append(out, fmt.Sprintf("the webhook runs with --protect=%s, the controller with --protect=%s",
				strings.Join(theirs, ","), strings.Join(protect, ",")))
		}
	}
	asks := judging.ProtectedRequest(protect)
	want := admissionv1.MatchCondition{Name: unprotected, Expression: "!(" + asks + ")"}
	same := func(have admissionv1.MatchCondition) bool {
		return have.Name == want.Name && slices.Equal(wordsIn(have.Expression, c.Namespace), wordsIn(want.Expression, c.Namespace))
	}
	refusing := 0
	for _, configuration := range r.configurations {
		if configuration.name != static || asks == "" {
			continue
		}
		for i := range configuration.webhooks {
			webhook := &configuration.webhooks[i]
			if ptr.Deref(webhook.FailurePolicy, "") == admissionv1.Fail && !slices.ContainsFunc(webhook.MatchConditions, same) {
				refusing++
			}
		}
	}
	if refusing > 0 {
		out = append(out, fmt.Sprintf("an outage refuses requests in namespaces of --protect: "+
			"%s of ValidatingWebhookConfiguration %s without match condition %s: %s",
			console.Count(refusing, "webhook"), static, want.Name, want.Expression))
	}
	return strings.Join(out, "; ")
}

// othersIn are patterns of --protect as a sorted set, without Curfew's own namespace, which is
// always protected.
func othersIn(protect []string, own string) []string {
	out := slices.DeleteFunc(slices.Clone(protect), func(name string) bool { return name == own })
	slices.Sort(out)
	return slices.Compact(out)
}

// wordsIn are the names, patterns and operators of a match condition as a sorted set: their order
// makes no difference.
func wordsIn(expression, own string) []string {
	return othersIn(strings.FieldsFunc(expression, func(c rune) bool { return strings.ContainsRune(`,|()[]" ^$`, c) }), own)
}

// protectIn reads --protect of a process.
func protectIn(args []string) (out []string) {
	given := false
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--protect=")
		if arg == "--protect" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if ok {
			given = true
			out = append(out, strings.FieldsFunc(value, func(c rune) bool { return c == ',' })...)
		}
	}
	if !given {
		return judging.DefaultProtect()
	}
	return out
}
