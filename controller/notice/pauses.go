package notice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
)

const (
	// ReasonGoOn is the reason of the condition and of the Event that say that deletions go on.
	ReasonGoOn = "DeletionsGoOn"
	// actionPause is the action of Events about pauses.
	actionPause = "Pause"

	// lasting is how long a pause of everything has to last before it shows on every source: a clock that was set is over in a second or
	// two, and a thousand namespaces need not tell of it.
	lasting = 10 * time.Second
	// settled is how long after its start Curfew takes back the conditions that one before it left behind and that it has found no reason
	// for itself.
	settled = 2 * time.Minute
	// pace is the least time between two writes: pauses come when the API server has trouble enough.
	pace = 20 * time.Millisecond
	// retryFirst and retryMost bound the wait after a write that failed.
	retryFirst = time.Second
	retryMost  = time.Minute
	// retryKnow is that of a read that failed.
	retryKnow = 10 * time.Second
	// scopesMost is how many scopes a message names.
	scopesMost = 3
)

// Conditions writes the condition on one kind of source.
type Conditions interface {
	// Write writes the condition Paused of one source, under the name that it has there. What does not exist is no error.
	Write(ctx context.Context, name string, condition metav1.Condition) error
	// Left are the sources on which the condition is True, whoever wrote it.
	Left(ctx context.Context) ([]string, error)
	// All are the sources that a pause of everything concerns.
	All() []string
}

// PauseOptions are those of [Pauses]. All are required.
type PauseOptions struct {
	Recorder             events.EventRecorder
	Namespaces, Policies Conditions
	UIDs                 UIDs
	// Own is Curfew's own namespace. Pauses that are no single source's have their Event there.
	Own   string
	Clock clock.Clock
	Log   logr.Logger
}

// Pauses tell sources that their deletions are paused.
type Pauses struct {
	options PauseOptions
	wake    chan struct{}

	mu      sync.Mutex
	open    map[string]pause // by BreakerEvent.Scope
	everyTo time.Time        // when a pause of everything began that is not over, zero if there is none
	pending map[Target]bool

	// What follows is the loop's alone.
	written map[Target]metav1.Condition
	every   bool // the pause of everything shows on every source
	began   time.Time
	swept   bool
	known   bool // what others left behind is known
	retry   time.Duration
}

type pause struct {
	engine.BreakerEvent
	began time.Time
}

// NewPauses makes pauses that are written by Run; Events are written at once.
func NewPauses(options PauseOptions) *Pauses {
	options.Log = options.Log.WithName("notice")
	return &Pauses{options: options, wake: make(chan struct{}, 1), open: map[string]pause{}, pending: map[Target]bool{}, written: map[Target]metav1.Condition{}}
}

// everything tells whether a pause is no single source's.
func everything(e *engine.BreakerEvent) bool { return e.Source == "" }

// Breaker takes what the engine says of a pause. It does not block.
func (p *Pauses) Breaker(e engine.BreakerEvent) {
	target := Target{Name: p.options.Own}
	if !everything(&e) {
		target = targetOf(e.Source, e.Namespace)
	}
	if target.Name != "" {
		kind, reason := corev1.EventTypeNormal, ReasonGoOn
		if e.Open {
			kind, reason = corev1.EventTypeWarning, e.Reason
		}
		reference := target.reference(p.options.UIDs)
		p.options.Recorder.Eventf(&reference, nil, kind, reason, actionPause, "%s", e.Message)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.open[e.Scope]; !e.Open {
		delete(p.open, e.Scope)
	} else if ok {
		p.open[e.Scope] = pause{e, old.began}
	} else {
		p.open[e.Scope] = pause{e, p.options.Clock.Now()}
	}
	p.everyTo = time.Time{}
	for _, one := range p.open {
		if everything(&one.BreakerEvent) && (p.everyTo.IsZero() || one.began.Before(p.everyTo)) {
			p.everyTo = one.began
		}
	}
	if !everything(&e) && target.Name != "" {
		p.pending[target] = true
	}
	p.again()
}

// again has the loop look.
func (p *Pauses) again() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run writes conditions until ctx is done.
func (p *Pauses) Run(ctx context.Context) error {
	p.began = p.options.Clock.Now()
	timer := p.options.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C():
		}
		timer.Reset(p.pass(ctx))
	}
}

