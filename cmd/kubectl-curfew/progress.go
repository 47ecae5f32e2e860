package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says on a terminal what is being done, once it has taken a second; elsewhere it says nothing. What else is written to the
// same stream goes through it, so that the two do not stand in one line.
type progress struct {
	out io.Writer

	mu    sync.Mutex
	text  string
	shown bool
	ended bool
	timer *time.Timer
}

// quietFor is how long nothing is said; tick is how often what is said is brought up to date.
const (
	quietFor = time.Second
	tick     = 200 * time.Millisecond
)

func newProgress(around surroundings, out io.Writer) *progress {
	p := &progress{out: out}
	if around.terminal(out) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(quietFor, p.show)
	}
	return p
}

// say notes what is being done now.
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

// Write implements io.Writer: what is said of the progress makes room, and comes again.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// again begins anew, after done.
func (p *progress) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.ended {
		p.timer.Reset(quietFor)
	}
	p.ended = false
}

// done takes away what was said.
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
