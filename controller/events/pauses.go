package events

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
)

const (
	// ReasonResumed is the reason of the condition and of the Event at the end of a pause.
	ReasonResumed = "DeletionsResumed"
	// actionPause is the action of Events about pauses.
	actionPause = "Pause"

	// lasting is how long a pause of everything has to last before it shows on every source: a clock
	// that was set is over in seconds, and not worth a thousand writes.
	lasting = 10 * time.Second
	// settled is how long after its start Curfew removes conditions that an earlier controller left.
	settled = 2 * time.Minute
	// pace is the least time between two writes: pauses come when the API server has trouble enough.
	pace = 20 * time.Millisecond
	// retryFirst and maxRetry bound the wait after a failed write, retryKnow that after a failed
	// read.
	retryFirst = time.Second
	maxRetry   = time.Minute
	retryKnow  = 10 * time.Second
)

// PauseOptions configure [Pauses]. All are required.
type PauseOptions struct {
	Recorder             events.EventRecorder
	Namespaces, Policies Conditions
	UIDs                 UIDs
	// Own is Curfew's own namespace, which has the Events of pauses of everything.
	Own   string
	Clock clock.Clock
	Log   logr.Logger
}

// Pauses shows on sources that their deletions are paused.
type Pauses struct {
	options PauseOptions
	changed loop.Signal

	mu   sync.Mutex
	open map[string]pause // by BreakerEvent.Scope

	// Only the loop uses these.
	began   time.Time
	written map[Target]metav1.Condition // that are True
	known   bool                        // the conditions of an earlier controller were read
	left    map[Target]bool             // of these, those to keep until settled
}

type pause struct {
	expire.BreakerEvent
	began time.Time
}

// targetOf is the object behind the source of a pause.
func (p *Pauses) targetOf(held *pause) Target {
	target := p.options.UIDs.targetOf(held.Source, held.Namespace)
	target.Inside = false
	return target
}

// everything reports whether a pause concerns all sources.
func (p *pause) everything() bool { return p.Source == "" }

// NewPauses makes pauses whose conditions are written by Run, and whose Events at once.
func NewPauses(options PauseOptions) *Pauses {
	options.Log = options.Log.WithName("events")
	return &Pauses{
		options: options, changed: loop.NewSignal(), open: map[string]pause{}, written: map[Target]metav1.Condition{}, left: map[Target]bool{},
	}
}

// Breaker takes the beginning or the end of a pause. It does not block.
func (p *Pauses) Breaker(e expire.BreakerEvent) {
	begun := pause{e, p.options.Clock.Now()}
	target := Target{Name: p.options.Own}
	if !begun.everything() {
		target = p.targetOf(&begun)
	}
	if target.Name != "" {
		kind, reason := corev1.EventTypeNormal, ReasonResumed
		if e.Open {
			kind, reason = corev1.EventTypeWarning, e.Reason
		}
		p.options.Recorder.Eventf(new(target.reference(p.options.UIDs)), nil, kind, reason, actionPause, "%s", e.Message)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.open[e.Scope]; ok {
		begun.began = old.began
	}
	if e.Open {
		p.open[e.Scope] = begun
	} else {
		delete(p.open, e.Scope)
	}
	p.changed.Set()
}

// Run writes conditions until ctx is done.
func (p *Pauses) Run(ctx context.Context) error {
	p.began = p.options.Clock.Now()
	p.changed.Set()
	loop.Worker{Clock: p.options.Clock, Signal: p.changed, Backoff: loop.NewBackoffOf(retryFirst, maxRetry), Do: p.reconcile}.Run(ctx)
	return nil
}

// reconcile writes each condition that differs from the open pauses.
func (p *Pauses) reconcile(ctx context.Context) (again time.Duration, err error) {
	now := p.options.Clock.Now()
	again = p.adopt(ctx, now)
	want, wait := p.wanted(now)
	if wait > 0 && (again == 0 || wait < again) {
		again = wait
	}
	for target := range p.written {
		if _, paused := want[target]; !paused && !p.left[target] {
			want[target] = metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonResumed, Message: "deletions resumed"}
		}
	}
	for target, condition := range want {
		if err := p.write(ctx, target, condition); err != nil {
			if ctx.Err() == nil {
				p.options.Log.Info("could not write the condition of a pause, trying again",
					"source", target.Name, "policy", target.Policy, "reason", err.Error())
			}
			return 0, err // The next write would most likely fail, too.
		}
	}
	return again, nil
}

// adopt reads the conditions that an earlier controller left, and lets go of them once Curfew has
// run for long enough to find the same pauses. It returns when to call it again; 0 is never.
func (p *Pauses) adopt(ctx context.Context, now time.Time) time.Duration {
	if !p.known {
		for _, policies := range []bool{true, false} {
			names, err := p.of(policies).Left(ctx)
			if err != nil {
				p.options.Log.V(1).Info("could not read which sources are paused, trying again", "reason", err.Error())
				return retryKnow
			}
			for _, name := range names {
				target := Target{Policy: policies, Name: name}
				if _, ok := p.written[target]; !ok {
					p.written[target], p.left[target] = metav1.Condition{Status: metav1.ConditionTrue}, true
				}
			}
		}
		p.known = true
	}
	if wait := p.began.Add(settled).Sub(now); wait > 0 {
		return wait
	}
	clear(p.left)
	return 0
}

func (p *Pauses) of(policies bool) Conditions {
	if policies {
		return p.options.Policies
	}
	return p.options.Namespaces
}

// Open returns the pauses that last, in words and in a stable order, and whether one of them
// concerns all deletions.
func (p *Pauses) Open() (messages []string, everything bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pause := range p.open {
		messages = append(messages, pause.Message)
		everything = everything || pause.everything() && pause.Class != "kind"
	}
	slices.Sort(messages)
	return messages, everything
}
