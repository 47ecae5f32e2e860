package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// kubectlCompletion is the script that kubectl runs to complete `kubectl curfew`.
//
//go:embed kubectl_complete-curfew
var kubectlCompletion string

// shells are the shells that cobra supports, and kubectl, which completes plugins by a script on
// the PATH.
var shells = []string{"bash", "fish", "kubectl", "powershell", "zsh"}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion (bash | fish | kubectl | powershell | zsh)",
		Short: "Print a script that completes command lines",
		Long: `Print a script that completes command lines: commands, flags, kinds, names,
namespaces and contexts.

Once kubectl's own completion is set up (kubectl completion --help), it
completes plugins with a program on the PATH, here kubectl_complete-curfew. The
argument "kubectl" prints that program. The other arguments are for calling
kubectl-curfew by its own name.`,
		Example: `  # For kubectl curfew, into any folder of the PATH
  kubectl curfew completion kubectl > ./kubectl_complete-curfew
  chmod +x ./kubectl_complete-curfew

  # For kubectl-curfew, in this bash
  source <(kubectl curfew completion bash)`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return fmt.Errorf("%q is not a known shell: give one of %s", strings.Join(args, " "), strings.Join(shells, ", "))
			}
			return nil
		},
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, root := cmd.OutOrStdout(), cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			case "zsh":
				return root.GenZshCompletion(out)
			default:
				_, err := fmt.Fprint(out, kubectlCompletion)
				return err
			}
		},
	}
}
