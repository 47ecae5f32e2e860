package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
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

// bench is one measurement. It leaves nothing in the control plane that the next one would notice.
type bench struct {
	name, about string
	// objects and rounds are the defaults of the flags.
	objects, rounds int
	run             func(context.Context, *environment) ([]result, error)
}

// benches lists all, in the order in which they run: the first want a control plane without finished
// Jobs, the last leave some.
var benches = []bench{
	{"drain", "finished Jobs that fall due in the same second", 10000, 5, runDrain},
	{"admission", "reviews of a new Job over TLS", 2000, 3, runAdmission},
	{"create", "creating Jobs through the API server", 500, 3, runCreate},
	{"lateness", "Jobs that fall due second by second, and how late they are deleted", 3000, 3, runLateness},
	{"label_drain", "labelled ConfigMaps that fall due in the same second", 20000, 5, runLabelDrain},
	{"cleanup", "ConfigMaps that a cleanup policy deletes, beside as many that it keeps", 100000, 3, runCleanup},
	{"tally", "finished Pods that a new PodTally counts, beside a loop that removes their finalizers", 10000, 5, runTally},
	{"deadline", "deadlines that pass in the same second: the mark alone", 10000, 5, runDeadline},
	{"relay", "labelled ConfigMaps that fall due behind a slow, busy or lossy API server", 2000, 1, runRelay},
	{"restart", "time from the lease to all timers armed", 100000, 5, runRestart},
	{"cli_list", "kubectl curfew expiring beside kubectl get", 5000, 5, runCLIList},
	{"memory", "memory with no Jobs, and with Jobs of a recorded watch that are not due", 1_000_000, 1, runMemory},
	{"idle", "processor time with many Jobs tracked and none due, in as many minutes as there are rounds", 1_000_000, 2, runIdle},
}

// choose returns the benches that a comma-separated list names, all if it is empty.
func choose(only string) ([]bench, error) {
	if only == "" {
		return benches, nil
	}
	return pick("-only", only, benches, func(b bench) string { return b.name })
}

// pick returns the items that a comma-separated list names.
func pick[T any](flag, names string, all []T, name func(T) string) (chosen []T, err error) {
	for wanted := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == wanted })
		if i < 0 {
			var known []string
			for _, t := range all {
				known = append(known, name(t))
			}
			return nil, fmt.Errorf("%s %q: there is no %q, take some of %s", flag, names, wanted, strings.Join(known, ","))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// options are the flags.
type options struct {
	objects, rounds int
	only            string
	contestants     string
	calls           int
	calm            time.Duration
	dir, curfew     string
	keep, record    bool

	gate, all  bool
	rows, base string
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.IntVar(&o.objects, "objects", 0, "how many objects are measured; 0: the usual number")
	fs.IntVar(&o.rounds, "rounds", 0, "how many rounds, in which every contestant runs once; 0: the usual number")
	fs.StringVar(&o.only, "only", "", "run these `benches` only, separated by commas")
	fs.StringVar(&o.contestants, "contestants", "", "let these `contestants` only take part in drains, lateness and deadline, separated by commas")
	fs.IntVar(&o.calls, "calls", 64, "how many calls at a time a bare loop sends")
	fs.DurationVar(&o.calm, "calm", 20*time.Second, "the time between the last Job and the look at resident memory")
	fs.StringVar(&o.dir, "dir", "", "the `directory` for the control plane, logs and results (default .bench in the repository)")
	fs.StringVar(&o.curfew, "curfew", "", "the curfew `binary` to measure (default: bin/curfew, built from this tree)")
	fs.BoolVar(&o.keep, "keep", false, "leave the control plane running at the end")
	fs.BoolVar(&o.record, "record", false, "also write the results, with day and commit, into the documentation")
	fs.BoolVar(&o.gate, "gate", false, "measure a little and fail where a limit of test/bench/gate.yaml is broken")
	fs.StringVar(&o.rows, "rows", "", "judge these `rows` of the gate only, separated by commas")
	fs.BoolVar(&o.all, "all", os.Getenv("COLD") == "1", "judge all rows of the gate, whatever has changed (default true with COLD=1)")
	fs.StringVar(&o.base, "base", os.Getenv("BASE"), "the `commit` since which code must have changed for the rows that are not always judged "+
		"(default BASE, or the merge base with main)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.objects < 0 || o.objects == 1 || o.rounds < 0 || o.calls < 1:
		return o, errors.New("give at least 2 objects, as a rate needs two events, 1 round and 1 call at a time")
	case o.gate && o.record:
		return o, errors.New("the gate's rows are too short for the documentation: leave out -record")
	case o.gate && o.only != "" || !o.gate && o.rows != "":
		return o, errors.New("-rows belongs to -gate, and -only does not")
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
	o.dir, err = filepath.Abs(cmp.Or(o.dir, filepath.Join(root, ".bench")))
	if err != nil {
		return fmt.Errorf("make -dir %q absolute: %w", o.dir, err)
	}
	env := &environment{options: o, root: root, out: os.Stdout}
	rows, err := env.gateRows(ctx)
	if err != nil {
		return err
	}
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
		return env.gate(ctx, rows)
	}
	return env.runAll(ctx, chosen)
}

// runAll runs benches one after the other.
func (e *environment) runAll(ctx context.Context, chosen []bench) error {
	var results []result
	for _, b := range chosen {
		fmt.Fprintf(e.out, "\n== %s: %s\n", b.name, b.about)
		r, err := e.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		results = append(results, r...)
		// After each, so that a run that is cut short leaves what it has measured.
		if err := writeJSON(filepath.Join(e.dir, resultsFile), results); err != nil {
			return err
		}
		if e.record {
			if err := e.recordResults(ctx, b.name, time.Now().UTC().Format(time.DateOnly), r); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(e.out)
	return printTable(e.out, results)
}

// measure runs one bench with its own defaults.
func (e *environment) measure(ctx context.Context, b bench) ([]result, error) {
	own := e.options
	defer func() { e.options = own }()
	e.objects, e.rounds = cmp.Or(own.objects, b.objects), cmp.Or(own.rounds, b.rounds)
	return b.run(ctx, e)
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
