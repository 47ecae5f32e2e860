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
		Short: "Have Curfew delete objects at once",
		Long: `Have Curfew delete objects at once, by a TTL label that names this moment.
Unlike kubectl delete, Curfew performs the deletion: with its preconditions,
its rate limit, its log and its protection. An object that is protected, or
would stay for another reason, is refused.`,
		Example: `  # This Job, now
  kubectl curfew expire-now job/build -n ci

  # All finished Pods of a demo, after a look at them
  kubectl curfew expire-now pods -l app=demo --dry-run=server
  kubectl curfew expire-now pods -l app=demo`,
		RunE:              options.run,
		ValidArgsFunction: options.completeObjects(),
	}
	options.addFlags(command)
	return command
}
