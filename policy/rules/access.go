package rules

import (
	"cmp"
	"fmt"

	"curfew.dev/curfew/policy"
)

// Answer is what an access review came to.
type Answer uint8

// The answers. Unknown is the zero value: nobody asked, or there was no answer.
const (
	Unknown Answer = iota
	Yes
	No
)

// Access is what access reviews said about deleting the object. Rules know no client: the edge asks, where [SetsLifetime]
// says that it matters.
type Access struct {
	// User is whether the one who makes the request may delete the object.
	User Answer
	// Controller is whether Curfew's controller may.
	Controller Answer
}

// Lifetime is a setting by which a request has objects deleted.
type Lifetime struct {
	*policy.Setting
	// Of is the profile of the objects that are deleted where that is not the object of the request: what uses a runtime.
	Of *policy.Profile
	// does is what the setting does, as messages write it.
	does string
}

// SetsLifetime is the first setting by which the request itself gives objects a TTL, new or changed, or makes Curfew delete one
// that is due; nil where there is none. What a default filled in was set by whoever wrote the default.
func SetsLifetime(request *Request) *Lifetime {
	request.attest()
	facts := request.Facts
	if facts.Deleting {
		return nil
	}
	kind := facts.Profile.Kind.Kind
	sets := func(setting *policy.Setting) *Lifetime {
		return &Lifetime{Setting: setting, does: "sets when this " + kind + " is deleted"}
	}
	var before []*policy.Setting
	if request.Operation == Update && request.OldFacts != nil {
		before = lifetimes(request.OldFacts, request.Options)
	} else {
		before = filledIn(request)
	}
	for _, setting := range lifetimes(facts, request.Options) {
		if setting.Err == nil && !setting.TTL.Never && !contains(before, setting) {
			return sets(setting)
		}
	}
	if setting := uncovered(request); setting != nil {
		return sets(setting)
	}
	if setting := finishedAt(request); setting != nil {
		return sets(setting)
	}
	if setting := unprotected(request); setting != nil {
		return &Lifetime{Setting: setting, does: "without it Curfew deletes this " + kind + " when it is due"}
	}
	if setting := runtimeChanged(request); setting != nil {
		return &Lifetime{Setting: setting, Of: facts.Profile.UsedBy, does: fmt.Sprintf("sets when each %s that uses this %s is deleted", facts.Profile.RuntimeOf, kind)}
	}
	return nil
}

// uncovered is a setting that stood there and begins to decide for an outcome, because the request takes away what came before it: a TTL is
// set by that, too. Nil where there is none.
func uncovered(request *Request) *policy.Setting {
	if request.Operation != Update || request.OldFacts == nil || !request.Facts.Profile.Finishable() {
		return nil
	}
	before, after := request.OldFacts.TTLs(), request.Facts.TTLs()
	for _, outcome := range []policy.Outcome{policy.Succeeded, policy.Failed} {
		was, is := before.For(outcome), after.For(outcome)
		if was != nil && is != nil && was.Path != is.Path && is.Err == nil && !is.TTL.Never {
			return is
		}
	}
	return nil
}

// finishedAt is the finish time that the request writes in the place of Curfew: a TTL counts from it. Removing it is allowed, since
// Curfew then writes a later one.
func finishedAt(request *Request) *policy.Setting {
	text, ok := request.Facts.Annotations[policy.AnnotationFinishedAt]
	if !ok || !request.Facts.Profile.Finishable() || request.Options.ControllerUser != "" && request.User.Name == request.Options.ControllerUser {
		return nil
	}
	if request.OldFacts != nil && request.OldFacts.Annotations[policy.AnnotationFinishedAt] == text {
		return nil
	}
	return &policy.Setting{Path: policy.AnnotationPath(policy.AnnotationFinishedAt), Text: text}
}

// unprotected is the protection that the request takes from an object that is due, or will be on a date that is known: whoever may
// not delete it could otherwise choose the time.
func unprotected(request *Request) *policy.Setting {
	if request.OldFacts == nil || !request.OldFacts.Protected() || request.Facts.Protected() {
		return nil
	}
	key, _, _ := request.Options.ttlLabel(request.Facts)
	verdicts := []policy.Verdict{policy.JudgeLabel(request.Facts, key, request.Scope, request.Now)}
	if request.Effective != nil {
		verdicts = append(verdicts, policy.Judge(request.Facts, request.Effective, request.Now))
	}
	for _, verdict := range verdicts {
		switch verdict.Action {
		case policy.Wait, policy.Delete, policy.RecordFinish:
			return &policy.Setting{Path: policy.AnnotationPath(policy.AnnotationProtect), Text: request.OldFacts.Annotations[policy.AnnotationProtect]}
		}
	}
	return nil
}

// runtimeChanged is a TTL of a runtime that the request sets, changes or removes for some outcome, so that what uses it is deleted at another
// time. One that only lengthens it to never is no matter.
func runtimeChanged(request *Request) *policy.Setting {
	if request.Facts.Profile.RuntimeOf == "" {
		return nil
	}
	var before policy.TTLSet
	if request.OldFacts != nil {
		before = request.OldFacts.TTLs()
	}
	after := request.Facts.TTLs()
	for _, outcome := range []policy.Outcome{policy.Succeeded, policy.Failed} {
		was, is := before.For(outcome), after.For(outcome)
		switch {
		case is != nil && (is.Err != nil || is.TTL.Never):
		case was != nil && is != nil && was.Err == nil && was.TTL == is.TTL:
		case was != nil || is != nil:
			return cmp.Or(is, was)
		}
	}
	return nil
}

// filledIn is what defaults wrote: TTL and label each have an author of their own.
func filledIn(request *Request) []*policy.Setting {
	var out []*policy.Setting
	if filledInBy(request.Facts).Level != policy.LevelObject {
		out = request.Facts.TTLs().Settings()
	}
	if request.Scope != nil {
		if label := policy.DefaultedLabel(request.Facts, request.Scope, request.Now); label != nil {
			out = append(out, &policy.Setting{Path: policy.LabelPath(policy.LabelTTL), Text: label.Value})
		}
	}
	return out
}

// lifetimes are the settings by which the object goes. A TTL after finished is none on a kind that never finishes, a runtime
// included, nor is a label that cannot be read.
func lifetimes(facts *policy.Facts, options Options) []*policy.Setting {
	var out []*policy.Setting
	if facts.Profile.Finishable() {
		out = facts.TTLs().Settings()
	}
	key, text, ok := options.ttlLabel(facts)
	if _, err := policy.ParseLabel(key, text); ok && err == nil {
		out = append(out, &policy.Setting{Path: policy.LabelPath(key), Text: text})
	}
	return out
}

func contains(settings []*policy.Setting, one *policy.Setting) bool {
	for _, setting := range settings {
		if setting.Path == one.Path && setting.Text == one.Text {
			return true
		}
	}
	return false
}
