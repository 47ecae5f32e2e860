package notice

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
)

// Reasons of the Events that tell what was deleted.
const (
	ReasonDeleted     = "Deleted"
	ReasonWouldDelete = "WouldDelete"
)

const (
	// idle is how long after its last digest an Event is left to itself: the API server forgets Events after an hour by default, and the
	// next digest begins a new one.
	idle = 30 * time.Minute
	// noteMost is where the API server cuts the text of an Event.
	noteMost = 1024
	// kindsMost bounds how many kinds a note names.
	kindsMost = 8
	examples  = 3
)

// Events creates and patches Events of one namespace, of the core group: those of events.k8s.io cannot be given another text.
type Events interface {
	Create(ctx context.Context, event *corev1.Event, options metav1.CreateOptions) (*corev1.Event, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Event, error)
}

// DigestOptions are those of [Digests]. All are required.
type DigestOptions struct {
	// Events are those of namespace default, where Events about cluster-scoped objects are kept.
	Events Events
	UIDs   UIDs
	// Instance tells replicas apart.
	Instance string
	Clock    clock.Clock
	Log      logr.Logger
}

// Digests keep one Event a source and reason in step with what was deleted on its behalf.
type Digests struct {
	options DigestOptions
	wake    chan struct{}

	mu     sync.Mutex
	of     map[digestKey]*digest
	serial int

	writing sync.Mutex // one flush at a time
}

type digestKey struct {
	target Target
	reason string
}

// what was deleted, as a note counts it.
type what struct{ kind, trigger string }

type digest struct {
	name        string // of the Event; "" while there is none
	first, last time.Time
	count       int32 // of digests in it
	total       int   // deletions in it
	fresh       map[what]int
	names       []string
}

// NewDigests makes digests that are written by Run and Flush.
func NewDigests(options DigestOptions) *Digests {
	options.Log = options.Log.WithName("notice")
	return &Digests{options: options, wake: make(chan struct{}, 1), of: map[digestKey]*digest{}}
}

// Add takes what was deleted since the last call. It does not block. What an object's own TTL or its runtime's asked for has no source to
// tell: it is in the log.
func (d *Digests) Add(summaries []engine.Summary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range summaries {
		if level := policy.ParseSource(s.Source).Level; level != policy.LevelNamespace && level != policy.LevelPolicy {
			continue
		}
		d.add(digestKey{targetOf(s.Source, ""), ReasonDeleted}, s.Deleted, &s)
		d.add(digestKey{targetOf(s.Source, ""), ReasonWouldDelete}, s.DryRun, &s)
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *Digests) add(key digestKey, n int, s *engine.Summary) {
	if n == 0 {
		return
	}
	one := d.of[key]
	if one == nil {
		one = &digest{}
		d.of[key] = one
	}
	if one.fresh == nil {
		one.fresh = map[what]int{}
	}
	one.fresh[what{s.Kind.Kind, s.Trigger}] += n
	for _, name := range s.Examples {
		if len(one.names) < examples {
			one.names = append(one.names, name)
		}
	}
}

// Run writes until ctx is done. What comes after that is for Flush.
func (d *Digests) Run(ctx context.Context) error { return flushOn(ctx, d.wake, d.Flush) }

// flushOn flushes at each word until ctx is done.
func flushOn(ctx context.Context, wake <-chan struct{}, flush func(context.Context)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
			flush(ctx)
		}
	}
}

// Flush writes what has not been written. An Event that cannot be written is not tried again: the log and the metrics have it all.
func (d *Digests) Flush(ctx context.Context) {
	d.writing.Lock()
	defer d.writing.Unlock()
	now := d.options.Clock.Now()
	for key, one := range d.take(now) {
		if err := d.write(ctx, key, one, now); err != nil && ctx.Err() == nil {
			d.options.Log.Info("could not write an Event", "source", key.target.Name, "policy", key.target.Policy, "reason", err.Error())
		}
	}
}

// take answers with copies of the digests that have news, each with its Event's name.
func (d *Digests) take(now time.Time) map[digestKey]digest {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[digestKey]digest{}
	for key, one := range d.of {
		if len(one.fresh) == 0 {
			if now.Sub(one.last) > idle {
				delete(d.of, key)
			}
			continue
		}
		if one.name == "" || now.Sub(one.last) > idle {
			d.begin(key, one, now)
		}
		one.last = now
		one.count++
		for _, n := range one.fresh {
			one.total += n
		}
		out[key] = *one
		one.fresh, one.names = nil, nil
	}
	return out
}

// begin gives the digest an Event of its own.
func (d *Digests) begin(key digestKey, one *digest, now time.Time) {
	d.serial++
	one.name = fmt.Sprintf("%s.%x-%d", key.target.Name, now.UnixNano(), d.serial)
	one.first, one.count, one.total = now, 0, 0
}

func (d *Digests) write(ctx context.Context, key digestKey, one digest, now time.Time) error {
	note := one.note(key.reason)
	if one.count > 1 {
		patch, err := json.Marshal(map[string]any{"message": note, "count": one.count, "lastTimestamp": metav1.NewTime(now)})
		if err != nil {
			return err
		}
		_, err = d.options.Events.Patch(ctx, one.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The API server has forgotten it, or never had it.
		d.mu.Lock()
		if kept := d.of[key]; kept != nil {
			d.begin(key, kept, now)
			kept.count, kept.total, one.name = 1, one.fresher(), kept.name
		}
		d.mu.Unlock()
		one.first, one.count, one.total = now, 1, one.fresher()
		note = one.note(key.reason)
	}
	at := metav1.NewTime(now)
	_, err := d.options.Events.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: one.name},
		InvolvedObject: key.target.reference(d.options.UIDs),
		Type:           corev1.EventTypeNormal, Reason: key.reason, Action: "Delete", Message: note,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              corev1.EventSource{Component: "curfew-controller"},
		ReportingController: "curfew-controller", ReportingInstance: d.options.Instance,
	}, metav1.CreateOptions{})
	return err
}

// fresher is how many deletions are news.
func (one *digest) fresher() int {
	n := 0
	for _, count := range one.fresh {
		n += count
	}
	return n
}

// note is the text of the Event: what is news, and how much there was in all.
func (one *digest) note(reason string) string {
	verb := "Deleted"
	if reason == ReasonWouldDelete {
		verb = "Would delete (dry-run)"
	}
	kinds := slices.SortedFunc(maps.Keys(one.fresh), func(a, b what) int {
		return cmp.Or(one.fresh[b]-one.fresh[a], strings.Compare(a.kind, b.kind), strings.Compare(a.trigger, b.trigger))
	})
	var parts []string
	for i, k := range kinds {
		if i == kindsMost {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(kinds)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d x %s by %s", one.fresh[k], k.kind, k.trigger))
	}
	note := fmt.Sprintf("%s %s: %s", verb, strings.Join(parts, ", "), strings.Join(one.names, ", "))
	if one.fresher() > len(one.names) {
		note += ", …"
	}
	if one.count > 1 {
		note += fmt.Sprintf(" (%d since %s)", one.total, one.first.UTC().Format(time.RFC3339))
	}
	if len(note) > noteMost {
		note = strings.ToValidUTF8(note[:noteMost], "")
	}
	return note
}
