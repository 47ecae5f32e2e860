package main

import (
	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
)

func expireNowCommand(env environment) *cobra.Command {
	options := newChanging(env, "expires now")
	options.plan, options.atOnce = change.ExpireNow, true
	command := &cobra.Command{
		Use:   "expire-now " + changingUse,
		Short: "Have Curfew delete objects now",
		Long: `Have Curfew delete objects now, by a TTL label that expires at once. Unlike
kubectl delete, Curfew performs the deletion, with its preconditions, rate
limit, log and protection. An object whose deletion is blocked is not changed.

It asks for confirmation before it deletes more than one object, a Namespace or
another cluster-scoped object, or an object that owns more than 10 others.`,
		Example: `  # Delete this Job now
  kubectl curfew expire-now job/build -n ci

  # Delete all finished Pods of a demo, after a preview
  kubectl curfew expire-now pods -l app=demo --dry-run=server
  kubectl curfew expire-now pods -l app=demo`,
		RunE:              options.run,
		ValidArgsFunction: options.completeObjects(),
	}
	options.addFlags(command)
	return command
}
