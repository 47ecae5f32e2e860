package console

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress shows on a terminal what a command does, after a second. Everything else for the same
// stream is written through it, so that the two do not share a line.
type Progress struct {
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

func NewProgress(env Environment, out io.Writer) *Progress {
	p := &Progress{out: out}
	if env.Terminal(out) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(quietFor, p.show)
	}
	return p
}

// Say sets the text.
func (p *Progress) Say(format string, values ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, values...)
}

func (p *Progress) show() {
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
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// Again restarts after done.
func (p *Progress) Again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.ended {
		p.timer.Reset(quietFor)
	}
	p.ended = false
}

// Done removes the line.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.clear()
}

func (p *Progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
