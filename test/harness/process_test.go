package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// began counts the starts of a program that writes a line at each.
func began(t *testing.T, file string, atLeast int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := Poll(ctx, file+" to grow", func(context.Context) (bool, error) {
		data, _ := os.ReadFile(file)
		return strings.Count(string(data), "began\n") >= atLeast, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that ended, as a controller does that lost its Lease, runs again until its supervisor
// stops.
func TestKeepRunning(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	first, err := startProcess("one", log, false, nil, "sh", "-c", "echo began; [ $(wc -l <"+log+") -gt 2 ] || exit 7; exec sleep 600")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var messages []string
	ended := make(chan error)
	go func() { ended <- first.KeepRunning(ctx, func(line string) { messages = append(messages, line) }) }()
	began(t, log, 3)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := "one ended (exit status 7) and is started again in 2s; see " + log; len(messages) != 2 || messages[0] != want {
		t.Errorf("said %q, want %q twice", messages, want)
	}
}

// What make up started runs again when it has ended, too, until make down stops it and nothing else.
func TestDetachedRunsAgain(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	_, err := startProcess("one", log, true, []string{mark + "=" + dir}, "sh", "-c", again, "sh", "sh", "-c", "echo began; sleep 0.1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := startProcess("other", log, false, []string{mark + "=" + dir + "2"}, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	began(t, log, 2)
	if err := StopDetached(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if left := marked(dir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if len(marked(dir+"2")) != 1 {
		t.Error("a process of another folder was ended")
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
}
