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

// render is the page with other results. All of its text stays; each part has a row.
func render(text string, last map[string]result) string {
	before, table, _ := strings.Cut(text, header)
	rest := ""
	for line := range strings.Lines(table) {
		if rest != "" || !strings.HasPrefix(line, "|") {
			rest += line
		}
	}
	var rows strings.Builder
	for _, one := range parts {
		of, ok := last[one.name]
		if !ok {
			of = result{notRun, "-", "-", "-"}
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s | %s |\n", one.name, one.what, of.outcome, of.date, of.commit, of.took)
	}
	return before + header + rows.String() + rest
}
