package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/pflag"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// addSelection adds the flags that select objects beside the arguments.
func addSelection(flags *pflag.FlagSet, selection *world.Selection) {
	flags.BoolVarP(&selection.Everywhere, "all-namespaces", "A", false, "all namespaces; only with -l or --all")
	flags.StringVarP(&selection.Selector, "selector", "l", "", "label selector, such as app=web")
	flags.BoolVar(&selection.All, "all", false, "all objects of the kind")
}

// selected connects and reads the selected objects, at least one. Warnings of the API server go to
// warnings.
func (c *connection) selected(ctx context.Context, now time.Time, with overlay, selection world.Selection, progress *progress,
	warnings io.Writer) (*world.World, []world.Selected, error) {
	if err := selection.Validate(); err != nil {
		return nil, nil, err
	}
	progress.say("reading kinds, profiles and policies")
	w, err := c.open(ctx, now, with, warnings)
	if err != nil {
		return nil, nil, err
	}
	progress.say("reading the objects")
	found, err := w.Select(ctx, selection)
	if err == nil && len(found) == 0 {
		err = errors.New("no object matches")
	}
	return w, found, err
}
