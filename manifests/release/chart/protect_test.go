package chart

import (
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/judging"
)

// TestProtect: the value protect reaches --protect of both programs and, with failClosed, the
// condition that keeps an outage from refusing requests in these namespaces.
func TestProtect(t *testing.T) {
	for name, protect := range map[string][]string{
		"shipped":            judging.DefaultProtect(),
		"a name":             {"infra"},
		"a pattern":          {"openshift-*"},
		"names and patterns": {"kube-system", "openshift-*", "infra", "*-x"},
		"nothing":            {},
	} {
		t.Run(name, func(t *testing.T) {
			value := []any{}
			for _, pattern := range protect {
				value = append(value, pattern)
			}
			objects, notes := render(t, namespace, values{"failClosed": true, "protect": value, "args": []any{"--dry-run"}})
			for _, part := range []string{"webhook", "controller"} {
				flag := "--protect=" + strings.Join(protect, ",")
				if has := strings.Contains(show(objects["deployment-curfew-"+part]), `"`+flag+`","--dry-run"`); has == (name == "shipped") {
					t.Errorf("%s has %s: %t", part, flag, has)
				}
			}
			want := "!(" + judging.ProtectedRequest(protect) + ")"
			if len(protect) == 0 {
				want = "!(false)"
			}
			webhooks := objects["validatingwebhookconfiguration-curfew"]["webhooks"].([]any)
			for _, webhook := range webhooks {
				conditions := webhook.(object)["matchConditions"].([]any)
				if last := conditions[len(conditions)-1].(object); last["name"] != "not-protected" || last["expression"] != want {
					t.Errorf("%s: condition %v, want %s", webhook.(object)["name"], last, want)
				}
			}
			if list := strings.Join(slices.Concat([]string{namespace}, protect), ", "); len(webhooks) < 8 || !strings.Contains(notes, "except in "+list+".") {
				t.Errorf("%d webhooks, and NOTES.txt does not name %s:\n%s", len(webhooks), list, notes)
			}
		})
	}
}
