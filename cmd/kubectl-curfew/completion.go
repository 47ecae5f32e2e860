package main

import (
	_ "embed"
	"fmt"
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
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, root := cmd.OutOrStdout(), cmd.Root()
			switch shell := strings.Join(args, " "); shell {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			case "zsh":
				return root.GenZshCompletion(out)
			case "kubectl":
				_, err := fmt.Fprint(out, kubectlCompletion)
				return err
			default:
				return fmt.Errorf("%q is not a known shell: give one of %s", shell, strings.Join(shells, ", "))
			}
		},
	}
}
