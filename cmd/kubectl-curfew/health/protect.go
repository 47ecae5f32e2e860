package health

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

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
			out = append(out, fmt.Sprintf("the webhook runs with --protect=%s, the controller with --protect=%s", strings.Join(theirs, ","), strings.Join(protect, ",")))
		}
	}
	asks := policy.ProtectedRequest(protect)
	want := admissionv1.MatchCondition{Name: unprotected, Expression: "!(" + asks + ")"}
	refusing := 0
	for _, one := range r.configurations {
		for i := range one.webhooks {
			of := &one.webhooks[i]
			if one.name == static && of.FailurePolicy != nil && *of.FailurePolicy == admissionv1.Fail && asks != "" && !slices.ContainsFunc(of.MatchConditions, func(have admissionv1.MatchCondition) bool {
				return have.Name == want.Name && slices.Equal(wordsIn(have.Expression, c.Namespace), wordsIn(want.Expression, c.Namespace))
			}) {
				refusing++
			}
		}
	}
	if refusing > 0 {
		out = append(out, fmt.Sprintf("an outage refuses requests in namespaces of --protect: %d webhooks of ValidatingWebhookConfiguration %s have no match condition %s: %s", refusing, static, want.Name, want.Expression))
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
		return policy.DefaultProtect()
	}
	return out
}
