package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// screen writes for people, in colour where it is a terminal that wants it.
type screen struct {
	out    io.Writer
	colour bool
}

func newScreen(file *os.File) *screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: file, colour: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

const (
	bold  = "1"
	dim   = "2"
	green = "32"
	red   = "31"
	amber = "33"
	cyan  = "36"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) line(text string) { fmt.Fprintln(s.out, text) }

// note says what goes on behind the scene.
func (s *screen) note(text string) { s.line(s.paint(dim, "· "+text)) }

// heading begins a chapter.
func (s *screen) heading(text string) { s.line("\n" + s.paint(bold, "# "+text)) }

func (s *screen) command(text string) { s.line(s.paint(cyan, "$ ") + text) }

func (s *screen) good(text string) { s.line(s.paint(green, "✓ ") + text) }
func (s *screen) bad(text string)  { s.line(s.paint(red, "✗ ") + text) }

// output shows what a command printed.
func (s *screen) output(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case line == "" && text == "":
		case strings.HasPrefix(line, "Warning:"):
			s.line(s.paint(amber, line))
		case strings.HasPrefix(line, "Error "):
			s.line(s.paint(red, line))
		default:
			s.line(line)
		}
	}
}

// quiet passes on what the cluster command says of a long build, and keeps the rest back, which is
// for scripts.
func (s *screen) quiet() io.Writer { return &builds{screen: s} }

type builds struct {
	screen *screen
	rest   []byte
}

func (b *builds) Write(data []byte) (int, error) {
	b.rest = append(b.rest, data...)
	for {
		line, rest, ok := bytes.Cut(b.rest, []byte("\n"))
		if !ok {
			return len(data), nil
		}
		b.rest = rest
		if text := string(line); !strings.HasPrefix(text, "export ") {
			b.screen.note(text)
		}
	}
}