// pass writes what is not as it should be, and tells when to look again.
func (p *Pauses) pass(ctx context.Context) time.Duration {
	now := p.options.Clock.Now()
	next := time.Hour
	if !p.swept {
		if !p.known {
			p.know(ctx)
		}
		if wait := p.began.Add(settled).Sub(now); wait > 0 || !p.known {
			next = max(wait, retryKnow)
		} else {
			p.swept = true
			p.againAll()
		}
	}
	p.mu.Lock()
	since := p.everyTo
	p.mu.Unlock()
	every := !since.IsZero() && now.Sub(since) >= lasting
	if !since.IsZero() && !every {
		next = min(next, lasting-now.Sub(since))
	}
	if every != p.every {
		p.every = every
		p.againAll()
	}
	failed := false
	for _, target := range p.take() {
		if err := p.settle(ctx, target); err != nil {
			if ctx.Err() != nil {
				return next
			}
			failed = true
			p.options.Log.Info("could not write the condition of a pause, trying again", "source", target.Name, "policy", target.Policy, "reason", err.Error())
			p.mu.Lock()
			p.pending[target] = true
			p.mu.Unlock()
			break // the next would most likely fail too
		}
	}
	if !failed {
		p.retry = 0
		return next
	}
	p.retry = min(retryMost, max(retryFirst, 2*p.retry))
	return min(next, p.retry)
}

// know asks what others left behind. Until it is known, nothing is taken back.
func (p *Pauses) know(ctx context.Context) {
	for _, policies := range []bool{true, false} {
		left, err := p.of(policies).Left(ctx)
		if err != nil {
			p.options.Log.V(1).Info("could not read which sources are paused, trying again", "reason", err.Error())
			return
		}
		for _, name := range left {
			target := Target{Policy: policies, Name: name}
			if _, ok := p.written[target]; !ok {
				p.written[target] = metav1.Condition{Status: metav1.ConditionTrue}
			}
		}
	}
	p.known = true
}

func (p *Pauses) of(policies bool) Conditions {
	if policies {
		return p.options.Policies
	}
	return p.options.Namespaces
}

// againAll has every source looked at on which the condition is, or has to be.
func (p *Pauses) againAll() {
	var all []Target
	if p.every {
		for _, policies := range []bool{false, true} {
			for _, name := range p.of(policies).All() {
				all = append(all, Target{Policy: policies, Name: name})
			}
		}
	}
	for target, condition := range p.written {
		if condition.Status == metav1.ConditionTrue {
			all = append(all, target)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, target := range all {
		p.pending[target] = true
	}
}

func (p *Pauses) take() []Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Target, 0, len(p.pending))
	for target := range p.pending {
		out = append(out, target)
	}
	return out
}

// settle brings the condition of one source in step.
func (p *Pauses) settle(ctx context.Context, target Target) error {
	p.mu.Lock()
	delete(p.pending, target) // what comes from now on is news
	p.mu.Unlock()
	want := p.condition(target)
	was, ever := p.written[target]
	if want.Status == metav1.ConditionFalse && (!ever || was.Status == metav1.ConditionFalse) ||
		ever && was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message {
		return nil
	}
	want.LastTransitionTime = metav1.NewTime(p.options.Clock.Now())
	if ever && was.Status == want.Status && !was.LastTransitionTime.IsZero() {
		want.LastTransitionTime = was.LastTransitionTime
	}
	if err := p.of(target.Policy).Write(ctx, target.Name, want); err != nil {
		return fmt.Errorf("writing the condition Paused: %w", err)
	}
	if want.Status == metav1.ConditionFalse {
		delete(p.written, target)
	} else {
		p.written[target] = want
	}
	timer := p.options.Clock.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
	return nil
}

// condition is what holds of a source now.
func (p *Pauses) condition(target Target) metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	var scopes []pause
	for _, one := range p.open {
		if everything(&one.BreakerEvent) && p.every || !everything(&one.BreakerEvent) && targetOf(one.Source, one.Namespace) == target {
			scopes = append(scopes, one)
		}
	}
	if len(scopes) == 0 {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonGoOn, Message: "deletions go on"}
	}
	slices.SortFunc(scopes, func(a, b pause) int { return strings.Compare(a.Message, b.Message) })
	var messages []string
	for i, one := range scopes {
		if i == scopesMost {
			messages = append(messages, fmt.Sprintf("and %d more", len(scopes)-i))
			break
		}
		messages = append(messages, one.Message)
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: scopes[0].Reason, Message: strings.Join(messages, "; ")}
}
