package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// olderMark stands behind the date of a number.
const olderMark = " (older than its code)"

func withoutMarks(page string) string { return strings.ReplaceAll(page, olderMark, "") }

// goal is a line of the page's first table.
type goal struct {
	what, anchor string
	result       string
	about        string
	// One of the two is demanded of the result's ratio.
	atLeast, atMost float64
}

// goals of the measurements, by the section that has the rest.
var goals = []goal{
	{"draining", "draining-10000-jobs-that-fall-due-in-the-same-second", "drain.jobs.10k.vs_limit", "of the rate of a bare loop", 0.9, 0},
	{"", "", "drain.jobs.10k.vs_intree_unthrottled", "of that of the in-tree controller, unthrottled", 4, 0},
	{"", "", "drain.jobs.10k.vs_intree_default", "of that of the in-tree controller at its defaults", 100, 0},
	{"", "", "drain.bystander_p99.vs_intree", "of what others wait beside the in-tree controller", 0, 2},
	{"", "", "drain.jobs.50k.vs_limit", "of the rate of a bare loop, with 50,000", 0.9, 0},
	{"admission", "admission", "admission.p50.10.vs_noop", "of a webhook that only says \"allowed\"", 0, 1.3},
	{"", "", "admission.p50.10.vs_typed", "of the typed defaulter", 0, 1},
	{"", "", "admission.create_added_p50.vs_map", "of what a MutatingAdmissionPolicy adds to a create", 0, 2},
	{"memory", "memory", "memory.jobs.bytes_per_object.1m", "of the in-tree controller's heap, 250 bytes an object at most", 0, 0.05},
	{"labels", "labels", "label.drain.20k.vs_limit", "of the rate of a bare loop", 0.9, 0},
	{"", "", "label.create.vs_unlabelled", "of creating without a label", 0.9, 0},
	{"", "", "memory.label.bytes_per_object.20k", "of 250 bytes of heap an object", 0, 1},
	{"cleanup policies", "cleanup-policies", "cleanup.drain.100k.vs_limit", "of the rate of a bare loop", 0.9, 0},
	{"", "", "cleanup.memory.extra_mb", "of 64 MB beyond the idle controller", 0, 1},
	{"", "", "cleanup.referenced.extra_mb", "of 64 MB beyond the idle controller, with a lookup", 0, 1},
	{"unused objects", "listing", "cli.unused.11k.vs_get", "of kubectl get", 0, 3},
	{"", "", "cli.unused.memory_mb", "of 150 MB", 0, 1},
	{"counting Pods", "counting-pods", "tally.count.vs_limit", "of the rate of a bare loop of patches", 0.8, 0},
	{"lateness", "lateness", "lateness.p99_ms.vs_limit", "of the p99 of a bare loop", 0, 1.15},
	{"", "", "lateness_defaults.p99_ms.vs_limit", "of that, by defaults that are resolved live", 0, 2},
	{"", "", "lateness_outage.p99_ms.vs_limit", "of that, in the two minutes after an outage", 0, 4},
	{"deadlines", "deadlines", "deadline.mark.10k.vs_limit", "of the rate of a bare loop", 0.8, 0},
	{"a restart", "a-restart", "restart.arm_100k.vs_list", "of a bare list", 0, 1.3},
	{"doing nothing", "doing-nothing", "idle.cpu_1m", "of 0.5% of a core", 0, 1},
}

// renderPage fills in the tables of the page: what stands between a marker and the next "<!-- end
// -->" is written again.
func renderPage(root, page string, older func(recordedResult) bool) (string, error) {
	all, err := readRecorded(root)
	if err != nil {
		return "", err
	}
	limits, err := readLimits(filepath.Join(root, gateLimits), gateRows)
	if err != nil {
		return "", err
	}
	const begin, end = "<!-- table: ", "<!-- end -->"
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(page, begin)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, closed := strings.Cut(rest, " -->\n")
		_, after, ended := strings.Cut(rest, end)
		if !closed || !ended {
			return "", fmt.Errorf("%s: the table %.20q does not end", performancePage, name)
		}
		table, err := renderTable(name, all, limits, older)
		if err != nil {
			return "", fmt.Errorf("%s: %w", performancePage, err)
		}
		out.WriteString(begin + name + " -->\n" + table + end)
		page = after
	}
}

