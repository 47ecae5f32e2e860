package main

import (
	"fmt"
	"strings"
)

const (
	passed = "passed"
	notRun = "not run"
	header = "| part | what it does | last result | date | commit | took |\n|---|---|---|---|---|---|\n"
)

// result is the last result of a part. Its zero value is a part that was not run.
type result struct{ outcome, date, commit, took string }

// results are the results on the page, by part.
func results(text string) map[string]result {
	out := map[string]result{}
	_, table, _ := strings.Cut(text, header)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 6 {
			break
		}
		if one := (result{cells[2], cells[3], cells[4], strings.TrimSuffix(cells[5], " |")}); one.outcome != notRun {
			out[strings.Trim(cells[0], "|` ")] = one
		}
	}
	return out
}

// replaced is a page with other rows in the table that has a header. All of its text stays.
func replaced(text, header, rows string) string {
	before, table, ok := strings.Cut(text, header)
	if !ok {
		return text
	}
	rest := ""
	for line := range strings.Lines(table) {
		if rest != "" || !strings.HasPrefix(line, "|") {
			rest += line
		}
	}
	return before + header + rows + rest
}

// matrix is the page of releases with other results: each release has a row, and each suite a
// column.
func matrix(text string, last map[string]result) string {
	header, line := "| Kubernetes |", "\n|---|"
	for _, suite := range suites {
		header, line = header+" "+suite.name+" |", line+"---|"
	}
	var rows strings.Builder
	for _, release := range releases {
		fmt.Fprintf(&rows, "| %s |", release)
		for _, suite := range suites {
			cell := notRun
			if of, ok := last[onRelease(release, suite.name)]; ok {
				cell = fmt.Sprintf("%s, %s, %s", of.outcome, of.date, of.commit)
			}
			fmt.Fprintf(&rows, " %s |", cell)
		}
		rows.WriteString("\n")
	}
	return replaced(text, header+line+"\n", rows.String())
}

// render is the page with other results. Each part has a row.
func render(text string, last map[string]result) string {
	var rows strings.Builder
	for _, one := range parts {
		of, ok := last[one.name]
		if !ok {
			of = result{notRun, "-", "-", "-"}
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s | %s |\n", one.name, one.what, of.outcome, of.date, of.commit, of.took)
	}
	return replaced(text, header, rows.String())
}
