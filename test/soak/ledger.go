package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ledger is all that etcd has been told of the soak's objects, in its order.
type ledger struct {
	namespacePrefix string

	mu         sync.Mutex
	next       int64 // revision to go on from
	lives      map[string]*life
	byKey      map[string]*life
	namespaces map[string][]*surroundings
	rules      []*rule
	profiles   []*correction
	lost       []lostFinalizer
	problems   []string
	revisions  int
}

// life is one object from its creation to its end, of one UID.
type life struct {
	last     *state
	deletion *deletion
	gone     bool
}

// deletion is the revision in which an object was removed or got its deletionTimestamp, and the
// state that it was in.
type deletion struct {
	of       *state
	revision int64
	seen     time.Time
}

// lostFinalizer is one that an object had and no longer has.
type lostFinalizer struct{ uid, name, finalizer string }

func newLedger(namespacePrefix string) *ledger {
	return &ledger{namespacePrefix: namespacePrefix, lives: map[string]*life{}, byKey: map[string]*life{}, namespaces: map[string][]*surroundings{}}
}

// run follows etcd until ctx ends. It takes up where it left off, so that an outage of etcd, or of
// the connection, hides nothing.
func (l *ledger) run(ctx context.Context, store *etcd) {
	for ctx.Err() == nil {
		l.mu.Lock()
		from := l.next
		l.mu.Unlock()
		err := store.watch(ctx, from, l.apply)
		if errors.Is(err, errCompacted) {
			l.mu.Lock()
			l.problems = append(l.problems, err.Error())
			l.mu.Unlock()
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (l *ledger) apply(events []etcdEvent) {
	seen := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		event := &events[i]
		l.next = event.KV.ModRevision + 1
		l.revisions++
		if err := l.event(event, seen); err != nil {
			l.problems = append(l.problems, fmt.Sprintf("%s at revision %d: %v", event.KV.Key, event.KV.ModRevision, err))
		}
	}
}

// keys of the kinds that are followed.
var followed = map[string]string{
	"/registry/jobs/": jobs, "/registry/pods/": pods, "/registry/" + soakGroup + "/" + batches + "/": batches,
}

func (l *ledger) event(event *etcdEvent, seen time.Time) error {
	key := string(event.KV.Key)
	for start, kind := range followed {
		if rest, ok := strings.CutPrefix(key, start); ok {
			if !strings.HasPrefix(rest, l.namespacePrefix) {
				return nil
			}
			return l.object(kind, key, event, seen)
		}
	}
	switch {
	case event.Type == "DELETE":
	case strings.HasPrefix(key, "/registry/namespaces/"+l.namespacePrefix):
		name, said, err := decodeNamespace(&event.KV, seen)
		if err != nil {
			return err
		}
		if before := l.namespaces[name]; len(before) > 0 {
			last := before[len(before)-1]
			if said.lifted = last.lifted; last.dryRun() && !said.dryRun() {
				said.lifted = seen
			}
		}
		l.namespaces[name] = append(l.namespaces[name], said)
	case key == "/registry/curfew.dev/lifecyclepolicies/"+policyName:
		said, err := decodeRule(&event.KV, seen)
		if err != nil {
			return err
		}
		l.rules = append(l.rules, said)
	case key == "/registry/curfew.dev/kindprofiles/"+batches+"."+soakGroup:
		said, err := decodeProfile(&event.KV, seen)
		if err != nil {
			return err
		}
		if len(l.profiles) == 0 || l.profiles[len(l.profiles)-1].meaning != said.meaning { // not merely its status
			l.profiles = append(l.profiles, said)
		}
	}
	return nil
}

func (l *ledger) object(kind, key string, event *etcdEvent, seen time.Time) error {
	known := l.byKey[key]
	if event.Type == "DELETE" {
		if known == nil {
			return errors.New("it is deleted and was never seen")
		}
		known.gone = true
		if known.deletion == nil {
			known.deletion = &deletion{known.last, event.KV.ModRevision, seen}
		}
		delete(l.byKey, key)
		return nil
	}
	read, err := decode(kind, &event.KV, seen)
	if err != nil {
		return err
	}
	if known == nil {
		known = &life{}
		l.byKey[key], l.lives[read.uid] = known, known
	} else {
		if known.last.uid != read.uid {
			return fmt.Errorf("UID %s became %s without a deletion", known.last.uid, read.uid)
		}
		for _, finalizer := range known.last.finalizers {
			if !slices.Contains(read.finalizers, finalizer) {
				l.lost = append(l.lost, lostFinalizer{read.uid, read.namespace + "/" + read.name, finalizer})
			}
		}
		if read.deleting && !known.last.deleting {
			known.deletion = &deletion{known.last, read.revision, seen}
		}
	}
	known.last = read
	return nil
}

// around are the circumstances of an object now.
func (l *ledger) around(s *state) (now circumstances) {
	if said := l.namespaces[s.namespace]; len(said) > 0 {
		now.namespace = said[len(said)-1]
	}
	if len(l.rules) > 0 {
		now.policy = l.rules[len(l.rules)-1]
	}
	if len(l.profiles) > 0 {
		now.profile = l.profiles[len(l.profiles)-1]
	}
	return now
}

// overdue counts the objects that are due by an instant and still exist, and names a few. An object
// that finished without a finish time counts as due: Curfew must record the time.
func (l *ledger) overdue(by time.Time) (count int, examples []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.lives {
		if one.deletion != nil {
			continue
		}
		answer := judge(one.last, l.around(one.last))
		switch {
		case answer.never == "" && answer.at.Before(by):
		case answer.never != "" && one.last.finished && one.last.finish.IsZero() && one.last.annotations[prefix+"ttl-after-finished"] != "":
		default:
			continue
		}
		count++
		if len(examples) < 5 {
			examples = append(examples, fmt.Sprintf("%s %s/%s (uid %s, due %s)", one.last.kind, one.last.namespace, one.last.name, one.last.uid, answer.at.Format(time.TimeOnly)))
		}
	}
	return count, examples
}

// terminating are objects with a deletionTimestamp that are still there. A Pod is deleted in two
// steps, even where it is given no grace: an API server that is killed between the two leaves it
// marked and nothing more, for the kubelet or the Pods' garbage collector to finish off, which the
// soak does not have.
func (l *ledger) terminating() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.lives {
		if one.deletion != nil && !one.gone && (one.last.kind != pods || len(one.last.finalizers) > 0) {
			names = append(names, fmt.Sprintf("%s with finalizers %v", describe(one.last), one.last.finalizers))
		}
	}
	return names
}

// pause waits, or returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
