package main

import (
	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/policy"
)

func keepCommand(env environment) *cobra.Command {
	options := newChanging(env, "kept")
	options.cleanups = cleanups{}
	options.plan = func(subject *change.Subject, _ []policy.Obstacle) (*change.Plan, error) {
		return change.Keep(subject)
	}
	command := &cobra.Command{
		Use:   "keep " + changingUse,
		Short: "Keep objects: remove their expiry",
		Long: `Keep objects. This removes the TTL label and sets the TTL after finished to
never: in the annotation, and by removing the kind's own field, which the kind's
own controller reads. An object that bounds do not allow to stay is not changed.
Where a training runtime decides the TTL, the object is protected instead. One
that the next run of a cleanup policy may delete is protected as well. The
deadline stays as it is.`,
		Example: `  # Keep this Job for good
  kubectl curfew keep job/build -n ci

  # Keep all ConfigMaps of a demo
  kubectl curfew keep configmaps -l app=demo`,
		RunE:              options.run,
		ValidArgsFunction: options.completeObjects(),
	}
	options.addFlags(command)
	return command
}
