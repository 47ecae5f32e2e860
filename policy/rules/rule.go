package rules

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rule is one check of admission. Check finds faults in a subject as it stands; Transition, for the
// few rules about a change, finds faults in an UPDATE; Review, for rules about the user, finds
// faults in the request. Functions that a rule does not need are nil.
type Rule struct {
	Name string
	// Fields are the fields that the rule finds fault with. A test in package manifests checks that
	// the match conditions send every object with such a fault to the webhook.
	Fields []string
	// InUse are fields that alone do not cause a request to be sent. The rule finds fault with them
	// where the namespace or a policy uses Curfew.
	InUse []string
	// Beside are fields that never cause a request to be sent. The rule finds fault with them on
	// requests that are sent for another reason.
	Beside     []string
	Check      func(*Subject)
	Transition func(*Request)
	Review     func(*Request)
}

// report collects the findings of rules, one rule after the other.
type report struct {
	rule  string
	found []Finding
}

// add returns the finding, so that callers set its other fields.
func (r *report) add(severity Severity, field, value, message string) *Finding {
	r.found = append(r.found, Finding{Rule: r.rule, Field: field, Value: value, Severity: severity, Message: message})
	return &r.found[len(r.found)-1]
}

func (r *report) deny(field, value, message string) *Finding {
	return r.add(Deny, field, value, message)
}

func (r *report) warn(field, value, message string) *Finding {
	return r.add(Warn, field, value, message)
}

// check returns the findings about the subjects. A field can be reached from the object and from a
// template inside it; its finding is returned once.
func (r *Request) check(rules []Rule, subjects []*Subject) []Finding {
	r.report = report{}
	for _, rule := range rules {
		for _, subject := range subjects {
			if r.rule = rule.Name; rule.Check != nil {
				rule.Check(subject)
			}
		}
	}
	reported := map[identity]bool{} // An object can have tens of thousands of templates (S9).
	return slices.DeleteFunc(r.found, func(finding Finding) bool {
		id := identityOf(&finding)
		again := reported[id]
		reported[id] = true
		return again
	})
}

// identity decides whether two findings are the same. It leaves out the message, which may quote
// the object's context, and the request does not change that.
type identity struct {
	rule, field, value string
	severity           Severity
}

func identityOf(finding *Finding) identity {
	return identity{finding.Rule, finding.Field, finding.Value, finding.Severity}
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// anywhere is the identity of a finding regardless of its place in a list.
func anywhere(finding *Finding) identity {
	out := identityOf(finding)
	out.field = index.ReplaceAllString(out.field, "[]")
	return out
}

// added are the findings that a request adds. Each finding on the old object cancels one: first one
// of the same field, then one at another place of a list, since items move when an earlier one is
// removed.
func added(findings, stood []Finding) []Finding {
	for _, identify := range []func(*Finding) identity{identityOf, anywhere} {
		left := map[identity]int{}
		for i := range stood {
			left[identify(&stood[i])]++
		}
		paired := map[identity]int{}
		findings = slices.DeleteFunc(findings, func(finding Finding) bool {
			id := identify(&finding)
			if left[id] == 0 {
				return false
			}
			left[id]--
			paired[id]++
			return true
		})
		stood = slices.DeleteFunc(slices.Clone(stood), func(old Finding) bool {
			id := identify(&old)
			paired[id]--
			return paired[id] >= 0
		})
	}
	return findings
}

// compiling treats the message as part of the value, since one field may be wrong in several ways.
func compiling(errs field.ErrorList) []Finding {
	out := report{rule: PolicyCompiles}
	for _, err := range errs {
		out.deny(err.Field, fmt.Sprint(err.BadValue)+" "+err.Detail, err.Detail)
	}
	return out.found
}

// Names of the rules about Curfew's own objects. Those about TTLs and labels have the same names as
// on other objects.
const (
	PolicyCompiles = "policy-compiles"
	PolicyBounds   = "policy-bounds"
	PolicyDryRun   = "policy-dry-run"
)
