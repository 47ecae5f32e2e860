package rules

import (
	"cmp"
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Lifetime is a setting by which a request makes Curfew delete objects.
type Lifetime struct {
	*lifetime.Setting
	// Of is the profile of the objects that are deleted, if they are others than that of the
	// request: those that use a runtime.
	Of *policy.Profile
	// does is the effect of the setting, as messages write it.
	does string
	// Also is a setting of the same request for objects of another kind, or nil.
	Also *Lifetime
}

// SetsLifetime is the first setting by which the request itself gives objects a TTL, new or
// changed, or makes Curfew delete one that is due; nil where there is none. Defaults count as set
// by their author. A request may do both to the object itself and to others: Also has the second.
func SetsLifetime(request *Request) *Lifetime {
	request.attest()
	if request.Facts.Deleting {
		return nil
	}
	own, others := ownLifetime(request), lifetimeOfOthers(request)
	if own == nil {
		return others
	}
	own.Also = others
	return own
}

// lifetimeOfOthers is the setting for the Pods of a Job, or for the objects that use a runtime.
func lifetimeOfOthers(request *Request) *Lifetime {
	facts := request.Facts
	if setting := podTTLChanged(request); setting != nil {
		return &Lifetime{Setting: setting, Of: policy.PodProfile, does: "sets when each finished Pod of this Job is deleted"}
	}
	if setting := runtimeChanged(request); setting != nil {
		return &Lifetime{Setting: setting, Of: facts.Profile.UsedBy,
			does: fmt.Sprintf("sets when each %s that uses this %s is deleted", facts.Profile.RuntimeOf, facts.Profile.Kind.Kind)}
	}
	return nil
}

func ownLifetime(request *Request) *Lifetime {
	facts := request.Facts
	kind := facts.Profile.Kind.Kind
	sets := func(setting *lifetime.Setting) *Lifetime {
		return &Lifetime{Setting: setting, does: "sets when this " + kind + " is deleted"}
	}
	var before []*lifetime.Setting
	if request.Operation == Update && request.OldFacts != nil {
		before = lifetimes(request.OldFacts, request.Options)
	} else {
		before = filledIn(request)
	}
	for _, setting := range lifetimes(facts, request.Options) {
		same := func(s *lifetime.Setting) bool { return s.Path == setting.Path && s.Text == setting.Text }
		if setting.Ends() && !slices.ContainsFunc(before, same) {
			return sets(setting)
		}
	}
	if setting := cmp.Or(uncovered(request), finishedAt(request), turnedBack(request)); setting != nil {
		return sets(setting)
	}
	if setting := unprotected(request); setting != nil {
		return &Lifetime{Setting: setting, does: "without it Curfew deletes this " + kind + " when it is due"}
	}
	return nil
}

// podTTLChanged is a TTL that the request sets for the finished Pods of a Job. Removing it may
// uncover the namespace's, whose author was asked.
func podTTLChanged(request *Request) *lifetime.Setting {
	setting := request.Facts.PodTTL()
	if !setting.Ends() {
		return nil
	}
	if request.OldFacts != nil {
		if before := request.OldFacts.PodTTL(); before != nil && before.Text == setting.Text {
			return nil
		}
	}
	return setting
}

// uncovered is a setting that was there before and now decides for an outcome, because the request
// removes another one; nil where there is none. If a default decides now, as after the stamp was
// removed with the value, it is the one that the request removes.
func uncovered(request *Request) *lifetime.Setting {
	if request.Operation != Update || request.OldFacts == nil || !request.Facts.Profile.Finishable() {
		return nil
	}
	before, after := request.OldFacts.TTLs(), request.Facts.TTLs()
	for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
		was, is := before.For(outcome), after.For(outcome)
		if was != nil && is.Ends() && was.Path != is.Path {
			return is
		}
		if was == nil || is != nil || request.Effective == nil {
			continue
		}
		value := request.Effective.TTL(outcome)
		if value.Source.IsDefault() && value.Set && value.Err == nil && !value.TTL.Never && (was.Err != nil || value.TTL != was.TTL) {
			return was
		}
	}
	return nil
}

