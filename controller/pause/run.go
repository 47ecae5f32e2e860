package pause

import (
	"context"
	"fmt"
	"sync"
	"time"

	"curfew.dev/curfew/policy/judging"
)

// Run reads until ctx is done.
func (g *Gate) Run(ctx context.Context) error {
	var reads sync.WaitGroup
	defer reads.Wait()
	free := make(chan struct{}, maxReads)
	timer := g.options.Clock.NewTimer(idleEvery)
	defer timer.Stop()
	for {
		if wait := g.next(); wait <= 0 {
			select {
			case free <- struct{}{}:
				sent := g.options.Clock.Now()
				g.begin(sent)
				reads.Go(func() { g.read(ctx, sent); <-free })
				continue
			default:
				timer.Reset(readEvery)
			}
		} else {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-g.kick:
		case <-timer.C():
		}
	}
}

// next is how long until the next read.
func (g *Gate) next() time.Duration {
	now := g.options.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	every := readEvery
	switch {
	case g.began.IsZero():
		return 0
	case !now.Before(g.wanted):
		every = idleEvery
	case g.shown.Unread == "" && g.shown.all(), g.shown.Unread != "" && age(now, g.good) > 2*slowEvery:
		every = slowEvery
	}
	return every - age(now, g.began)
}

func (g *Gate) begin(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began = sent
}

// read makes one read. Its age counts from its sending: a pause that is accepted while the answer
// is on its way is not in it.
func (g *Gate) read(ctx context.Context, sent time.Time) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pauses, err := g.options.Read(reading)
	if ctx.Err() != nil {
		return
	}
	if took := age(g.options.Clock.Now(), sent); err == nil && took >= maxAge {
		err = fmt.Errorf("the answer took %s", took.Round(time.Millisecond))
	}
	if g.answer(sent, pauses, err) {
		g.report()
	}
}

// answer takes the answer of a read, and reports whether something else is held than was logged.
// A read that was sent before another one that succeeded or failed likewise says nothing new.
func (g *Gate) answer(sent time.Time, pauses []judging.Pause, err error) (changed bool) {
	now := g.options.Clock.Now()
	g.mu.Lock()
	switch {
	case err == nil && sent.After(g.good):
		g.good, g.pauses = sent, pauses
	case err != nil && sent.After(g.bad):
		g.bad, g.why = sent, err
	}
	if g.show(now) && g.shown.Version != g.reported {
		g.reported, changed = g.shown.Version, true
	}
	close(g.answered)
	g.answered = make(chan struct{})
	wake := g.wake
	g.mu.Unlock()
	if wake != nil {
		wake()
	}
	return changed
}

// report logs a change.
func (g *Gate) report() {
	view, _ := g.Last()
	switch {
	case view.Unread != "":
		g.options.Log.Info("deletions and stops are paused: whether a pause is in effect cannot be read", "reason", view.Unread)
	case len(view.held) > 0:
		g.options.Log.Info("deletions and stops are paused", "pauses", view.Messages())
	default:
		g.options.Log.Info("no pause is in effect")
	}
	if g.options.Changed != nil {
		g.options.Changed()
	}
}
