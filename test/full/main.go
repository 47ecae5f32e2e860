package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// most is how long a part may take.
	most = 90 * time.Minute
	// page has the results, and releasesPage those on each release of Kubernetes.
	page, releasesPage = "docs/test-full.md", "docs/install.md"
	// logs has the output of each part.
	logs = ".full"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "test-full:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("full", flag.ContinueOnError)
	again := flags.Bool("again", false, "run what has passed at this commit, too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	commit, err := version(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	var failed []string
	for _, one := range chosen {
		before, err := read()
		if err != nil {
			return err
		}
		if last := before[one.name]; !*again && last.outcome == passed && last.commit == commit {
			fmt.Printf("%s: has passed at %s\n", one.name, commit)
			continue
		}
		out := one.run(ctx, commit)
		if ctx.Err() != nil {
			return errors.New("interrupted; the next run begins with " + one.name)
		}
		fmt.Printf("%s: %s after %s\n", one.name, out.outcome, out.took)
		if out.outcome != passed {
			failed = append(failed, one.name)
		}
		before[one.name] = out
		if err := write(before); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s; see %s", strings.Join(failed, ", "), logs)
	}
	return nil
}

// read reads the results.
func read() (map[string]result, error) {
	text, err := os.ReadFile(page)
	return results(string(text)), err
}

// write writes results into both pages.
func write(last map[string]result) error {
	for path, with := range map[string]func(string, map[string]result) string{page: render, releasesPage: matrix} {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(with(string(text), last)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// choose finds parts by name. The first words of a name stand for all that begin with them.
func choose(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var out []part
	for _, name := range names {
		found := len(out)
		for _, one := range parts {
			if one.name == name || strings.HasPrefix(one.name, name+"-") {
				out = append(out, one)
			}
		}
		if len(out) == found {
			return nil, fmt.Errorf("there is no part %q: %s lists them", name, page)
		}
	}
	return out, nil
}

// version is the commit, and "-dirty" if anything but the results differs from it.
func version(ctx context.Context) (string, error) {
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("the commit: %w", err)
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ".", ":!"+page, ":!"+releasesPage).Output()
	if err != nil {
		return "", fmt.Errorf("what differs from the commit: %w", err)
	}
	out := strings.TrimSpace(string(commit))
	if len(changed) > 0 {
		out += "-dirty"
	}
	return out, nil
}

// run runs a part and shows its output.
func (p *part) run(ctx context.Context, commit string) result {
	fmt.Printf("%s: %s\n", p.name, p.what)
	began := time.Now()
	out := result{outcome: passed, date: began.UTC().Format("2 January 2006"), commit: commit}
	if err := p.execute(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
		out.outcome = "failed"
	}
	out.took = time.Since(began).Round(time.Second).String()
	return out
}

func (p *part) execute(ctx context.Context) (err error) {
	log, err := os.Create(filepath.Join(logs, p.name+".log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took longer than %s", most))
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", p.script)
	// All that it started gets the signal, and time to stop what runs detached.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	command.Stdout, command.Stderr = io.MultiWriter(os.Stdout, log), io.MultiWriter(os.Stderr, log)
	if err := command.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}
