package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
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

// readRecorded reads what the page shows, in its order.
func readRecorded(root string) ([]recordedResult, error) {
	data, err := os.ReadFile(filepath.Join(root, performanceFile))
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

// recordResults replaces recorded results of the same names, for the documentation.
func (e *environment) recordResults(ctx context.Context, bench, date string, results []result) error {
	all, err := readRecorded(e.root)
	if err != nil {
		return err
	}
	commit := strings.TrimSuffix(e.source(ctx), "-dirty") // Of docs alone.
	for _, r := range results {
		fresh := recordedResult{Bench: bench, result: r, Date: date, Commit: commit, Kubernetes: strings.TrimPrefix(e.state.Versions["kubernetes"], "v")}
		all = replaceRecorded(all, fresh)
	}
	if err := writeRecorded(e.root, all); err != nil {
		return err
	}
	return writePage(ctx, e.root, false, e.out)
}

// replaceRecorded puts a result in the place of the one with its name, or at the end.
func replaceRecorded(all []recordedResult, fresh recordedResult) []recordedResult {
	i := slices.IndexFunc(all, func(a recordedResult) bool { return a.Name == fresh.Name })
	if i < 0 {
		return append(all, fresh)
	}
	all[i] = fresh
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
func (h history) older(r recordedResult, code []string) bool {
	folders := append(append([]string{"--"}, code...), ":(exclude)*_test.go")
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

// source is the commit of the tree that is measured, with "-dirty" behind it where something is not
// committed, and "unknown" without git.
func (e *environment) source(ctx context.Context) string {
	commit, err := git(ctx, e.root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	if err != nil || commit == "" {
		return "unknown"
	}
	return commit
}

// olderMark stands behind the date of a number.
const olderMark = " (older)"

func withoutMarks(page string) string { return strings.ReplaceAll(page, olderMark, "") }

// goal is what a result has to reach.
type goal struct {
	Result string `json:"result"`
	limit
}

// The tables of the page, by name. A table of another name shows the results whose names begin with
// one of its words.
const pageTables = `
{{- define "gate"}}| row | ratio | reached | limit | measured by |
|---|---|---|---|---|
{{range .Rows}}| ` + "`{{.Row}}`{{if not .Always}}, if its code changed{{end}} | `{{.Result}}` | {{.Reached}} | {{.String}} | `{{.Args}}`" + ` |
{{end}}{{end}}
{{- define "results"}}| result | value | baseline | ratio | goal | measured |
|---|---|---|---|---|---|
{{range .Results}}| ` + "`{{.Name}}`" + ` | {{if .Value}}{{show .Value}} {{.Unit}}{{else}}-{{end}} | {{if .BaselineValue}}{{show .BaselineValue}}, {{end}}{{.Baseline}} | {{ratio .}} | {{goal .}} | {{when .}} |
{{end}}{{end}}`

var tableOfPage = regexp.MustCompile(`(?s)<!-- table: ([^\n]*) -->\n.*?<!-- end -->`)

// renderPage writes again what stands between the marks of each table.
func renderPage(root, page string, older func(recordedResult, []string) bool) (string, error) {
	all, err := readRecorded(root)
	if err != nil {
		return "", err
	}
	file, err := readGate(root)
	if err != nil {
		return "", err
	}
	for _, g := range file.Goals {
		if !slices.ContainsFunc(all, func(r recordedResult) bool { return r.Name == g.Result }) {
			return "", fmt.Errorf("no result is recorded for the goal %s", g.Result)
		}
	}
	tables := template.Must(template.New("").Funcs(template.FuncMap{"show": show, "ratio": recordedResult.ratio, "goal": file.goal, "when": func(r recordedResult) string {
		return r.when(older(r, file.Code[r.Bench]))
	}}).Parse(pageTables))
	fresh := tableOfPage.ReplaceAllStringFunc(page, func(old string) string {
		name := tableOfPage.FindStringSubmatch(old)[1]
		data := struct {
			gateFile
			Results []recordedResult
		}{gateFile: file}
		text := name
		if tables.Lookup(name) == nil {
			text = "results"
			for _, r := range all {
				if slices.ContainsFunc(strings.Fields(name), func(prefix string) bool { return strings.HasPrefix(r.Name, prefix) }) {
					data.Results = append(data.Results, r)
				}
			}
		}
		var out strings.Builder
		err = errors.Join(err, tables.ExecuteTemplate(&out, text, data))
		return "<!-- table: " + name + " -->\n" + out.String() + "<!-- end -->"
	})
	return fresh, err
}

// goal of a result, if it has one, and whether it is reached.
func (f gateFile) goal(r recordedResult) string {
	i := slices.IndexFunc(f.Goals, func(g goal) bool { return g.Result == r.Name })
	switch {
	case i < 0:
		return ""
	case f.Goals[i].holds(r.Ratio, 0):
		return f.Goals[i].String()
	}
	return f.Goals[i].String() + ", not reached"
}

// ratio is the median, with the least and the greatest where they are recorded.
func (r recordedResult) ratio() string {
	if r.Low == 0 && r.High == 0 || r.Low == r.High {
		return show(r.Ratio)
	}
	return fmt.Sprintf("%s (%s–%s)", show(r.Ratio), show(r.Low), show(r.High))
}

// when says on which day, release and commit a number was measured.
func (r recordedResult) when(older bool) string {
	parts := []string{r.Date, r.Kubernetes}
	if r.Commit != "" {
		parts = append(parts, r.Commit)
	}
	out := strings.Join(parts, ", ")
	if older {
		out += olderMark
	}
	return out
}
