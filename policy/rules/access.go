package rules

import (
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

// SetsLifetime is the first setting by which the request itself gives the object a TTL, new or changed, or nil. What a
// default filled in was set by whoever wrote the default.
func SetsLifetime(request *Request) *policy.Setting {
	request.attest()
	facts := request.Facts
	if facts.Deleting {
		return nil
	}
	var before []*policy.Setting
	if request.Operation == Update && request.OldFacts != nil {
		before = lifetimes(request.OldFacts, request.Options)
	} else {
		before = filledIn(request)
	}
	for _, setting := range lifetimes(facts, request.Options) {
		if setting.Err == nil && !setting.TTL.Never && !contains(before, setting) {
			return setting
		}
	}
	return uncovered(request)
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
