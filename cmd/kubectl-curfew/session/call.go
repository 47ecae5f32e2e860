package session

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// Call is one call of a command that asks a cluster.
type Call struct {
	*Connection
	Args             []string
	In               io.Reader
	Out, Diagnostics io.Writer
	// Print is nil where the command prints text for people.
	Print    console.PrintFunc
	Progress *console.Progress
	Now      time.Time
}

// Runs prepares a call for a command to run.
func (c *Connection) Runs(run func(context.Context, *Call) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		call := &Call{Connection: c, Args: args, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Diagnostics: cmd.ErrOrStderr(), Now: c.Now()}
		if c.Output != nil {
			if call.Print, err = c.Output.Printer(); err != nil {
				return err
			}
		}
		call.Progress = console.NewProgress(c.Environment, call.Diagnostics)
		defer call.Progress.Done()
		return run(cmd.Context(), call)
	}
}

// World connects while the progress shows the text. It also returns the namespace of the call.
func (c *Call) World(ctx context.Context, text string, values ...any) (w *world.World, namespace string, err error) {
	if namespace, err = c.Namespace(); err != nil {
		return nil, "", err
	}
	c.Progress.Say(text, values...)
	w, err = c.Open(ctx, c.Now, Overlay{}, c.Progress)
	return w, namespace, err
}
