package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// most is how long a part may take.
const most = 90 * time.Minute

// results has a line for each part that has ended. The folder has the output of each.
const results = ".full/results"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "test-full:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		return fmt.Errorf("read the commit: %w", err)
	}
	known, _ := os.ReadFile(results) // there is none before the first part has ended
	var failed []error
	for _, part := range chosen {
		passed := part.name + " passed at " + strings.TrimSpace(string(commit))
		if strings.Contains(string(known), passed+" ") {
			fmt.Println(passed, "before; remove that line from", results, "to run it again")
			continue
		}
		fmt.Printf("%s: %s\n", part.name, part.what)
		began, line := time.Now(), passed
		err := part.execute(ctx)
		if ctx.Err() != nil {
			return errors.New("interrupted; the next run begins with " + part.name)
		}
		if err != nil {
			line = fmt.Sprintf("%s failed, %v,", part.name, err)
			failed = append(failed, fmt.Errorf("%s: %w", part.name, err))
		}
		line += fmt.Sprintf(" on %s after %s\n", began.UTC().Format(time.DateOnly), time.Since(began).Round(time.Second))
		fmt.Print(line)
		if err := record(line); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

func record(line string) error {
	file, err := os.OpenFile(results, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}

// choose finds parts by name. The first words of a name stand for all that begin with them.
func choose(names []string) (chosen []part, err error) {
	all := slices.Concat(parts, onReleases())
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		some := slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !strings.HasPrefix(p.name+"-", name+"-") })
		if len(some) == 0 {
			return nil, fmt.Errorf("there is no part %q: test/full/parts.go lists them", name)
		}
		chosen = append(chosen, some...)
	}
	return chosen, nil
}

// execute runs a part, shows its output and keeps it.
func (p *part) execute(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took longer than %s", most))
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		"mkdir -p .full\n(\n"+p.script+"\n) 2>&1 | tee .full/"+p.name+".log")
	// All that it started gets the signal, and time to stop what runs detached.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	err := command.Run()
	return cmp.Or(context.Cause(ctx), err)
}
