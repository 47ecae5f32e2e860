package health

import (
	"fmt"
	"strings"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
)

// coverage checks that the webhook configurations that the controller writes are as it reported,
// and that all parts protect the same namespaces.
func (r *reader) coverage() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	if r.report.CoverageError != "" {
		return Failed, r.report.CoverageError
	}
	total := 0
	for _, one := range r.configurations {
		total += len(one.webhooks)
		if one.name != coverage {
			continue
		}
		want, ok := r.report.Coverage[one.kind]
		switch {
		case !ok:
			return Unknown, "the controller has not reported it yet"
		case one.Presence == world.Unread:
			return Unknown, "not read"
		case settings.Fingerprint(one.webhooks) != want:
			return Failed, fmt.Sprintf("%s %s is not what the controller wrote last: requests may not be reviewed", one.kind, one.name)
		}
	}
	if message := r.protection(); message != "" {
		return Warning, message
	}
	return OK, fmt.Sprintf("%d webhooks, in step with profiles and policies", total)
}

// version compares the versions of the parts.
func (r *reader) version() (State, string) {
	ours := r.Version
	if r.w.Controller.Unknown != "" {
		return Unknown, fmt.Sprintf("kubectl-curfew %s; that of the controller is not known", ours)
	}
	theirs := r.w.Controller.Published[settings.Version]
	parts := []string{"kubectl-curfew " + ours, "controller " + theirs}
	state := OK
	if theirs != ours {
		state = Warning
	}
	if workload, err := r.w.Workload(r.ctx, "curfew-webhook"); err == nil && workload.Image != "" && r.w.Controller.Workload.Image != "" &&
		workload.Image != r.w.Controller.Workload.Image {
		state = Warning
		parts = append(parts, "image of the controller "+r.w.Controller.Workload.Image, "of the webhook "+workload.Image)
	}
	return state, strings.Join(parts, ", ")
}
