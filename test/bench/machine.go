package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit in which the kernel counts processor time, USER_HZ in proc(5).
const tick = time.Second / 100

// ticks are counts of processor time.
type ticks struct {
	// all is the time of all processors, idle the part of it in which nothing ran, ours what the
	// measured processes used.
	all, idle, ours int64
}

// clock reads how much processor time has passed, and how much of it these processes used. One that
// has ended counts nothing.
func clock(pids []int) (ticks, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, fmt.Errorf("read what the processors did: %w", err)
	}
	t, err := parseMachine(string(data))
	if err != nil {
		return ticks{}, err
	}
	for _, pid := range pids {
		if data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
			t.ours += parseProcess(string(data))
		}
	}
	return t, nil
}

// clockOfRow is clock for whole benches: the control plane, this process, and all that it started
// and that has ended.
func (e *environment) clockOfRow() (ticks, error) {
	pids := []int{os.Getpid()}
	for _, component := range e.state.Components {
		pids = append(pids, component.PID)
	}
	t, err := clock(pids)
	if err != nil {
		return t, err
	}
	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		return t, fmt.Errorf("read what the children used: %w", err)
	}
	t.ours += (children.Utime.Nano() + children.Stime.Nano()) / int64(tick)
	return t, nil
}

// parseMachine reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq
// and steal, proc(5).
func parseMachine(text string) (t ticks, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat begins with %q: that is no count of processor time", line)
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		t.all += n
		if i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, nil
}

// parseProcess reads user and system time, fields 14 and 15 of /proc/<pid>/stat. The name before
// them may hold anything.
func parseProcess(text string) int64 {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system
}

// used is the processor time that each of some processes has taken so far. One that has ended took
// none.
func used(pids map[string]int) map[string]time.Duration {
	out := map[string]time.Duration{}
	for name, pid := range pids {
		if data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
			out[name] = time.Duration(parseProcess(string(data))) * tick
		}
	}
	return out
}

// perObject is what each took since then for one of so many objects, in microseconds.
func perObject(from, to map[string]time.Duration, objects int) map[string]float64 {
	out := map[string]float64{}
	for name, was := range from {
		if is, there := to[name]; there {
			out[name] = round(float64((is - was).Microseconds()) / float64(objects))
		}
	}
	return out
}

// others is the share of the machine, 0 to 1, that was used by processes that are not measured.
func others(from, to ticks) float64 {
	all := to.all - from.all
	if all <= 0 {
		return 0
	}
	return max(0, float64(all-(to.idle-from.idle)-(to.ours-from.ours))/float64(all))
}
