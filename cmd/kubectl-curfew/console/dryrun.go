package console

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
)

// DryRun is flag --dry-run, as kubectl has it.
type DryRun string

// DryRuns are the values of --dry-run.
var DryRuns = []string{"client", "none", "server"}

// Add adds the flag.
func (d *DryRun) Add(flags *pflag.FlagSet) {
	flags.StringVar((*string)(d), "dry-run", "none", "none, client (send nothing) or server (have the API server check it, and store nothing)")
	flags.Lookup("dry-run").NoOptDefVal = "client"
}

// Check rejects other values.
func (d DryRun) Check() error {
	if !slices.Contains(DryRuns, string(d)) {
		return fmt.Errorf("--dry-run=%s: give none, client or server", d)
	}
	return nil
}
