package pause

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// resumeOptions are the flags of resume.
type resumeOptions struct {
	*session.Connection
	all    bool
	dryRun console.DryRun
}

// ResumeCommand is kubectl curfew resume.
func ResumeCommand(env console.Environment) *cobra.Command {
	options := resumeOptions{Connection: session.NewConnection(env)}
	command := &cobra.Command{
		Use:   "resume [NAME...] [flags]",
		Short: "End a pause: Curfew deletes and stops again, at the usual pace",
		Long: `End a pause: delete the DeletionPause. Curfew then deletes what fell due
meanwhile, at the usual pace and within the usual limits. Look first at it:

  kubectl curfew expiring -A --within 1s

Without a NAME it ends the one that kubectl curfew pause made. If there are
several, name one, or give --all. Pauses that were made otherwise, such as by
GitOps, are ended by name alone.`,
		Example: `  # End the pause
  kubectl curfew resume

  # End this one
  kubectl curfew resume pause-1224-1200-x7k2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: completePauses(options.Connection),
	}
	options.Add(command.Flags())
	command.Flags().BoolVar(&options.all, "all", false, "all pauses that kubectl curfew pause made")
	options.dryRun.Add(command.Flags())
	options.CompleteFlags(command, map[string][]string{"dry-run": console.DryRuns})
	return command
}

func (o *resumeOptions) run(ctx context.Context, names []string, out, diagnostics io.Writer) error {
	if o.all && len(names) > 0 {
		return errors.New("--all: leave it out, or the names")
	}
	if err := o.dryRun.Check(); err != nil {
		return err
	}
	now := o.Now()
	w, err := o.Open(ctx, now, session.Overlay{}, nil)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = o.made(&w.Pauses); err != nil {
			return err
		}
	}
	var errs []error
	for _, name := range names {
		if o.dryRun == "client" {
			fmt.Fprintf(out, "pause %s would be ended (dry run)\n", name)
			continue
		}
		full, err := w.DeletePause(ctx, name, o.dryRun == "server")
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("%s does not exist", full))
		case err != nil:
			errs = append(errs, fmt.Errorf("deleting %s: %w", full, err))
		case o.dryRun == "server":
			fmt.Fprintf(out, "%s deleted (server dry run)\n", full)
		default:
			fmt.Fprintf(out, "%s deleted\n", full)
		}
	}
	left := slices.DeleteFunc(w.Pauses.InEffect(w.ServerTime(ctx, now)), func(one world.Pause) bool { return slices.Contains(names, one.Name) })
	for _, one := range left {
		fmt.Fprintf(diagnostics, "note: %s\n", console.OneLine(one.Message()))
	}
	return errors.Join(errs...)
}

// made are the pauses that a command without names ends.
func (o *resumeOptions) made(pauses *world.Pauses) ([]string, error) {
	var names, others []string
	for _, one := range pauses.All {
		if one.Here {
			names = append(names, one.Name)
		} else {
			others = append(others, one.Name)
		}
	}
	switch {
	case pauses.Presence == world.Unread:
		return nil, errors.New("you may not list DeletionPauses: name the one to end")
	case len(names) > 1 && !o.all:
		return nil, fmt.Errorf("there are several: name one of %s, or give --all", strings.Join(names, ", "))
	case len(names) == 0 && len(others) > 0:
		return nil, fmt.Errorf("kubectl curfew pause made none of them: name one of %s", strings.Join(others, ", "))
	case len(names) == 0:
		return nil, errors.New("there is no pause")
	}
	return names, nil
}

// completePauses suggests the pauses.
func completePauses(c *session.Connection) cobra.CompletionFunc {
	return c.CompleteFrom(func(_ context.Context, w *world.World, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		for _, one := range w.Pauses.All {
			if !slices.Contains(args, one.Name) {
				names = append(names, one.Name)
			}
		}
		return names, session.NoFiles
	})
}
