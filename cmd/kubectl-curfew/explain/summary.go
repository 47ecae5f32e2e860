package explain

import (
	"fmt"
	"slices"
	"time"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

func (e *explained) cleanupRows() [][]string {
	runs := console.Map(e.cleanups, func(run preview.ObjectRun) []string { return []string{"   " + run.Source.String(), run.Text(e.now)} })
	return append(runs, rows("   not known: ", e.cleanupsUnknown)...)
}

// cleanedFirst is the run that deletes the object, or may, before its own expiry; nil for none. It
// is a blocked run where the object has no other expiry.
func (e *explained) cleanedFirst() *preview.ObjectRun {
	first := preview.FirstRun(e.cleanups)
	if first == nil {
		return nil
	}
	blocked := first.Blocker() != nil
	for _, entry := range e.entries {
		if judging.Stops(entry.Trigger) {
			continue
		}
		own := !entry.Expiry.IsZero() && (!e.held() || entry.Native != nil)
		if stays := entry.Value.Never && !entry.ByOutcome; own && entry.Expiry.Before(first.Expiry) || blocked && !stays {
			return nil
		}
	}
	return first
}

func (e *explained) cleanupSummary(run *preview.ObjectRun) string {
	when := run.When(e.now)
	if blocker := run.Blocker(); blocker != nil {
		return fmt.Sprintf("stays, although the next run of %s would delete it %s: %s", run.Source, when, blocker.Message)
	}
	if run.Uncertain {
		return fmt.Sprintf("may be deleted %s, by the next run of %s: see below", when, run.Source)
	}
	return fmt.Sprintf("expires %s: the next run of %s deletes it", when, run.Source)
}

type cleanupRunData struct {
	Source  string     `json:"source" doc:"cleanup/NAME or cleanup/NAMESPACE/NAME"`
	Run     *time.Time `json:"run" doc:"when the policy runs next"`
	Result  string     `json:"result" doc:"WouldDelete, Skipped, Blocked, or Unknown"`
	Message string     `json:"message,omitempty"`
}

func (e *explained) cleanupData() []cleanupRunData {
	var out []cleanupRunData
	for i := range e.cleanups {
		run := &e.cleanups[i]
		data := cleanupRunData{Source: run.Source.String(), Run: console.TimeData(run.Expiry, e.now), Result: preview.WouldDelete}
		switch {
		case run.Kept:
			data.Result = preview.ResultSkip
		case run.Blocker() != nil:
			data.Result = "Blocked"
		case run.Uncertain:
			data.Result = "Unknown"
		}
		if len(run.Obstacles) > 0 {
			data.Message = run.Obstacles[0].Message
		}
		out = append(out, data)
	}
	return out
}

// withAnother reports whether the object is deleted with another one before its own expiry, or
// without one.
func (e *explained) withAnother() bool {
	if e.cascade == nil {
		return false
	}
	for _, entry := range e.entries {
		if !judging.Stops(entry.Trigger) {
			return e.cascade.First(&entry, e.held())
		}
	}
	return true
}

// overtaken reports whether another one than Curfew deletes the object first: obstacles then stop
// Curfew, and not the deletion.
func (e *explained) overtaken() bool {
	return e.withAnother() || slices.ContainsFunc(e.entries, func(entry world.Entry) bool { return entry.Native != nil })
}

// cascadeText says with which other object this one is deleted, and when.
func (e *explained) cascadeText(is string) string {
	with, entry := e.cascade.Kind.Kind+" "+e.cascade.Name, e.cascade.Entry
	switch {
	case e.cascade.Gone:
		return fmt.Sprintf("%s left to the garbage collector: its owner %s is gone", is, with)
	case e.cascade.Deleting:
		return fmt.Sprintf("%s deleted with %s, which is being deleted", is, with)
	case entry.Expiry.IsZero():
		return fmt.Sprintf("%s deleted with %s, %s", is, with, session.Expires(entry, e.now.Location()))
	default:
		when := session.Expires(entry, e.now.Location()) + ", " + console.Relative(entry.Expiry, e.now)
		return fmt.Sprintf("%s deleted with %s at %s", is, with, when)
	}
}

// nativeSummary is the answer where the kind's own controller deletes the object, and Curfew does
// not, or would later.
func (e *explained) nativeSummary(entry *world.Entry) string {
	when := session.Expires(entry, e.now.Location())
	if !entry.Expiry.IsZero() {
		when += ", " + console.Relative(entry.Expiry, e.now)
	}
	why := ", before Curfew would"
	switch {
	case e.of.Effective.LeftToKubernetes(e.of.Facts):
		why = ", which is left to Kubernetes (--leave-native-ttl)"
	case e.blocked():
		why = ", whatever keeps Curfew from it"
	}
	return fmt.Sprintf("expires %s: %s deletes it by %s%s",
		when, e.of.Facts.Profile.NativeDeleter(), session.SettingText(entry.Native.Setting.Field(), entry.Native.Setting), why)
}

// alsoDeletedBy is what deletes the object beside Curfew.
func (e *explained) alsoDeletedBy() [][]string {
	var out [][]string
	if native := e.native; native != nil {
		text := session.SettingText(native.Setting.Field(), native.Setting)
		switch {
		case native.Expiry.IsZero():
		case world.NativeDeletion(e.of.Facts, e.now) == nil && !e.of.Facts.Deleting:
			text += ": due " + console.Relative(native.Expiry, e.now) + ", so that controller is switched off here, or refused"
		default:
			text += ": " + console.Instant(native.Expiry, e.now.Location())
		}
		out = append(out, []string{"   " + e.of.Facts.Profile.NativeDeleter(), text})
	}
	if e.history != "" {
		out = append(out, []string{"   CronJob controller", e.history})
	}
	if e.cascade != nil {
		by := "garbage collector"
		if e.cascade.Kind.IsNamespace() {
			by = "namespace controller"
		}
		out = append(out, []string{"   " + by, e.cascadeText("it is")})
	}
	return out
}

// obstructed reports whether there is an obstacle of one of the kinds.
func (e *explained) obstructed(kinds ...judging.ObstacleKind) bool {
	return slices.ContainsFunc(e.obstacles, func(o judging.Obstacle) bool { return slices.Contains(kinds, o.Kind) })
}

// againstOthers are the commands that keep the object from those who delete it beside Curfew.
func (e *explained) againstOthers(name string) []string {
	var out []string
	for _, entry := range e.entries {
		if entry.Native == nil || e.withAnother() || !e.obstructed(judging.ObstacleProtection, judging.ObstacleDryRun, judging.ObstacleValue) {
			continue
		}
		path, err := fieldpath.ParseFieldPath(entry.Native.Setting.Path)
		if err != nil {
			continue
		}
		patch := "null"
		for i := len(path) - 1; i >= 0; i-- {
			patch = fmt.Sprintf("{%q:%s}", path[i], patch)
		}
		out = append(out, fmt.Sprintf("kubectl patch %s --type=merge -p '%s'   # else %s deletes it",
			name, patch, e.of.Facts.Profile.NativeDeleter()))
	}
	if e.withAnother() && !e.cascade.Gone {
		out = append(out, "kubectl curfew explain "+e.cascade.Kind.Name(e.cascade.Name)+flagOf(e.cascade.Namespace))
	}
	return out
}

// summary is the answer in one sentence.
func (e *explained) summary() string {
	zone := e.now.Location()
	if facts := e.of.Facts; facts.Deleting {
		since := facts.DeletingSince
		return fmt.Sprintf("is being deleted, since %s, %s", console.Instant(since, zone), console.Relative(since, e.now))
	}
	if e.withAnother() {
		return e.cascadeText("is")
	}
	if run := e.cleanedFirst(); run != nil {
		return e.cleanupSummary(run)
	}
	for _, entry := range e.entries {
		if judging.Stops(entry.Trigger) {
			continue
		}
		if entry.Native != nil {
			return e.nativeSummary(&entry)
		}
		by := byTrigger(entry.Trigger)
		switch entry.Trigger {
		case policy.TriggerTTL:
			by = "by " + ownTTL(entry.Source, "its") + " TTL of " + entry.Value.String() + fromSource(entry.Source)
		case policy.TriggerLabel:
			by = fmt.Sprintf("by its label %s=%s", e.of.LabelKey, e.of.Facts.Labels[e.of.LabelKey]) + fromSource(entry.Source) + e.sooner()
		}
		switch {
		case entry.Expiry.IsZero() && entry.ByOutcome && entry.Value.Never:
			return "expires after it has finished, or stays: that depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.ByOutcome:
			return "expires after it has finished; how long after depends on how it ends, see below"
		case entry.Expiry.IsZero() && entry.Value.Never:
			return e.stays() + ownTTL(entry.Source, "its") + " TTL is never" + fromSource(entry.Source)
		case entry.Expiry.IsZero():
			return fmt.Sprintf("expires %s after it has finished, by %s TTL%s", entry.Value, ownTTL(entry.Source, "the"), fromSource(entry.Source))
		}
		about := ""
		if entry.Estimated {
			about = "about "
		}
		when := about + console.Instant(entry.Expiry, zone) + ", " + console.Relative(entry.Expiry, e.now)
		if e.held() {
			due := "is"
			if !entry.Expiry.After(e.now) {
				due = "was"
			}
			return fmt.Sprintf("stays, although it %s due %s, %s: see what blocks it", due, when, by)
		}
		if entry.Expiry.Before(e.now.Add(-time.Second)) {
			return fmt.Sprintf("was due %s, %s, and is still there", when, by)
		}
		return fmt.Sprintf("expires %s, %s", when, by)
	}
	if e.kept() {
		return "stays: see what blocks it"
	}
	return e.stays() + e.whyNot()
}

// stays begins the reason why nothing deletes the object.
func (e *explained) stays() string {
	if len(e.cleanupsUnknown) > 0 {
		return "stays, as far as is known: "
	}
	return "stays: "
}

// sooner adds, for an unfinished object with a label, that its TTL may expire first; "" where it
// cannot.
func (e *explained) sooner() string {
	deletion := change.DeletionOf(&judging.Explanation{Facts: e.of.Facts, Effective: e.of.Effective, ByTTL: e.of.ByTTL})
	switch {
	case e.of.Facts.Finished || deletion.After == nil || deletion.After.Never && deletion.AfterFailure == nil:
		return ""
	case deletion.AfterFailure != nil:
		return ", or sooner where it finishes: how long after depends on how it ends, see below"
	default:
		return ", or " + deletion.After.String() + " after it has finished, whichever is sooner"
	}
}

// whyNot says why nothing deletes the object.
func (e *explained) whyNot() string {
	if !e.of.Facts.Profile.Finishable() {
		return "it has no TTL label, and " + e.of.ByTTL.Reason
	}
	if e.of.Effective.LeftToKubernetes(e.of.Facts) {
		return "its " + e.of.Effective.Succeeded.Path + " is left to Kubernetes (--leave-native-ttl)"
	}
	for _, step := range e.of.TTL {
		if step.Decides && step.Why != "" {
			return "no TTL, as " + step.Source.String() + " decides: " + step.Why
		}
	}
	return "no level gives it a TTL, and it has no TTL label"
}

// held reports whether something blocks the deletion that is due. An unusable value only blocks its
// own trigger.
func (e *explained) held() bool {
	return slices.ContainsFunc(e.obstacles, func(o judging.Obstacle) bool { return o.Stops && o.Kind != judging.ObstacleValue })
}

// kept reports whether the object itself blocks its deletion, and not only what the controller may
// do.
func (e *explained) kept() bool {
	controllers := []judging.ObstacleKind{
		judging.ObstaclePermission, judging.ObstacleController, judging.ObstacleDryRun, judging.ObstacleOff,
		judging.ObstacleBreaker, judging.ObstaclePause, judging.ObstacleRefused, judging.ObstacleConflict,
	}
	return slices.ContainsFunc(e.obstacles, func(o judging.Obstacle) bool { return o.Stops && !slices.Contains(controllers, o.Kind) })
}

func (e *explained) blocked() bool {
	return slices.ContainsFunc(e.obstacles, func(o judging.Obstacle) bool { return o.Stops })
}

// ownTTL and fromSource are written around the word TTL: its own TTL, the TTL from namespace "ci".
func ownTTL(source lifetime.Source, otherwise string) string {
	if source.Level == lifetime.LevelObject {
		return "its own"
	}
	return otherwise
}

func fromSource(source lifetime.Source) string {
	if source.Level == lifetime.LevelObject {
		return ""
	}
	return " from " + source.Phrase()
}

// deadline says when the object is stopped, and by whom; "" for never.
func (e *explained) deadline() string {
	for _, entry := range e.entries {
		if judging.Stops(entry.Trigger) {
			return fmt.Sprintf("%s, %s; %s", console.Instant(entry.Expiry, e.now.Location()), console.Relative(entry.Expiry, e.now), e.enforcer)
		}
	}
	return ""
}
