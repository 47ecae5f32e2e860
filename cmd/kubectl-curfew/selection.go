package main

import (
	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// addSelection adds the flags that say which objects are meant, beside the arguments.
func addSelection(flags *pflag.FlagSet, selection *world.Selection) {
	flags.BoolVarP(&selection.Everywhere, "all-namespaces", "A", false, "all namespaces; only with -l or --all")
	flags.StringVarP(&selection.Selector, "selector", "l", "", "labels of the objects, such as app=web")
	flags.BoolVar(&selection.All, "all", false, "all objects of the kind")
}
