package health

import (
	"fmt"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// controller checks that a replica leads.
func (r *reader) controller() (State, string) {
	c := &r.w.Controller
	switch c.State {
	case world.Running:
		return replicas(&c.Workload, c.Why)
	case world.Unknown:
		return Unknown, c.Why
	default:
		return Failed, c.Why
	}
}

// replicas adds those of a Deployment to a message. It is a warning where some are not ready.
func replicas(workload *world.Workload, message string) (State, string) {
	if workload.Presence != world.Found {
		return OK, message
	}
	if ready := fmt.Sprintf("%d of %d replicas are ready", workload.Ready, workload.Wanted); ready != message {
		message += "; " + ready
	}
	if workload.Ready < workload.Wanted {
		return Warning, message
	}
	return OK, message
}
