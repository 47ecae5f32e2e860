package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The page of the documentation and the results that it shows.
const (
	performancePage = "docs/performance.md"
	performanceFile = "docs/performance.json"
)

// recordedResult is a result that the documentation shows, with what was measured.
type recordedResult struct {
	Bench string `json:"bench"`
	result
	// Date is a day, as in 2026-11-22.
	Date string `json:"date"`
	// Commit is empty where none was recorded.
	Commit     string `json:"commit"`
	Kubernetes string `json:"kubernetes"`
}

// benchCode are the folders whose code a bench measures. A number is older than its code when one of
// them has changed since.
var benchCode = map[string][]string{
	"drain": deletionCode, "drain_many": deletionCode, "lateness": deletionCode, "lateness_defaults": deletionCode,
	"lateness_outage": deletionCode, "label_drain": deletionCode,
	"admission":          {"policy", "webhook"},
	"memory":             trackingCode,
	"memory_many":        trackingCode,
	"label_memory":       trackingCode,
	"label_create":       {"controller/feed", "manifests/webhook", "webhook"},
	"cleanup":            {"controller/cleanup", "controller/engine", "policy/cleanup"},
	"cleanup_preview":    {"cmd/kubectl-curfew", "policy/cleanup"},
	"cleanup_referenced": {"controller/cleanup/survey", "policy/cleanup", "policy/references"},
	"tally":              {"controller/tally", "policy/tally"},
	"deadline":           deletionCode,
	"restart":            trackingCode,
	"idle":               trackingCode,
	"cli_list":           {"cmd/kubectl-curfew", "policy"},
	"cli_unused":         {"cmd/kubectl-curfew", "controller/cleanup/survey", "policy"},
}

var (
	deletionCode = []string{"controller/action", "controller/engine", "controller/feed", "controller/follow", "controller/pace",
		"controller/pause", "policy"}
	trackingCode = []string{"controller/engine", "controller/feed", "controller/follow"}
)

// readRecorded reads what the page shows, in its order.
func readRecorded(root string) ([]recordedResult, error) {
	data, err := os.ReadFile(filepath.Join(root, performanceFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the recorded results: %w", err)
	}
	var all []recordedResult
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", performanceFile, err)
	}
	return all, nil
}

// writeRecorded writes a line for each result.
func writeRecorded(root string, all []recordedResult) error {
	var lines []string
	for _, r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode the result %s: %w", r.Name, err)
		}
		lines = append(lines, "  "+string(line))
	}
	text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if err := os.WriteFile(filepath.Join(root, performanceFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("record the results: %w", err)
	}
	return nil
}

// recordable returns an error where a record could not say what it measured.
func (e *environment) recordable(ctx context.Context) error {
	changed, err := git(ctx, e.root, "status", "--porcelain", "--", ".", ":!docs")
	if err != nil {
		return fmt.Errorf("-record names the commit that is measured, and git does not know it: %w", err)
	}
	if changed != "" {
		return fmt.Errorf("-record names the commit that is measured: commit these first:\n%s", changed)
	}
	return nil
}

// record replaces recorded results of the same names, for the documentation.
func (e *environment) record(ctx context.Context, bench, date string, results []result) error {
	all, err := readRecorded(e.root)
	if err != nil {
		return err
	}
	commit := strings.TrimSuffix(e.source(ctx), "-dirty") // Of docs alone.
	var fresh []recordedResult
	for _, r := range results {
		fresh = append(fresh, recordedResult{Bench: bench, result: r, Date: date, Commit: commit, Kubernetes: strings.TrimPrefix(e.state.Versions["kubernetes"], "v")})
	}
	all = mergeRecorded(all, fresh)
	if err := writeRecorded(e.root, all); err != nil {
		return err
	}
	return writePage(ctx, e.root, false, e.out)
}

// mergeRecorded returns all results. A fresh one takes the place of the one with its name, or is
// added at the end.
func mergeRecorded(all, fresh []recordedResult) []recordedResult {
	all = slices.Clone(all)
	for _, r := range fresh {
		if i := slices.IndexFunc(all, func(a recordedResult) bool { return a.Name == r.Name }); i >= 0 {
			all[i] = r
		} else {
			all = append(all, r)
		}
	}
	return all
}

// reportCommand is the first argument that writes the page.
const reportCommand = "report"

func init() { commands[reportCommand] = runReport }

// runReport brings the tables of the page up to date. With -check it writes nothing: it returns an
// error where a table differs from the results. A different mark of age is only reported, since code
// changes more often than it is measured.
func runReport(ctx context.Context, args []string, out io.Writer) error {
	check := len(args) == 1 && args[0] == "-check"
	if len(args) > 0 && !check {
		return fmt.Errorf("report %s: only -check is known", strings.Join(args, " "))
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	return writePage(ctx, root, check, out)
}

func writePage(ctx context.Context, root string, check bool, out io.Writer) error {
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	fresh, err := renderPage(root, string(page), history{ctx, root}.older)
	if err != nil {
		return err
	}
	switch {
	case string(page) == fresh:
		return nil
	case !check:
		return os.WriteFile(filepath.Join(root, performancePage), []byte(fresh), 0o644)
	case withoutMarks(string(page)) != withoutMarks(fresh):
		return fmt.Errorf("the tables in %s are not what %s has: run make bench-report", performancePage, performanceFile)
	}
	fmt.Fprintf(out, "%s marks other numbers as%s than are: make bench-report brings the marks up to date\n", performancePage, olderMark)
	return nil
}

// history answers from git whether code has changed since a result.
type history struct {
	ctx  context.Context
	root string
}

// older reports whether the code that a result measures has changed since. If no commit was
// recorded, or one that is not in the history, a change on the same day counts as later. Where the
// history does not say, as in a shallow clone or without git, it claims nothing.
func (h history) older(r recordedResult) bool {
	folders := append(append([]string{"--"}, benchCode[r.Bench]...), ":(exclude)*_test.go")
	if r.Commit != "" {
		if _, err := git(h.ctx, h.root, "cat-file", "-e", r.Commit+"^{commit}"); err == nil {
			changed, err := git(h.ctx, h.root, append([]string{"diff", "--name-only", r.Commit}, folders...)...)
			return err == nil && changed != ""
		}
	}
	if shallow, err := git(h.ctx, h.root, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		return false
	}
	last, err := git(h.ctx, h.root, append([]string{"log", "-1", "--format=%cs"}, folders...)...)
	return err == nil && last >= r.Date
}
