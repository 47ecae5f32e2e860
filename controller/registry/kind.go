package registry

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/policy/expression"
)

// wantedKind is a kind that is to be fed. The version tells one profile, as it holds for one schema, from another.
type wantedKind struct {
	profile *expression.Profile
	version string
}

// kind is one kind that is fed, or waits for a permission. It has a goroutine of its own, so that no kind delays another.
type kind struct {
	*wantedKind
	registry *Registry
	cancel   context.CancelFunc
	done     chan struct{}
	// feed is nil until the kind is permitted. Guarded by the registry's mutex.
	feed Running
}

func (w *wantedKind) resource() schema.GroupVersionResource {
	return w.profile.Kind.GroupVersion().WithResource(w.profile.Resource)
}

// reconcile stops what is no longer wanted, or wanted in another way, and starts what is.
// Kinds whose profile changed in a way that changes nothing for them are released.
func (r *Registry) reconcile(ctx context.Context, wanted map[schema.GroupKind]*wantedKind, changes map[schema.GroupKind]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.caughtUp(changes)
	for at, k := range r.running {
		want := wanted[at]
		if want != nil && want.version == k.version {
			if changes[at] > 0 {
				r.release(k)
			}
			continue
		}
		delete(r.running, at)
		k.cancel()
		// What it tracked is not deleted by its rules any more. Its successor's start releases it, or it is forgotten.
		r.hold(k.resource(), true)
		// What it tracked stays only for a successor that lists the same resource and judges all of it anew.
		if want == nil || want.resource() != k.resource() {
			go k.forget()
		}
		if want != nil {
			r.start(ctx, at, want, k.done)
		} else {
			r.ending[at] = k.done
		}
	}
	for at, want := range wanted {
		if r.running[at] == nil {
			r.start(ctx, at, want, r.ending[at])
		}
	}
	r.followRuntimes(ctx)
}

func (k *kind) forget() {
	<-k.done
	k.registry.mu.Lock()
	defer k.registry.mu.Unlock()
	at := k.profile.Kind.GroupKind()
	if k.registry.ending[at] == k.done {
		delete(k.registry.ending, at)
	}
	// The kind may be back by now, and then it is the new feed's.
	if again := k.registry.running[at]; again == nil || again.resource() != k.resource() {
		k.registry.options.Forget(k.resource())
		k.registry.log.Info("kind is gone: nothing of it is tracked any more", "kind", k.profile.Kind.Kind, "resource", k.resource().String())
	}
}

// start begins a kind once its predecessor, if any, is done: the engine would otherwise hear of two judges.
func (r *Registry) start(ctx context.Context, at schema.GroupKind, want *wantedKind, after <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	k := &kind{wantedKind: want, registry: r, cancel: cancel, done: make(chan struct{})}
	r.running[at] = k
	go func() {
		defer close(k.done)
		if after != nil {
			<-after
		}
		k.run(ctx)
	}()
}

func (k *kind) run(ctx context.Context) {
	if !k.permitted(ctx) {
		return
	}
	feed, err := k.registry.options.Start(k.profile)
	label := k.registry.skipped.WithLabelValues(k.profile.Kind.GroupKind().String(), "error")
	for delay := newDelay(); err != nil; feed, err = k.registry.options.Start(k.profile) {
		label.Set(1)
		k.registry.log.Error(err, "kind cannot be fed, trying again", "kind", k.profile.Kind.Kind)
		if !k.registry.pause(ctx, delay.Step()) {
			break
		}
	}
	k.registry.skipped.DeleteLabelValues(k.profile.Kind.GroupKind().String(), "error")
	if err != nil || ctx.Err() != nil {
		return
	}
	k.registry.mu.Lock()
	k.feed = feed
	k.registry.release(k)
	k.registry.mu.Unlock()
	k.registry.log.Info("kind is watched", "kind", k.profile.Kind.Kind, "resource", k.resource().String(), "profile", k.profile.Name)
	if reason := k.profile.Unenforced; reason != "" {
		k.registry.log.Info("deadlines of a kind are not enforced", "kind", k.profile.Kind.Kind, "resource", k.resource().String(), "profile", k.profile.Name, "reason", reason)
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { k.registry.ask(ctx, deadlineNeeds(k.profile)) })
	if err := feed.Run(ctx); err != nil && ctx.Err() == nil {
		k.registry.log.Error(err, "the feed of a kind ended", "kind", k.profile.Kind.Kind)
	}
}

// permissionBackoff has it asked soon at first: an API server that has just started refuses what it has not read the permission for yet.
func permissionBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: recheck}
}

// permitted waits until Curfew may do on the kind what it has to. What is missing is said once.
func (k *kind) permitted(ctx context.Context) bool {
	name, said := k.profile.Kind.GroupKind().String(), ""
	defer k.registry.skipped.DeleteLabelValues(name, "permission")
	delay := permissionBackoff()
	for {
		missing, err := k.registry.options.Missing(ctx, k.resource())
		switch {
		case err != nil:
			k.registry.log.V(1).Info("could not ask for permissions, trying again", "kind", k.profile.Kind.Kind, "reason", err.Error())
		case len(missing) == 0:
			return true
		default:
			k.registry.skipped.WithLabelValues(name, "permission").Set(1)
			if verbs := strings.Join(missing, ", "); verbs != said {
				said = verbs
				k.registry.log.Info("kind is skipped: grant its verbs to a ClusterRole with label curfew.dev/aggregate-to-controller",
					"kind", k.profile.Kind.Kind, "resource", k.resource().String(), "missing", verbs)
			}
		}
		if !k.registry.pause(ctx, delay.Step()) {
			return false
		}
	}
}

// tell passes something on to the feed. A kind that has none yet will judge everything when it starts. The registry's mutex is
// held.
func (k *kind) tell(f func(Running)) {
	if k.feed != nil {
		f(k.feed)
	}
}

func (r *Registry) pause(ctx context.Context, d time.Duration) bool {
	timer := r.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// stopAll waits for all kinds to end.
func (r *Registry) stopAll() {
	r.mu.Lock()
	var ending []*kind
	for _, k := range r.running {
		k.cancel()
		ending = append(ending, k)
	}
	var following []*followed
	for _, f := range r.runtimes {
		f.cancel()
		following = append(following, f)
	}
	r.mu.Unlock()
	for _, k := range ending {
		<-k.done
	}
	for _, f := range following {
		<-f.done
	}
}
