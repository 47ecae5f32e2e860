package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stat returns a /proc/<pid>/stat with the given command, state and start time.
func stat(command, state, started string) string {
	fields := []string{"7", "(" + command + ")", state}
	for len(fields) < 52 {
		fields = append(fields, "0")
	}
	fields[21] = started
	return strings.Join(fields, " ") + "\n"
}

func TestParseStat(t *testing.T) {
	for text, want := range map[string]string{
		stat("etcd", "S", "12345"):   "S 12345 <nil>",
		stat("a) R (b c", "Z", "77"): "Z 77 <nil>",
		"7 (etcd) S 1 2":             "\x00 0 only 3 fields behind the command in \"7 (etcd) S 1 2\"",
		"7":                          "\x00 0 no command in \"7\"",
		stat("etcd", "S", "x"):       `S 0 start time: strconv.ParseUint: parsing "x": invalid syntax`,
	} {
		state, started, err := parseStat(text)
		if have := fmt.Sprintf("%c %d %v", state, started, err); have != want && err == nil || err != nil && !strings.HasSuffix(want, err.Error()) {
			t.Errorf("%q: %s, want %s", text, have, want)
		}
	}
}

// fakeProc puts processes into a /proc of the test's own.
func fakeProc(t *testing.T) func(pid int, environ, stat string) {
	t.Helper()
	root := t.TempDir()
	before := procRoot
	procRoot = root
	t.Cleanup(func() { procRoot = before })
	return func(pid int, environ, stat string) {
		dir := filepath.Join(root, strconv.Itoa(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{"environ": environ, "stat": stat} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFindProcesses(t *testing.T) {
	put := fakeProc(t)
	ours := func(dir, component string) string {
		return "HOME=/\x00" + dirMark + "=" + dir + "\x00" + componentMark + "=" + component + "\x00"
	}
	put(30, ours("/c", "kwok"), stat("kwok", "S", "5"))
	put(4, ours("/c", "etcd"), stat("etcd", "R", "6"))
	put(5, ours("/c/d", "etcd"), stat("etcd", "S", "6"))                // another cluster, below ours
	put(6, ours("/c", "kube-apiserver"), stat("x", "Z", "6"))           // a zombie
	put(7, dirMark+"=/c\x00", stat("sh", "S", "6"))                     // no component
	put(8, "X="+dirMark+"=/c\x00"+componentMark+"=etcd\x00", "garbage") // not ours, unreadable
	put(9, "", "")
	if err := os.Mkdir(filepath.Join(procRoot, "sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := findProcesses("/c")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[0].pid != 4 || found[0].component != "etcd" || found[1].pid != 30 || found[1].component != "kwok" {
		t.Fatalf("found %+v, want etcd as 4 and kwok as 30", found)
	}
	if found[0].started != 6 {
		t.Errorf("etcd is %+v", found[0])
	}
}

// A pid that was given to another process, even to one of the same cluster, is not the process that
// was found.
func TestPIDReused(t *testing.T) {
	put := fakeProc(t)
	environ := dirMark + "=/c\x00" + componentMark + "=etcd\x00"
	put(4, environ, stat("etcd", "S", "6"))
	p, ok := identify(4, "/c")
	if !ok || !p.running("/c") {
		t.Fatal("not found while it runs")
	}
	put(4, environ, stat("etcd", "S", "99"))
	if p.running("/c") {
		t.Error("a later process with its pid passes for it")
	}
	put(4, "HOME=/\x00", stat("vim", "S", "6"))
	if p.running("/c") {
		t.Error("a stranger passes for it")
	}
}

// sleeper starts a process that ignores SIGTERM if told so, with the given environment, and reaps
// it.
func sleeper(t *testing.T, stubborn bool, environ ...string) *exec.Cmd {
	t.Helper()
	script := "echo up; while :; do sleep 1; done"
	if stubborn {
		script = "trap '' TERM; " + script
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It has set its trap when it speaks.
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { cmd.Wait(); close(reaped) }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-reaped
	})
	return cmd
}

func TestEnd(t *testing.T) {
	dir := t.TempDir()
	mark := []string{dirMark + "=" + dir, componentMark + "=etcd"}
	willing := sleeper(t, false, mark...)
	stubborn := sleeper(t, true, mark...)
	stranger := sleeper(t, false, dirMark+"="+dir+"2", componentMark+"=etcd")

	found, err := findProcesses(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Children of the shells carry the marks as well, and are ended as well.
	pids := map[int]bool{}
	for _, p := range found {
		pids[p.pid] = true
	}
	if !pids[willing.Process.Pid] || !pids[stubborn.Process.Pid] || pids[stranger.Process.Pid] {
		t.Fatalf("found %+v", found)
	}
	// Taken for one of ours by a stale note: it must live on.
	found = append(found, process{pid: stranger.Process.Pid, component: "etcd"})
	if err := end(dir, found, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{willing, stubborn} {
		if _, ok := identify(cmd.Process.Pid, dir); ok {
			t.Errorf("pid %d still runs", cmd.Process.Pid)
		}
	}
	if _, ok := identify(stranger.Process.Pid, dir+"2"); !ok {
		t.Error("a process that is not ours was ended")
	}
}
