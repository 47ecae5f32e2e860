package main

import (
	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/policy"
)

func cancelCommand(env environment) *cobra.Command {
	options := newChanging(env, "cancelled")
	options.plan = func(subject *change.Subject, _ []policy.Obstacle) (*change.Plan, error) {
		return change.Cancel(subject)
	}
	command := &cobra.Command{
		Use:   "cancel " + changingUse,
		Short: "Let objects stay",
		Long: `Let objects stay: the TTL label is taken off, and the TTL after finished becomes
never, in the annotation and by taking away the kind's own field, which its own
controller reads. What bounds do not allow to stay is refused. Where a runtime
decides, the object is protected instead. A deadline is left as it is.`,
		Example: `  # Keep this Job for good
  kubectl curfew cancel job/build -n ci

  # Keep all ConfigMaps of a demo
  kubectl curfew cancel configmaps -l app=demo`,
		RunE:              options.run,
		ValidArgsFunction: options.completeObjects(),
	}
	options.addFlags(command)
	return command
}
