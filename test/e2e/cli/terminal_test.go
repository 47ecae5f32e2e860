package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is one that a person looks at and types into: a command runs on it, and what its screen
// shows can be asked.
type terminal struct {
	*testing.T
	master *os.File
	cmd    *exec.Cmd

	mu      sync.Mutex
	changed chan struct{}
	screen  screen
	raw     strings.Builder
	ended   bool
}

const columns, rows = 160, 24

// onTerminal starts a command line on a terminal of its own.
func onTerminal(ctx context.Context, t *testing.T, l line) *terminal {
	t.Helper()
	master, slave, err := pseudoTerminal()
	if err != nil {
		t.Fatal(err)
	}
	l.text = "exec " + l.text // Typed text goes to kubectl, and not to a shell around it.
	out := &terminal{T: t, master: master, cmd: l.command(ctx), changed: make(chan struct{})}
	out.cmd.Stdin, out.cmd.Stdout, out.cmd.Stderr = slave, slave, slave
	out.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = out.cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	go out.read()
	return out
}

func pseudoTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pseudo terminal: %w", err), master.Close())
	}
	return master, slave, nil
}

func (p *terminal) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := p.master.Read(buffer)
		p.mu.Lock()
		p.raw.Write(buffer[:n])
		p.screen.write(string(buffer[:n]))
		p.ended = err != nil
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// awaitScreen returns once the screen shows the wanted text.
func (p *terminal) awaitScreen(ctx context.Context, what string, wanted func(lines []string) bool) []string {
	p.Helper()
	for {
		p.mu.Lock()
		lines, changed, ended, raw := p.screen.shown(), p.changed, p.ended, p.raw.String()
		p.mu.Unlock()
		if wanted(lines) {
			return lines
		}
		if ended {
			p.Fatalf("it ended before %s; the screen:\n%s\nall of it: %q", what, strings.Join(lines, "\n"), raw)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			p.Fatalf("no %s; the screen:\n%s\nall of it: %q", what, strings.Join(lines, "\n"), raw)
		}
	}
}

// types sends keys.
func (p *terminal) types(keys string) {
	p.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.Fatal(err)
	}
}

// end waits for the command, and returns its exit status and all that it wrote.
func (p *terminal) end() (code int, raw string) {
	p.Helper()
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		p.Fatal(err)
	}
	for {
		p.mu.Lock()
		ended, changed, raw := p.ended, p.changed, p.raw.String()
		p.mu.Unlock()
		if ended {
			p.master.Close()
			return p.cmd.ProcessState.ExitCode(), raw
		}
		<-changed
	}
}

// screen understands as much of what terminals do as kubectl curfew makes use of.
type screen struct {
	lines   [][]rune
	row, at int
	escape  string
}

func (s *screen) shown() []string {
	var out []string
	for _, line := range s.lines {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

func (s *screen) write(text string) {
	for _, r := range text {
		s.put(r)
	}
}

func (s *screen) put(r rune) {
	for len(s.lines) <= s.row {
		s.lines = append(s.lines, nil)
	}
	switch {
	case s.escape != "":
		if s.escape += string(r); s.escape != "\x1b[" && (r < '0' || r > '9') {
			s.control(s.escape)
			s.escape = ""
		}
	case r == '\x1b':
		s.escape = "\x1b"
	case r == '\r':
		s.at = 0
	case r == '\n':
		s.row++
	default:
		for len(s.lines[s.row]) <= s.at {
			s.lines[s.row] = append(s.lines[s.row], ' ')
		}
		s.lines[s.row][s.at] = r
		if s.at++; s.at > columns {
			s.lines[s.row] = append(s.lines[s.row], []rune("<too wide>")...)
		}
	}
}

func (s *screen) control(sequence string) {
	if sequence != "\x1b[K" {
		s.lines[s.row] = append(s.lines[s.row], []rune(fmt.Sprintf("<unknown %q>", sequence))...)
		return
	}
	s.lines[s.row] = s.lines[s.row][:min(s.at, len(s.lines[s.row]))]
}
