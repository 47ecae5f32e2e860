package house

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write today's numbers to ratchet.json")

// ratchetFile lists, for each limit, all that exceeds it today, and by how much. A number there may
// only fall: TestLimits fails where the code has more, and also where it has less, so that a better
// number is kept. `go test ./test/house -update` writes the file; the diff then shows what rose.
const ratchetFile = "ratchet.json"

// finding is one measured number and a place that shows it.
type finding struct {
	size int
	at   string
}

// findings maps the name of a file, function, package or folder to its number.
type findings map[string]finding

// add raises the number of name.
func (f findings) add(name string, by int, at string) {
	known, ok := f[name]
	if !ok || known.size == 0 {
		known.at = at
	}
	known.size += by
	f[name] = known
}

// limit is one rule about a size.
type limit struct {
	name    string // its key in ratchet.json
	most    int
	fix     string
	measure func(*testing.T, []source) findings
}

func TestLimits(t *testing.T) {
	all := sources(t)
	known, today := readRatchet(t), map[string]map[string]int{}
	for _, l := range limits {
		today[l.name] = map[string]int{}
		t.Run(l.name, func(t *testing.T) {
			found := l.measure(t, all)
			if len(found) == 0 {
				t.Fatal("measures nothing")
			}
			for name, f := range found {
				if f.size > l.most {
					today[l.name][name] = f.size
				}
				l.compare(t, name, f, known[l.name][name])
			}
			for name := range known[l.name] {
				if _, ok := found[name]; !ok && !*update {
					t.Errorf("%s is gone: go test ./test/house -update", name)
				}
			}
		})
	}
	if *update {
		writeRatchet(t, today)
	}
}

// compare fails for a number that differs from the one in ratchet.json. With -update it only logs.
func (l *limit) compare(t *testing.T, name string, f finding, excepted int) {
	t.Helper()
	report := t.Errorf
	if *update {
		report = t.Logf
	}
	switch {
	case f.size > max(l.most, excepted):
		report("%s: %d, at most %d: %s (%s)", name, f.size, max(l.most, excepted), l.fix, f.at)
	case f.size < excepted:
		report("%s: fell from %d to %d: keep that with go test ./test/house -update", name, excepted, f.size)
	}
}

func readRatchet(t *testing.T) map[string]map[string]int {
	t.Helper()
	data, err := os.ReadFile(ratchetFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	known := map[string]map[string]int{}
	if err := json.Unmarshal(data, &known); err != nil && !*update {
		t.Fatalf("%s: %v", ratchetFile, err)
	}
	for name := range known {
		if !slices.ContainsFunc(limits, func(l limit) bool { return l.name == name }) && !*update {
			t.Errorf("%s: there is no limit %q", ratchetFile, name)
		}
	}
	return known
}

func writeRatchet(t *testing.T, today map[string]map[string]int) {
	t.Helper()
	data, err := json.MarshalIndent(today, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ratchetFile, fmt.Appendln(data), 0o644); err != nil {
		t.Fatal(err)
	}
}
