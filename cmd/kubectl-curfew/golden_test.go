package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// golden is a section of a file in testdata/golden, which has one file for each command:
//
//	=== NAME
//	# the user may not: VERB RESOURCE, VERB RESOURCE
//	# no user may: VERB RESOURCE, VERB RESOURCE
//	# at a terminal
//	# cluster: installed, empty or none (by default that of testdata/cluster)
//	< a line of standard input
//	$ kubectl curfew COMMAND LINE
//	what it prints on standard output
//	--- stderr, exit status N
//	what it prints on standard error
//	--- patches
//	the changes that it sends
//
// Every section is a test. Go test -update writes what follows the command line.
type golden struct {
	scene
	cluster string
	args    []string
	head    string // up to the command line, and with it
	want    string
}

var (
	section = regexp.MustCompile(`(?m)^=== (\S+)\n((?:[#<].*\n)*\$ kubectl curfew (.*)\n)`)
	unquote = strings.NewReplacer("'", "")
)

// goldens are the sections of a file, in their order.
func goldens(t testing.TB, file string) (names []string, out map[string]golden) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	out = map[string]golden{}
	found := section.FindAllStringSubmatchIndex(string(text), -1)
	if len(found) != strings.Count("\n"+string(text), "\n=== ") || len(found) == 0 || found[0][0] != 0 {
		t.Fatalf("%s: no golden, or a section without a name and a command line", file)
	}
	for i, values := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		test := golden{head: string(text[values[4]:values[5]]), want: string(text[values[1]:end])}
		for line := range strings.Lines(test.head) {
			test.read(t, strings.TrimSuffix(line, "\n"))
		}
		name := string(text[values[2]:values[3]])
		if _, twice := out[name]; twice {
			t.Errorf("%s: there are two goldens %s", file, name)
		}
		names, out[name] = append(names, name), test
	}
	return names, out
}

func (g *golden) read(t testing.TB, line string) {
	t.Helper()
	switch key, value, _ := strings.Cut(line, ": "); {
	case strings.HasPrefix(line, "<"):
		g.stdin += strings.TrimPrefix(strings.TrimPrefix(line, "<"), " ") + "\n"
	case strings.HasPrefix(line, "$ "):
		for _, word := range shellWord.FindAllString(line, -1)[3:] {
			g.args = append(g.args, unquote.Replace(word))
		}
	case key == "# the user may not":
		g.notMine = strings.Split(value, ", ")
	case key == "# no user may":
		g.notAllowed = strings.Split(value, ", ")
	case key == "# cluster":
		g.cluster = value
	case line == "# at a terminal":
		g.terminal = true
	default:
		t.Errorf("not the head of a golden: %s", line)
	}
}

func goldenFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens (%v)", err)
	}
	return files
}

func TestGolden(t *testing.T) {
	for _, file := range goldenFiles(t) {
		names, sections := goldens(t, file)
		var written strings.Builder
		for _, name := range names {
			test := sections[name]
			have := test.want
			t.Run(name, func(t *testing.T) {
				if have = test.run(t); have != test.want && !*update {
					t.Errorf("%shave\n%s\nwant\n%s", test.head, have, test.want)
				}
			})
			fmt.Fprintf(&written, "=== %s\n%s%s", name, test.head, have)
		}
		if *update {
			must(t, os.WriteFile(file, []byte(written.String()), 0o644))
		}
	}
}

func (g *golden) run(t *testing.T) string {
	t.Helper()
	cluster := newFakeCluster(t, objects(t))
	switch g.cluster {
	case "installed":
		cluster = healthy(t).cluster(t)
	case "empty":
		cluster = uninstalled(t, false)
	case "none":
		cluster.away = errors.New("no cluster")
	}
	code, stdout, stderr, patched := executeIn(t, cluster, g.scene, g.args...)
	out := fmt.Sprintf("%s--- stderr, exit status %d\n%s", stdout, code, stderr)
	if len(patched) > 0 {
		out += "--- patches\n" + strings.Join(patched, "\n") + "\n"
	}
	return out
}