// finishedAt is the finish time that the request writes instead of Curfew: a TTL counts from it.
// Removing it is allowed, since Curfew then writes a later one.
func finishedAt(request *Request) *lifetime.Setting {
	text, ok := request.Facts.Annotations[wellknown.AnnotationFinishedAt]
	if !ok || !request.Facts.Profile.Finishable() || request.byController() {
		return nil
	}
	if request.OldFacts != nil && request.OldFacts.Annotations[wellknown.AnnotationFinishedAt] == text {
		return nil
	}
	return settingOf(request.Facts, wellknown.AnnotationFinishedAt)
}

// turnedBack is the refresh that the request removes or moves back, so that the TTL label expires
// sooner.
func turnedBack(request *Request) *lifetime.Setting {
	key, text, ok := request.Options.ttlLabel(request.Facts)
	label, err := lifetime.ParseLabel(key, text)
	if !ok || err != nil || !label.At.IsZero() || request.OldFacts == nil {
		return nil
	}
	before, unreadable := request.OldFacts.LabelClock()
	if after, err := request.Facts.LabelClock(); err != nil || unreadable == nil && !after.Before(before) {
		return nil
	}
	return settingOf(request.OldFacts, wellknown.AnnotationRefreshedAt)
}

// unprotected is the protection that the request removes from an object that is due, or will be on
// a known date. Otherwise a user without permission to delete the object could choose the time.
func unprotected(request *Request) *lifetime.Setting {
	if request.OldFacts == nil || !request.OldFacts.Protected() || request.Facts.Protected() {
		return nil
	}
	key, _, _ := request.Options.ttlLabel(request.Facts)
	verdicts := []policy.Verdict{judging.JudgeLabel(request.Facts, key, request.Scope, request.Now)}
	if request.Effective != nil {
		verdicts = append(verdicts, judging.Judge(request.Facts, request.Effective, request.Now))
	}
	for _, verdict := range verdicts {
		switch verdict.Action {
		case policy.Wait, policy.Delete, policy.RecordFinish:
			return settingOf(request.OldFacts, wellknown.AnnotationProtect)
		}
	}
	return nil
}

// runtimeChanged is a TTL of a runtime that the request sets, changes or removes for some outcome,
// or the backfill that it sets, so that the objects that use it expire at another time. A change to
// never is allowed.
func runtimeChanged(request *Request) *lifetime.Setting {
	if request.Facts.Profile.RuntimeOf == "" {
		return nil
	}
	var before lifetime.TTLSet
	if request.OldFacts != nil {
		before = request.OldFacts.TTLs()
	}
	after := request.Facts.TTLs()
	for _, outcome := range []lifetime.Outcome{lifetime.Succeeded, lifetime.Failed} {
		was, is := before.For(outcome), after.For(outcome)
		switch {
		case is != nil && !is.Ends():
		case was.Readable() && is != nil && was.TTL == is.TTL:
		case was != nil || is != nil:
			return cmp.Or(is, was)
		}
	}
	if Backfills(request) {
		return settingOf(request.Facts, wellknown.AnnotationBackfill)
	}
	return nil
}

func settingOf(facts *policy.Facts, key string) *lifetime.Setting {
	return &lifetime.Setting{Path: policy.AnnotationPath(key), Text: facts.Annotations[key]}
}

// filledIn are the settings that defaults wrote. TTL and label can have different authors.
func filledIn(request *Request) []*lifetime.Setting {
	var out []*lifetime.Setting
	if filledInBy(request.Facts).Level != lifetime.LevelObject {
		out = request.Facts.TTLs().Settings()
	}
	if request.Scope != nil {
		if label := resolution.DefaultedLabel(request.Facts, request.Scope, request.Now); label != nil {
			out = append(out, &lifetime.Setting{Path: policy.LabelPath(wellknown.LabelTTL), Text: label.Value})
		}
	}
	return out
}

// lifetimes are the settings by which the object expires. A TTL after finished has no effect on a
// kind that never finishes, nor has an unreadable label.
func lifetimes(facts *policy.Facts, options Options) []*lifetime.Setting {
	var out []*lifetime.Setting
	if facts.Profile.Finishable() {
		out = facts.TTLs().Settings()
	}
	key, text, ok := options.ttlLabel(facts)
	if _, err := lifetime.ParseLabel(key, text); ok && err == nil {
		out = append(out, &lifetime.Setting{Path: policy.LabelPath(key), Text: text})
	}
	return out
}
