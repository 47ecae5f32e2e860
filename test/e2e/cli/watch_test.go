package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// fields are a table without its spacing, one string a row.
func fields(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

func label(at time.Time) string { return at.UTC().Format("2006-01-02T150405Z") }

// TestWatchInPlace: on a terminal the table stays where it is; rows come, change and go as their
// objects do, and the time that is left runs. Ctrl-C ends it well.
func TestWatchInPlace(t *testing.T) {
	w := laid(t)
	w.space(t, "watched", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w.configMap(t, "watched", "first", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	screen := onTerminal(ctx, t, line{text: "kubectl curfew expiring -n watched --watch"})
	rowIs := func(at int, name, expires string) func([]string) bool {
		return func(lines []string) bool {
			shown := fields(lines)
			return len(shown) > at && strings.HasPrefix(shown[0], "NAME EXPIRES LEFT") && strings.HasPrefix(shown[at], "configmap/"+name+" "+expires)
		}
	}
	screen.awaitScreen(ctx, "first row", rowIs(1, "first", "2099-01-01 00:00:00 UTC"))
	w.configMap(t, "watched", "second", map[string]string{wellknown.LabelTTL: "2090-01-01"})
	screen.awaitScreen(ctx, "second object above it", rowIs(1, "second", "2090-01-01 00:00:00 UTC"))
	kubectl(t, "label -n watched configmap/first --overwrite "+wellknown.LabelTTL+"=2098-01-01")
	screen.awaitScreen(ctx, "new date", func(lines []string) bool {
		return rowIs(1, "first", "2098-01-01 00:00:00 UTC")(lines) || rowIs(2, "first", "2098-01-01 00:00:00 UTC")(lines)
	})
	// Curfew deletes the second one when its time has come, and its row goes.
	kubectl(t, "curfew expire-now configmap/second -n watched --yes")
	last := screen.awaitScreen(ctx, "end of the second", func(lines []string) bool { return len(lines) == 2 && rowIs(1, "first", "2098")(lines) })
	before := strings.Join(last, "\n")
	if strings.Contains(before, "<") {
		t.Errorf("the screen:\n%s", before)
	}
	screen.types("\x03")
	code, raw := screen.end()
	if code != 0 {
		t.Errorf("exit status %d after Ctrl-C", code)
	}
	if !strings.Contains(raw, "\x1b[2A\x1b[J") || !strings.Contains(raw, "\x1b[3A\x1b[J") {
		t.Errorf("it was not overwritten in place: %q", raw)
	}
}

// TestWatchLines: without a terminal, each change is a line.
func TestWatchLines(t *testing.T) {
	w := laid(t)
	w.space(t, "piped", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := (line{text: "exec kubectl curfew expiring configmaps -n piped --watch"}).command(ctx)
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(reader)
	next := func(want ...string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no more lines: %v", lines.Err())
		}
		have := strings.Fields(lines.Text())
		if strings.Contains(lines.Text(), "\x1b") || len(have) < len(want) || strings.Join(have[:len(want)], " ") != strings.Join(want, " ") {
			t.Fatalf("%q, want %v", lines.Text(), want)
		}
	}
	w.configMap(t, "piped", "one", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	next("EVENT", "NAME", "EXPIRES", "LEFT", "TRIGGER", "SOURCE", "BLOCKER")
	next("NEW", "configmap/one", "2099-01-01", "00:00:00", "UTC")
	kubectl(t, "curfew extend -n piped configmap/one --until 2100-01-01")
	next("CHANGED", "configmap/one", "2100-01-01", "00:00:00", "UTC")
	kubectl(t, "curfew keep -n piped configmap/one")
	next("GONE", "configmap/one", "2100-01-01", "00:00:00", "UTC")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

// TestWatchOutage: while the API server is away, whatever answers in its place, a terminal of 80
// columns shows the last rows and one line that says so. No row wraps, and the blocker is not cut.
func TestWatchOutage(t *testing.T) {
	w := laid(t)
	w.space(t, "away", nil)
	const name = "a-config-map-with-a-name-that-is-longer-than-most"
	w.configMap(t, "away", name, map[string]string{wellknown.LabelTTL: "2099-01-01", "away": "yes"})
	kubectl(t, "annotate configmap "+name+" -n away curfew.dev/protect=true")
	proxy, err := harness.NewProxy(suite.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	screen := onTerminal(ctx, t, line{text: `sh -c "stty cols 80; exec kubectl curfew expiring -A -l away=yes --watch"`, kubeconfig: through(t, proxy)})
	shows := func(first string, rows int) func([]string) bool {
		return func(lines []string) bool {
			for _, text := range lines {
				if utf8.RuneCountInString(text) > 80 {
					t.Fatalf("%d columns: %s", utf8.RuneCountInString(text), text)
				}
			}
			return len(lines) >= rows && strings.HasPrefix(lines[0], first) && strings.Count(strings.Join(lines, "\n"), "note:") == rows-2 &&
				strings.Contains(lines[rows-1], "confi") && strings.Contains(lines[rows-1], "...") && strings.HasSuffix(lines[rows-1], " protection")
		}
	}
	screen.awaitScreen(ctx, "the row", shows("NAMESPACE", 2))
	back := proxy.Handle(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "the load balancer has nowhere to go", http.StatusServiceUnavailable)
		return true
	})
	screen.awaitScreen(ctx, "the outage", shows("note: no answer since ", 3))
	back()
	screen.awaitScreen(ctx, "the row again", shows("NAMESPACE", 2))
	screen.types("\x03")
	if code, raw := screen.end(); code != 0 || strings.Contains(raw, "memcache") {
		t.Errorf("exit status %d: %q", code, raw)
	}
}
