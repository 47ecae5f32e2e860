package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit in which the kernel counts processor time, USER_HZ in proc(5).
const tick = time.Second / 100

// meter counts the processor time of named processes and of the machine from an instant on.
type meter struct {
	pids     map[string]int
	before   map[string]time.Duration
	busy     time.Duration // of the machine
	all      time.Duration
	children time.Duration
	// ended is what processes have taken in all that have ended meanwhile.
	ended map[string]time.Duration
}

func startMeter(pids map[string]int) (*meter, error) {
	m := &meter{pids: pids, before: map[string]time.Duration{}, ended: map[string]time.Duration{}}
	for name, pid := range pids {
		m.before[name], _ = cpuTime(pid)
	}
	var err error
	m.busy, m.all, m.children, err = machine()
	return m, err
}

// read returns what each process took since then for one of so many objects, in microseconds, and
// the share of the machine, 0 to 1, that other processes used.
func (m *meter) read(objects int) (cpu map[string]float64, others float64, err error) {
	busy, all, children, err := machine()
	if err != nil {
		return nil, 0, err
	}
	cpu = map[string]float64{}
	ours := children - m.children
	for name, before := range m.before {
		now, lives := cpuTime(m.pids[name])
		ours += now - before
		if took, ended := m.ended[name]; ended {
			now, lives = took, true
		}
		if lives {
			cpu[name] = round(float64((now - before).Microseconds()) / float64(objects))
		}
	}
	if all > m.all {
		others = round(max(0, float64(busy-m.busy-ours)/float64(all-m.all)))
	}
	return cpu, others, nil
}

// machine returns how much processor time was used and has passed, and what the children of this
// process used that have ended.
func machine() (busy, all, children time.Duration, err error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, 0, fmt.Errorf("read what the processors did: %w", err)
	}
	if busy, all, err = parseMachine(string(data)); err != nil {
		return 0, 0, 0, err
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0, 0, 0, fmt.Errorf("read what the children used: %w", err)
	}
	return busy, all, time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// parseMachine reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq
// and steal, proc(5).
func parseMachine(text string) (busy, all time.Duration, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q: that is no count of processor time", line)
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		all += time.Duration(n) * tick
		if i != 3 && i != 4 {
			busy += time.Duration(n) * tick
		}
	}
	return busy, all, nil
}

// cpuTime is the processor time that a process has used so far, and whether it lives.
func cpuTime(pid int) (time.Duration, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return parseProcess(string(data)), err == nil
}

// parseProcess reads user and system time, fields 14 and 15 of /proc/<pid>/stat. The name before
// them may hold anything.
func parseProcess(text string) time.Duration {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// processes are the control plane's, and the client.
func (e *environment) processes() map[string]int {
	pids := map[string]int{"client": os.Getpid()}
	for name, component := range e.state.Components {
		pids[name] = component.PID
	}
	return pids
}

func showCPU(values map[string]float64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, fmt.Sprintf("%s %.0f", name, values[name]))
	}
	return strings.Join(out, ", ")
}
