package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows on a terminal what a command does, after a second. Everything else for the same
// stream is written through it, so that the two do not share a line.
type progress struct {
	out io.Writer

	mu    sync.Mutex
	text  string
	shown bool
	ended bool
	timer *time.Timer
}

// quietFor passes before the first line; tick is how often the line is updated.
const (
	quietFor = time.Second
	tick     = 200 * time.Millisecond
)

func newProgress(env environment, out io.Writer) *progress {
	p := &progress{out: out}
	if env.terminal(out) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(quietFor, p.show)
	}
	return p
}

// say sets the text.
func (p *progress) say(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, values...)
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s...", p.text)
	p.shown = true
	p.timer.Reset(tick)
}

// Write implements io.Writer. It clears the line, which comes back with the next tick.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// again restarts after done.
func (p *progress) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.ended {
		p.timer.Reset(quietFor)
	}
	p.ended = false
}

// done removes the line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.clear()
}

func (p *progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
