package session

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// connectionFlag marks flags that kubectl curfew options prints, in place of every command.
const connectionFlag = "connection"

// own are flags of the connection that people use all the time.
var own = map[string]bool{"namespace": true}

// OptionsCommand prints the flags that kubectl has as well, like kubectl options.
func OptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "Print the flags that choose the cluster and the user",
		Long: `Print the flags of all commands that ask a cluster. Those that choose the
cluster and the user are the same as those of kubectl.`,
		Example: `  # All flags that such a command takes beside its own
  kubectl curfew options`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			NewConnection(console.Environment{}).Add(flags)
			_, err := fmt.Fprint(cmd.OutOrStdout(), "These flags can be passed to any command that asks a cluster:\n\n", flags.FlagUsages())
			return err
		},
	}
}

// UsageWithout prints the help of a command without the flags of the connection.
func UsageWithout(usage func(*cobra.Command) error) func(*cobra.Command) error {
	return func(command *cobra.Command) error {
		var hidden []*pflag.Flag
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Annotations[connectionFlag] != nil && !own[flag.Name] && !flag.Hidden {
				flag.Hidden = true
				hidden = append(hidden, flag)
			}
		})
		err := usage(command)
		for _, flag := range hidden {
			flag.Hidden = false // Shells complete it.
		}
		if err == nil && len(hidden) > 0 {
			fmt.Fprintln(command.OutOrStderr(), "\nUse \"kubectl curfew options\" for the flags that choose the cluster and the user.")
		}
		return err
	}
}
