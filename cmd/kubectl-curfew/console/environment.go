package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// Environment is what commands take from the machine. Tests have their own.
type Environment struct {
	// Now is the time, in the user's time zone. Each command reads it once, and once more for each
	// object right before it changes that.
	Now func() time.Time
	// Connect makes clients for the cluster that the configuration names.
	Connect func(config clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error)
	// Terminal reports whether a stream is a terminal.
	Terminal func(stream any) bool
}

// PrintNotes prints what could not be read, and what that means.
func PrintNotes(notes []string, diagnostics io.Writer) {
	for _, note := range notes {
		fmt.Fprintln(diagnostics, "note:", OneLine(note))
	}
}

// The exit statuses.
const (
	ExitOK      = 0
	ExitBadNews = 1
	ExitUsage   = 2
)

// ErrBadNews ends a command that has already printed the problem.
var ErrBadNews = errors.New("bad news")

// ErrDeclined ends a command whose question was answered with no.
var ErrDeclined = errors.New("nothing was changed")

// Run executes a command line and returns the exit status.
func Run(ctx context.Context, command *cobra.Command) int {
	err := command.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrBadNews):
		return ExitBadNews
	default:
		for line := range strings.Lines(err.Error()) { // Joined errors have a line each.
			if line = strings.TrimSpace(line); line != "" {
				fmt.Fprintln(command.ErrOrStderr(), "error:", OneLine(line))
			}
		}
		if errors.Is(err, ErrDeclined) {
			return ExitBadNews
		}
		return ExitUsage
	}
}

// Terminal reports whether a stream is a terminal.
func Terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Width is that of a terminal in columns; 0 for other streams.
func Width(stream any) int {
	file, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(file.Fd())) // 0 with an error
	return width
}

// Version is the version of the plugin, which main sets.
var Version = "dev"

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

// Mark marks the result of a dry run, as kubectl does.
func (d DryRun) Mark() string {
	switch d {
	case "client":
		return " (dry run)"
	case "server":
		return " (server dry run)"
	}
	return ""
}

// Progress shows on a terminal what a command does, after a second. Everything else for the same
// stream is written through it, so that the two do not share a line.
type Progress struct {
	out io.Writer

	mu    sync.Mutex
	text  string
	shown bool
	ended bool
	timer *time.Timer
}

// quietFor passes before the first line; tick is how often the line is updated.
const (
	quietFor = time.Second
	tick     = 200 * time.Millisecond
)

func NewProgress(env Environment, out io.Writer) *Progress {
	p := &Progress{out: out}
	if env.Terminal(out) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(quietFor, p.show)
	}
	return p
}

// Say sets the text.
func (p *Progress) Say(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, values...)
}

func (p *Progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if p.text != "" {
		fmt.Fprintf(p.out, "\r\x1b[K%s...", p.text)
		p.shown = true
	}
	p.timer.Reset(tick)
}

// Write implements io.Writer. It clears the line, which comes back with the next tick.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// Again restarts after done.
func (p *Progress) Again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.ended {
		p.timer.Reset(quietFor)
	}
	p.ended = false
}

// Done removes the line.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.clear()
}

func (p *Progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
