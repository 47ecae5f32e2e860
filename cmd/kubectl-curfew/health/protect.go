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
	protect := slices.DeleteFunc(slices.Clone(c.Protect), func(name string) bool { return name == c.Namespace })
	var out []string
	if workload, err := r.w.Workload(r.ctx, "curfew-webhook"); err == nil && workload.Presence == world.Found {
		theirs := protectIn(workload.Args)
		if slices.Sort(theirs); !slices.Equal(theirs, slices.Sorted(slices.Values(protect))) {
			out = append(out, fmt.Sprintf("the webhook runs with --protect=%s, the controller with --protect=%s", strings.Join(theirs, ","), strings.Join(protect, ",")))
		}
	}
	asks := policy.ProtectedRequest(protect)
	want := admissionv1.MatchCondition{Name: unprotected, Expression: "!(" + asks + ")"}
	refusing := 0
	for _, one := range r.configurations {
		for i := range one.webhooks {
			of := &one.webhooks[i]
			if one.name == static && of.FailurePolicy != nil && *of.FailurePolicy == admissionv1.Fail && asks != "" && !slices.Contains(of.MatchConditions, want) {
				refusing++
			}
		}
	}
	if refusing > 0 {
		out = append(out, fmt.Sprintf("an outage refuses requests in namespaces of --protect: %d webhooks of ValidatingWebhookConfiguration %s have no match condition %s: %s", refusing, static, want.Name, want.Expression))
	}
	return strings.Join(out, "; ")
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
