package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Each component is started with these two variables in its environment. They are its identity: the
// kernel keeps them as long as the process lives, a process that was given the same pid later does
// not have them, and they need no file that a crash could leave unwritten. So neither a stale nor a
// missing cluster.json makes us end a stranger or overlook one of ours.
const (
	dirMark       = "CURFEW_LOCAL_CLUSTER"
	componentMark = "CURFEW_LOCAL_COMPONENT"
)

// procRoot is where the kernel tells about processes. Tests put their own there.
var procRoot = "/proc"

// process is a running component of a cluster.
type process struct {
	pid       int
	component string
	// started is in clock ticks since boot. Together with pid it is unique until the next boot.
	started uint64
}

// findProcesses returns the running components of the cluster in dir, an absolute path, sorted by
// pid. Zombies do not count: they hold neither ports nor files.
func findProcesses(dir string) ([]process, error) {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w (the local control plane needs Linux and its /proc)", err)
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := identify(pid, dir); ok {
			found = append(found, p)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].pid < found[j].pid })
	return found, nil
}

// identify says whether pid is, at this moment, a component of the cluster in dir, and which. A
// process that has just ended, or that belongs to another user, is not.
func identify(pid int, dir string) (process, bool) {
	base := filepath.Join(procRoot, strconv.Itoa(pid))
	environ, err := os.ReadFile(filepath.Join(base, "environ"))
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid}
	ours := false
	for _, variable := range bytes.Split(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(variable), "=")
		switch name {
		case dirMark:
			ours = value == dir
		case componentMark:
			p.component = value
		}
	}
	if !ours || p.component == "" {
		return process{}, false
	}
	stat, err := os.ReadFile(filepath.Join(base, "stat"))
	if err != nil {
		return process{}, false
	}
	var state byte
	state, p.started, err = parseStat(string(stat))
	if err != nil || state == 'Z' || state == 'X' {
		return process{}, false
	}
	return p, true
}

// parseStat reads the state (field 3) and the start time (22) of /proc/<pid>/stat, see proc(5). The
// second field is the command in parentheses and may itself hold spaces and parentheses, so fields
// count from the last.
func parseStat(stat string) (state byte, started uint64, err error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0, fmt.Errorf("no command in %q", stat)
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("only %d fields behind the command in %q", len(fields), stat)
	}
	if started, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return 0, 0, fmt.Errorf("start time: %w", err)
	}
	return fields[0][0], started, nil
}

// running says whether p is still the same process.
func (p process) running(dir string) bool {
	now, ok := identify(p.pid, dir)
	return ok && now.started == p.started
}

// signal sends sig to p, if it is still the process that was found. One that is gone is no error.
func (p process) signal(dir string, sig syscall.Signal) error {
	if !p.running(dir) {
		return nil
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s (pid %d): %w", sig, p.component, p.pid, err)
	}
	return nil
}

// end sends SIGTERM, and SIGKILL to processes that still run after patience. It returns when all
// are gone.
func end(dir string, processes []process, patience time.Duration) error {
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGTERM, patience}, {syscall.SIGKILL, 10 * time.Second}} {
		for _, p := range processes {
			if err := p.signal(dir, step.signal); err != nil {
				return err
			}
		}
		if gone(dir, processes, step.patience) {
			return nil
		}
	}
	return fmt.Errorf("processes of the cluster in %s outlive SIGKILL, look with `ps`", dir)
}

// gone waits until none of the processes runs any more, for at most patience.
func gone(dir string, processes []process, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for _, p := range processes {
		for p.running(dir) {
			if time.Now().After(deadline) {
				return false
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	return true
}
