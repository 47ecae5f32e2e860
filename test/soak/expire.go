package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/test/harness"
)

// load makes all objects, some of them while no webhook answers. None has finished yet.
func (s *soak) load(ctx context.Context) error {
	var unseen, seen []*object
	for _, o := range s.fleet {
		if o.unseen() {
			unseen = append(unseen, o)
		} else {
			seen = append(seen, o)
		}
	}
	s.say("creating %d objects with the webhook down", len(unseen))
	if err := s.webhook.Kill(); err != nil {
		return err
	}
	if err := each(ctx, unseen, s.world.create); err != nil {
		return err
	}
	if s.attack != nil {
		s.say("creating what %d attackers need, %d policies and reports each", len(tenants), s.attack.size)
		if err := s.attack.prepare(ctx); err != nil {
			return err
		}
	}
	var err error
	if s.webhook, err = s.cluster.StartWebhook(ctx, harness.CurfewOptions{Port: s.webhook.WebhookPort}); err != nil {
		return err
	}
	if err := s.cluster.WaitForWebhook(ctx); err != nil {
		return err
	}
	s.say("creating %d objects with the webhook up", len(seen))
	from := time.Now()
	if err := each(ctx, seen, s.world.create); err != nil {
		return err
	}
	s.perObject = time.Since(from) / time.Duration(max(1, len(seen)))
	for _, o := range s.fleet {
		s.writer.byUID[o.uid] = o
	}
	return nil
}

// expire lets objects finish, so that they fall due spread over a window, while the second writer
// writes and things break, and then waits until all that is due has gone.
func (s *soak) expire(ctx context.Context, fleet []*object, window time.Duration) error {
	var finishing []*object
	for _, o := range fleet {
		if o.oddity != "unfinished" {
			finishing = append(finishing, o)
		}
	}
	// To finish them takes no longer than to create them did, unless the machine has become busier:
	// the window must not be over before anything is broken.
	from := time.Now().Add(2*s.perObject*time.Duration(len(finishing)) + 2*time.Second).Truncate(time.Second)
	to := from.Add(window)
	random := newRandom(s.seed, 3)
	for _, o := range fleet {
		// Nothing finishes before it exists.
		first := later(from, o.created.Add(o.ttl))
		if first.After(to) {
			first = from // it has no expiry that would come about in the window
		}
		o.due = first.Add(time.Duration(random.Int64N(int64(to.Sub(first) + time.Second)))).Truncate(time.Second)
	}
	past, future := split(finishing, func(o *object) bool { return o.finishes().Before(time.Now()) })
	s.say("finishing %d objects, and %d when it is time", len(past), len(future))
	finish := func(ctx context.Context, o *object) error { return s.world.finish(ctx, o, o.finishes()) }
	if err := each(ctx, past, finish); err != nil {
		return err
	}
	s.say("they expire, and things break, for %s", time.Until(to).Round(time.Second))
	group, together := errgroup.WithContext(ctx) // what fails ends the others
	breaking, stop := context.WithDeadline(together, to)
	defer stop()
	s.deletes.calmDown(s.compared)
	group.Go(func() error { return s.finishInTime(together, future) })
	group.Go(func() error { return s.writer.run(together, fleet) })
	if !s.chaos.quiet {
		group.Go(func() error { return s.chaos.run(breaking) })
	}
	if !s.chaos.gentle {
		group.Go(func() error { return s.change(together, from) })
	}
	if !s.compared { // They make lateness.
		half := len(namespaces) / 2
		group.Go(func() error { return s.flipModes(breaking, namespaces[:half], newRandom(s.seed, 6)) })
		group.Go(func() error { return s.flipModes(breaking, namespaces[half:], newRandom(s.seed, 7)) })
		group.Go(func() error { return s.changeMeaning(breaking, newRandom(s.seed, 8)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.writer.strikes.Wait()
	s.deletes.calmDown(true)
	return s.settleDown(ctx)
}

// quietWindow is the least in which a namespace goes into dry-run and back, and the KindProfile
// changes and changes back.
const quietWindow = 12 * time.Second

func split(fleet []*object, first func(*object) bool) (yes, no []*object) {
	for _, o := range fleet {
		if first(o) {
			yes = append(yes, o)
		} else {
			no = append(no, o)
		}
	}
	return yes, no
}

// finishInTime lets objects finish when their time has come.
func (s *soak) finishInTime(ctx context.Context, fleet []*object) error {
	slices.SortFunc(fleet, func(a, b *object) int { return a.finishes().Compare(b.finishes()) })
	return each(ctx, fleet, func(ctx context.Context, o *object) error {
		pause(ctx, time.Until(o.finishes()))
		err := s.world.finish(ctx, o, o.finishes())
		if ctx.Err() != nil || o.act == recreate && (apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err)) {
			return nil // another has its name by now
		}
		return err
	})
}

// change raises the defaults of a namespace in the middle of the window, and the policy's later on.
// Objects with the old defaults are older than the new ones, and stay. The other namespaces are
// written to as well, with nothing that matters.
func (s *soak) change(ctx context.Context, from time.Time) error {
	for i := range 10 {
		pause(ctx, time.Until(from.Add(s.window*time.Duration(i+1)/11)))
		if ctx.Err() != nil {
			return nil
		}
		if err := s.patchNamespace(ctx, "live", "annotations", map[string]any{"soak.example.com/note": fmt.Sprint(i)}); err != nil {
			return err
		}
		switch i {
		case 4:
			raised := map[string]any{prefix + "default-ttl": "300h", prefix + "default-pod-ttl": "300h"}
			if err := s.patchNamespace(ctx, "changed", "annotations", raised); err != nil {
				return err
			}
		case 7:
			raised := map[string]any{"spec": map[string]any{"defaults": map[string]any{"ttl": map[string]any{"value": "300h"}}}}
			if err := s.world.merge(ctx, "lifecyclepolicies", "", policyName, raised); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleDown waits until nothing that is due is left, what falls due in the next seconds included.
func (s *soak) settleDown(ctx context.Context) error {
	s.say("nothing is broken any more: waiting for the due objects")
	deadline := time.Now().Add(s.settle)
	// The last acts put expiries off by as much.
	last := time.Now().Add(s.writer.later + 2*time.Second)
	for {
		now := time.Now()
		if now.After(last) && len(s.ledger.overdue()) == 0 && len(s.ledger.terminating()) == 0 || now.After(deadline) {
			return nil
		}
		pause(ctx, 500*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
