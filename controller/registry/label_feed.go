package registry

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// labelFeed is one target that is watched. It has a goroutine of its own, so that none delays another.
type labelFeed struct {
	target Target
	cancel context.CancelFunc
	// done is closed once the feed has ended and, if it is not wanted any more, nothing of it is tracked.
	done chan struct{}
	// feed is nil until it was made. Guarded by the mutex of Labels.
	feed Running
}

// lane is what no two feeds may watch at once, lest one forgets what the other tracks.
type lane struct {
	resource schema.GroupResource
	alias    bool
}

func (t Target) lane() lane { return lane{t.groupResource(), t.Alias} }

// reconcile stops the feeds that are no longer wanted and starts those that are. What takes the place of another one (a kind in
// another version, all namespaces instead of one) waits until that has ended and is forgotten.
func (l *Labels) reconcile(ctx context.Context, wanted map[Target]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for target, feed := range l.feeds {
		if wanted[target] {
			continue
		}
		delete(l.feeds, target)
		feed.cancel()
		l.ending[target.lane()] = append(l.ending[target.lane()], feed.done)
	}
	for at, all := range l.ending {
		if l.ending[at] = slices.DeleteFunc(slices.Clone(all), ended); len(l.ending[at]) == 0 {
			delete(l.ending, at)
		}
	}
	for target := range wanted {
		if l.feeds[target] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		feed := &labelFeed{target: target, cancel: cancel, done: make(chan struct{})}
		l.feeds[target] = feed
		after := l.ending[target.lane()]
		go func() {
			defer close(feed.done)
			for _, done := range after {
				<-done
			}
			l.run(ctx, feed)
			l.options.Forget(target)
		}()
	}
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// run makes the feed of a target and runs it until ctx is done.
func (l *Labels) run(ctx context.Context, f *labelFeed) {
	name := f.target.Kind.GroupKind().String()
	defer l.skipped.DeleteLabelValues(name, "error")
	var feed Running
	for delay := newDelay(); feed == nil; {
		if ctx.Err() != nil {
			return
		}
		made, err := l.options.Start(f.target, l.Again)
		if err == nil {
			feed = made
			break
		}
		l.skipped.WithLabelValues(name, "error").Set(1)
		l.log.Error(err, "TTL labels of a kind cannot be watched, trying again", "kind", name)
		timer := l.options.Clock.NewTimer(delay.Step())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	l.skipped.DeleteLabelValues(name, "error")
	l.mu.Lock()
	f.feed = feed
	l.mu.Unlock()
	if err := feed.Run(ctx); err != nil && ctx.Err() == nil {
		l.log.Error(err, "the feed of a kind's TTL labels ended", "kind", name)
	}
}

// stopAll waits for all feeds to end.
func (l *Labels) stopAll() {
	l.mu.Lock()
	var ending []*labelFeed
	for target, feed := range l.feeds {
		delete(l.feeds, target)
		feed.cancel()
		ending = append(ending, feed)
	}
	l.mu.Unlock()
	for _, feed := range ending {
		<-feed.done
	}
}
