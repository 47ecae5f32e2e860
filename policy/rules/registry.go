package rules

import (
	"regexp"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
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
	Check      func(*Subject) []Finding
	Transition func(*Request) []Finding
	Review     func(*Request) []Finding
}

// All lists the rules in the order of their findings.
func All() []Rule {
	return []Rule{
		namespaceValues,
		podTemplateTTL,
		podRestartPolicy,
		forbiddenField,
		trainJobsJobSet,
		immutableDeadline,
		readableValue,
		bounds,
		nativeActsFirst,
		removedDefault,
		sourceStamp,
		noEffect,
		runtimeTTL,
		runtimeBackfill,
		deadlineTwice,
		ttlLabel,
		expiredLabel,
		ownKind,
		replacedChild,
		labelAsAnnotation,
		annotationAsLabel,
		unknownKey,
		protection,
		shortTTL,
		hookJob,
		gitOps,
		unusableDefault,
		unusableRuntime,
		userMayDelete,
		controllerMayDelete,
	}
}

// Review runs all rules on a request and returns the decision, softened where the namespace does
// not enforce.
func Review(request *Request) *Decision {
	decision := &Decision{}
	request.attest()
	if request.Facts.Deleting {
		return decision
	}
	rules := All()
	decision.Findings = checkAll(rules, request.subjects(request.Facts, request.Object))
	if request.Operation == Update && request.OldFacts != nil {
		decision.Findings = added(decision.Findings, checkAll(rules, request.subjects(request.OldFacts, request.Old)))
		for _, rule := range rules {
			if rule.Transition != nil {
				decision.Findings = append(decision.Findings, named(rule, rule.Transition(request))...)
			}
		}
	}
	for _, rule := range rules {
		if rule.Review != nil {
			decision.Findings = append(decision.Findings, named(rule, rule.Review(request))...)
		}
	}
	if request.Effective != nil {
		decision.Source = source(request)
		if request.Operation == Create {
			decision.Defaults = resolution.Defaulted(request.Facts, request.Scope, request.Now)
		}
	}
	if !isNamespace(request.Facts) {
		decision.Soften(request.Scope.Mode())
	}
	return decision
}

// source is the source of the effective TTL. On CREATE the validator sees what the mutating webhook
// filled in, with its stamp.
func source(request *Request) string {
	for _, value := range []resolution.Value{request.Effective.Succeeded, request.Effective.Failed} {
		switch {
		case !value.Set:
		case value.Source.Level == lifetime.LevelObject && request.Operation == Create:
			return filledInBy(request.Facts).String()
		default:
			return value.Source.String()
		}
	}
	return ""
}

// filledInBy is the source of the TTL of a new object: its author, unless a stamp that Curfew wrote
// names a default or a runtime.
func filledInBy(facts *policy.Facts) lifetime.Source {
	return lifetime.ParseSource(facts.Annotations[wellknown.AnnotationTTLSource])
}

func checkAll(rules []Rule, subjects []*Subject) []Finding {
	var out []Finding
	reported := map[identity]bool{} // An object can have tens of thousands of templates (S9).
	for _, rule := range rules {
		if rule.Check == nil {
			continue
		}
		for _, subject := range subjects {
			for _, finding := range named(rule, rule.Check(subject)) {
				// A field can be reached from the object and from a template inside it; it is told
				// once.
				if id := identityOf(&finding); !reported[id] {
					reported[id] = true
					out = append(out, finding)
				}
			}
		}
	}
	return out
}

func named(rule Rule, findings []Finding) []Finding {
	for i := range findings {
		findings[i].Rule = rule.Name
	}
	return findings
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

func isNamespace(facts *policy.Facts) bool {
	return facts.Profile.Kind.Group == "" && facts.Profile.Kind.Kind == "Namespace"
}
