package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says on a terminal what is being done, once it has taken a second; elsewhere it says nothing.
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
		p.timer = time.AfterFunc(quietFor, p.show)
	}
	return p
}

// say notes what is being done now.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
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

// done takes away what was said.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