// renderTable is one of: "goals", "code", "gate", or prefixes of the names of results.
func renderTable(name string, all []recordedResult, limits map[string]gateLimit, older func(recordedResult) bool) (string, error) {
	switch name {
	case "goals":
		return goalsTable(all, older)
	case "code":
		return codeTable(), nil
	case "gate":
		return gateTable(limits), nil
	}
	var shown []recordedResult
	for _, prefix := range strings.Fields(name) {
		for _, r := range all {
			if strings.HasPrefix(r.Name, prefix) {
				shown = append(shown, r)
			}
		}
	}
	if len(shown) == 0 {
		return "Nothing is recorded yet.\n", nil
	}
	return resultsTable(shown, older), nil
}

// resultsTable says below the table when all of it was measured, if that is the same for all.
func resultsTable(shown []recordedResult, older func(recordedResult) bool) string {
	first := shown[0].when(older)
	alike := !slices.ContainsFunc(shown, func(r recordedResult) bool { return r.when(older) != first })
	var b strings.Builder
	if alike {
		b.WriteString("| result | value | baseline | ratio |\n|---|---|---|---|\n")
	} else {
		b.WriteString("| result | value | baseline | ratio | measured |\n|---|---|---|---|---|\n")
	}
	for _, r := range shown {
		baseline := r.Baseline
		if r.BaselineValue != 0 {
			baseline = show(r.BaselineValue) + ", " + r.Baseline
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |", r.Name, amount(r.Value, r.Unit), baseline, r.ratio())
		if !alike {
			fmt.Fprintf(&b, " %s |", r.when(older))
		}
		b.WriteByte('\n')
	}
	if alike {
		fmt.Fprintf(&b, "\nMeasured %s.\n", first)
	}
	return b.String()
}

func goalsTable(all []recordedResult, older func(recordedResult) bool) (string, error) {
	var b strings.Builder
	b.WriteString("| what | result | goal | ratio | measured |\n|---|---|---|---|---|\n")
	for _, g := range goals {
		i := slices.IndexFunc(all, func(r recordedResult) bool { return r.Name == g.result })
		if i < 0 {
			return "", fmt.Errorf("no result is recorded for the goal %s", g.result)
		}
		r, demand, reached := all[i], fmt.Sprintf("at least %g", g.atLeast), all[i].Ratio >= g.atLeast
		if g.atMost > 0 {
			demand, reached = fmt.Sprintf("at most %g", g.atMost), r.Ratio <= g.atMost
		}
		ratio := r.ratio()
		if !reached {
			ratio += ", not reached"
		}
		what := g.what
		if g.anchor != "" {
			what = fmt.Sprintf("[%s](#%s)", g.what, g.anchor)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s %s | %s | %s |\n", what, g.result, demand, g.about, ratio, r.when(older))
	}
	return b.String(), nil
}

// codeTable lists the folders of each bench. Benches that measure the same code share a line.
func codeTable() string {
	byCode := map[string][]string{}
	for _, bench := range benches {
		code := strings.Join(benchCode[bench.name], ", ")
		byCode[code] = append(byCode[code], "`"+bench.name+"`")
	}
	var b strings.Builder
	b.WriteString("| benches | code |\n|---|---|\n")
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(byCode[code], ", "), code)
	}
	return b.String()
}

func gateTable(limits map[string]gateLimit) string {
	var b strings.Builder
	b.WriteString("| row | ratio | reached | limit | measured by |\n|---|---|---|---|---|\n")
	for _, row := range gateRows {
		l := limits[row.name]
		fmt.Fprintf(&b, "| `%s` | `%s` | %g | %s | `%s` |\n", row.name, row.result, l.Reached, l, row.args)
	}
	return b.String()
}

// ratio is the median, with the least and the greatest where they are recorded.
func (r recordedResult) ratio() string {
	if r.Low == 0 && r.High == 0 || r.Low == r.High {
		return show(r.Ratio)
	}
	return fmt.Sprintf("%s (%s–%s)", show(r.Ratio), show(r.Low), show(r.High))
}

// when says on which day, release and commit a number was measured.
func (r recordedResult) when(older func(recordedResult) bool) string {
	mark := ""
	if older(r) {
		mark = olderMark
	}
	commit := "before commits were recorded"
	if r.Commit != "" {
		commit = "commit " + r.Commit
	}
	return fmt.Sprintf("%s, Kubernetes %s, %s%s", r.Date, r.Kubernetes, commit, mark)
}

// amount is a number with its unit, which is not always recorded.
func amount(value float64, unit string) string {
	if value == 0 {
		return "-"
	}
	return strings.TrimSpace(show(value) + " " + unit)
}
