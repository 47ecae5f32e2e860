package tally

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
)

// pool sends the patches of all tallies. How many are under way follows from the latency, and each
// tally that has some gets its turn: one with many Pods does not delay one with few.
type pool struct {
	clock clock.PassiveClock
	began time.Time

	mu       sync.Mutex
	pace     *deletion.Concurrency
	inFlight int
	shares   []*share
}

// maxConcurrency bounds the patches that are under way.
const maxConcurrency = 64

// share are the patches of one tally.
type share struct {
	ctx  context.Context
	left []func(context.Context) (refused bool)
	open int // begun and not answered
	done chan struct{}
}

func newPool(clock clock.PassiveClock) *pool {
	return &pool{clock: clock, began: clock.Now(), pace: deletion.NewConcurrency(maxConcurrency, true)}
}

// run sends all patches, and returns when they are answered. Those that have not begun when ctx
// ends are left out. A patch reports whether the API server had too much to do.
func (p *pool) run(ctx context.Context, all []func(context.Context) (refused bool)) {
	if len(all) == 0 {
		return
	}
	s := &share{ctx: ctx, left: all, done: make(chan struct{})}
	p.mu.Lock()
	p.shares = append(p.shares, s)
	p.begin()
	p.mu.Unlock()
	<-s.done
}

// begin begins as many patches as may be under way, one of each tally in turn. The lock is held.
func (p *pool) begin() {
	for p.inFlight < p.pace.Limit() && len(p.shares) > 0 {
		s := p.shares[0]
		p.shares = p.shares[1:]
		if s.ctx.Err() != nil {
			s.left = nil
		}
		if len(s.left) == 0 {
			if s.open == 0 {
				close(s.done)
			}
			continue
		}
		next := s.left[0]
		s.left = s.left[1:]
		s.open++
		p.inFlight++
		p.shares = append(p.shares, s)
		go p.send(s, next)
	}
}

func (p *pool) send(s *share, patch func(context.Context) bool) {
	began := p.clock.Now()
	refused := patch(context.WithoutCancel(s.ctx))
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.Observe(deletion.Sample{At: now.Sub(p.began), Latency: now.Sub(began), InFlight: p.inFlight, Refused: refused})
	p.inFlight--
	s.open--
	if s.open == 0 && len(s.left) == 0 && !slices.Contains(p.shares, s) { // begin closes a share in the line.
		close(s.done)
	}
	p.begin()
}

// overloaded reports whether an error says that fewer requests should be under way. An admission
// webhook's says nothing about the API server.
func overloaded(err error) bool {
	if out, _ := deletion.FailureOf(err); out.Origin == deletion.FromAdmission {
		return false
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, context.DeadlineExceeded)
}

// refused reports whether an error says that a write has not happened and never will.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err)
}

// failures collects the errors of one round.
type failures struct {
	mu    sync.Mutex
	first error
	count int
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if f.first == nil {
		f.first = err
	}
}

func (f *failures) error() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 1 {
		return fmt.Errorf("%d Pods, the first: %w", f.count, f.first)
	}
	return f.first
}
