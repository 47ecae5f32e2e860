package health

import (
	"fmt"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// remedies are what to do about a stalled cleanup policy, by reason.
var remedies = map[string]string{
	v1alpha1.ReasonForbidden:          "grant its service account what condition PermissionsGranted names",
	v1alpha1.ReasonWaitingForApproval: "kubectl curfew approve it",
	v1alpha1.ReasonTooManyMatches:     "look at kubectl curfew preview, then raise its limit or match less",
	v1alpha1.ReasonTooManyGroups:      "match less, or group by a field with fewer values",
	v1alpha1.ReasonPaused:             "a pause holds it, see check pauses; it goes on afterwards",
	v1alpha1.ReasonKindNotListed:      "condition Stalled names the kind and the error; the next run tries it again",
	v1alpha1.ReasonTimeLimit:          "match less, or use cheaper expressions",
	v1alpha1.ReasonRunFailed:          "condition Stalled says what failed; Curfew tries again",
}

// cleanup shows the policies that do not delete all that they should, and what to do.
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
	for _, one := range r.report.Stalled.First {
		_, reason, _ := strings.Cut(strings.TrimSuffix(one, ")"), " (")
		remedy := remedies[reason]
		if remedy == "" {
			remedy = "condition Ready names the field to correct"
		}
		if text := reason + ": " + remedy; !slices.Contains(advice, text) {
			advice = append(advice, text)
		}
	}
	message := fmt.Sprintf("%d stalled: %s. %s", r.report.Stalled.Count, named(r.report.Stalled, ", "), strings.Join(advice, "; "))
	return r.live(Warning, message)
}
