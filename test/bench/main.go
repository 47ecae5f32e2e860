package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// commands are first arguments that turn this program into one that a bench runs in a process of
// its own.
var commands = map[string]func(ctx context.Context, args []string, out io.Writer) error{}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		err = commands[os.Args[1]](ctx, os.Args[2:], os.Stdout)
	} else {
		err = run(ctx, os.Args[1:])
	}
	cancel()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	jobs        int
	rounds      int
	only        string
	contestants string
	calls       int
	dir         string
	curfew      string
	keep        bool
	gate        bool
	record      bool
	rows        string
	limits      string
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.jobs, "jobs", 10000, "how many finished Jobs fall due at once")
	fs.IntVar(&o.rounds, "rounds", 5, "how many rounds; each lets every contestant run once")
	fs.StringVar(&o.only, "only", "", "run these `benches` only, separated by commas")
	fs.StringVar(&o.contestants, "contestants", "", "let these `contestants` only take part in drains, lateness and deadline, separated by commas")
	fs.IntVar(&o.calls, "calls", 0, "how many calls at a time the bare loop sends; 0: the bench finds out what serves it best")
	fs.StringVar(&o.dir, "dir", "", "the `directory` for the control plane, logs and results (default .bench in the repository)")
	fs.StringVar(&o.curfew, "curfew", "", "the curfew `binary` to measure (default: bin/curfew, built from this tree)")
	fs.BoolVar(&o.keep, "keep", false, "leave the control plane running at the end")
	fs.BoolVar(&o.record, "record", false, "also write the results, with day and commit, into the documentation")
	fs.BoolVar(&o.gate, "gate", false, "measure a little of everything and fail where a limit is broken")
	fs.StringVar(&o.rows, "rows", "", "judge these `rows` of the gate only, separated by commas")
	fs.StringVar(&o.limits, "limits", "", "the `file` with the gate's limits (default test/bench/gate.yaml)")
	for _, b := range benches {
		if b.flags != nil {
			b.flags(fs)
		}
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.jobs < 2:
		return o, fmt.Errorf("-jobs %d: give at least 2, a rate needs two events", o.jobs)
	case o.gate && o.record:
		return o, errors.New("the gate's rows are too short for the documentation: leave out -record")
	case o.gate && o.only != "" || !o.gate && o.rows+o.limits != "":
		return o, errors.New("-rows and -limits belong to -gate, and -only does not")
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds %d: give at least 1", o.rounds)
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	rows, limits, err := o.gateRows(root)
	if err != nil {
		return err
	}
	if o.dir == "" {
		o.dir = filepath.Join(root, ".bench")
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("make -dir %q absolute: %w", o.dir, err)
	}
	env := &environment{options: o, root: root, out: os.Stdout}
	if o.record {
		if err := env.recordable(ctx); err != nil {
			return err
		}
	}
	stop, err := env.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	fmt.Fprintf(env.out, "Kubernetes %s\n", env.state.Versions["kubernetes"])
	if o.gate {
		return env.gate(ctx, rows, limits)
	}
	var results []result
	for _, b := range chosen {
		fmt.Fprintf(env.out, "\n== %s: %s\n", b.name, b.about)
		r, err := b.run(ctx, env)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		results = append(results, r...)
		// After each, so that a run that is cut short leaves what it has measured.
		if err := mergeResults(filepath.Join(o.dir, resultsFile), r); err != nil {
			return err
		}
		if o.record {
			if err := env.record(ctx, b.name, time.Now().UTC().Format(time.DateOnly), r); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(env.out)
	if err := printTable(env.out, results); err != nil {
		return err
	}
	if o.only != "" {
		return nil
	}
	// All have run: what an older version called otherwise goes.
	return writeJSON(filepath.Join(o.dir, resultsFile), results)
}

// findRoot finds the repository's folder, from the working directory upwards.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside the repository: no folder above has test/cluster")
		}
		dir = parent
	}
}
