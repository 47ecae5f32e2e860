package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/policy"
)

// offlineFlags are settings of the webhook, which --server leaves to that.
var offlineFlags = []string{"warn-below", "strict-labels", "expired-labels", "kyverno-label", "native-ttl"}

func (o *lintOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace, names.ClusterOverrideFlags.APIServer = clientcmd.FlagInfo{}, clientcmd.FlagInfo{} // -n is lint's own, and --server no address.
	o.bind(flags, names)
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or directory with manifests, or - for standard input; may be given more than once")
	flags.BoolVarP(&o.recursive, "recursive", "R", false, "read the directories below as well")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of manifests that name none; without it default, with --server that of the context")
	flags.StringArrayVar(&o.ignored, "ignore", nil, "pattern of files to leave out in directories, as in .gitignore, such as charts/ or values-*.yaml; may be given more than once")
	flags.BoolVar(&o.server, "server", false, "ask the API server, by a server-side dry run, instead of judging by the manifests alone")
	o.output.addFlags(command)
	flags.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "exit with 1 on warnings, too")
	flags.StringVar(&o.warnBelow, "warn-below", o.warnBelow, "TTLs under this are warned about, as with the webhook's flag")
	flags.BoolVar(&o.strictLabels, "strict-labels", false, "deny a TTL label that cannot be read, as with the webhook's flag")
	flags.StringVar(&o.expiredLabels, "expired-labels", o.expiredLabels, "deny, or warn about, a TTL label that is expired when it is set, as with the webhook's flag")
	flags.BoolVar(&o.kyvernoLabel, "kyverno-label", false, "check label cleanup.kyverno.io/ttl as curfew.dev/ttl, as with the webhook's flag")
	flags.StringVar(&o.nativeTTL, "native-ttl", o.nativeTTL, "on: constant default TTLs go into the native field; off: into annotations, as with the webhook's flag")
	completeFlags(command, map[string]cobra.CompletionFunc{
		"output":         cobra.FixedCompletions(o.output.formats(), cobra.ShellCompDirectiveNoFileComp),
		"native-ttl":     cobra.FixedCompletions([]string{"off", "on"}, cobra.ShellCompDirectiveNoFileComp),
		"expired-labels": cobra.FixedCompletions([]string{"deny", "warn"}, cobra.ShellCompDirectiveNoFileComp),
	})
}

// validate names every flag that cannot be used, with its value and the fix.
func (o *lintOptions) validate(flags *pflag.FlagSet) (printFunc, error) {
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("-f is missing: give a file, a directory, or - for standard input"))
	}
	for _, name := range offlineFlags {
		if o.server && flags.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s: with --server the webhook's own setting applies: leave it out", name))
		}
	}
	if problems := validation.IsDNS1123Label(o.namespace); o.namespace != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace=%s: %s", o.namespace, strings.Join(problems, "; ")))
	}
	print, err := o.output.printer()
	if err != nil {
		errs = append(errs, err)
	}
	if _, err := policy.ParseDuration(o.warnBelow); err != nil {
		errs = append(errs, fmt.Errorf("--warn-below=%s: %w", o.warnBelow, err))
	}
	if o.nativeTTL != "on" && o.nativeTTL != "off" {
		errs = append(errs, fmt.Errorf("--native-ttl=%s: give on or off", o.nativeTTL))
	}
	if o.expiredLabels != "deny" && o.expiredLabels != "warn" {
		errs = append(errs, fmt.Errorf("--expired-labels=%s: give deny or warn", o.expiredLabels))
	}
	return print, errors.Join(errs...)
}
