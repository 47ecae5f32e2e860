package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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

func label(t time.Time) string { return t.UTC().Format("2006-01-02T150405Z") }

// TestWatchLines: each change is a line.
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

// TestWatchOutage: while the API server is away, whatever answers in its place, one line says so, and
// no row changes.
func TestWatchOutage(t *testing.T) {
	w := laid(t)
	w.space(t, "away", nil)
	w.configMap(t, "away", "away", map[string]string{wellknown.LabelTTL: "2099-01-01", "away": "yes"})
	proxy, err := harness.NewProxy(suite.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	screen := onTerminal(ctx, t, line{text: "kubectl curfew expiring -A -l away=yes --watch", kubeconfig: through(t, proxy)})
	shows := func(starts ...string) func([]string) bool {
		return func(lines []string) bool { return slices.EqualFunc(lines, starts, strings.HasPrefix) }
	}
	screen.awaitScreen(ctx, "the row", shows("EVENT", "NEW"))
	back := proxy.Handle(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "the load balancer has nowhere to go", http.StatusServiceUnavailable)
		return true
	})
	screen.awaitScreen(ctx, "the outage", shows("EVENT", "NEW", "note: no answer since "))
	back()
	kubectl(t, "curfew extend -n away configmap/away --until 2100-01-01")
	screen.awaitScreen(ctx, "the change", shows("EVENT", "NEW", "note: no answer since ", "CHANGED"))
	screen.types("\x03")
	if code, raw := screen.end(); code != 0 || strings.Contains(raw, "memcache") {
		t.Errorf("exit status %d: %q", code, raw)
	}
}
