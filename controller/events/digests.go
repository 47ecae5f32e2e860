package events

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
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/record"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Reasons of the Events about deletions.
const (
	ReasonDeleted     = record.Reason
	ReasonWouldDelete = "WouldDelete"
)

const (
	// idle is how long an Event is patched after its last change. By default, the API server deletes
	// Events after an hour.
	idle = 30 * time.Minute
	// maxDigests bounds how many sources of deletions get Events of their own at a time. The
	// deletions of all others share an Event on namespace default. maxRemembered bounds how many
	// digests are remembered.
	maxDigests, maxRemembered = 1000, 2000
)

// DigestOptions configure [Digests]. All are required.
type DigestOptions struct {
	// Client writes Events of the core group: an Event of events.k8s.io cannot get another text, which
	// is why no recorder writes these.
	Client typedcorev1.EventsGetter
	UIDs   UIDs
	Clock  clock.Clock
	Log    logr.Logger
}

// Digests keeps one Event for each source and reason in step with the deletions that it caused, for
// a bounded number of sources.
type Digests struct {
	options DigestOptions
	changed loop.Signal

	mu    sync.Mutex
	fresh map[digestKey]*deletions // since the last Flush

	// Only Flush uses these.
	events map[digestKey]*digest
	serial int
}

type digestKey struct {
	target Target
	reason string
}

// NewDigests makes digests that are written by Run and Flush.
func NewDigests(options DigestOptions) *Digests {
	options.Log = options.Log.WithName("events")
	return &Digests{options: options, changed: loop.NewSignal(), fresh: map[digestKey]*deletions{}, events: map[digestKey]*digest{}}
}

// Add takes the deletions since the last call. It does not block.
func (d *Digests) Add(summaries []expire.Summary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range summaries {
		target := d.options.UIDs.targetOf(s.Source, cmp.Or(s.Namespace, metav1.NamespaceDefault))
		d.add(digestKey{target, ReasonDeleted}, s.Deleted, &s)
		d.add(digestKey{target, ReasonWouldDelete}, s.DryRun, &s)
	}
	d.changed.Set()
}

func (d *Digests) add(key digestKey, n int, s *expire.Summary) {
	if n == 0 || key.target.Name == "" {
		return
	}
	if d.fresh[key] == nil && !key.target.Policy && len(d.fresh) >= maxDigests { // Administrators write policies.
		key.target = Target{Name: metav1.NamespaceDefault, Inside: true} // Sources share it, also with cluster-scoped objects.
	}
	all := d.fresh[key]
	if all == nil {
		all = &deletions{counts: map[group]int{}}
		d.fresh[key] = all
	}
	all.counts[group{s.Kind.Kind, s.Trigger}] += n
	all.names = append(all.names, s.Examples[:min(len(s.Examples), examples-len(all.names))]...)
	for _, name := range s.Examples {
		all.records = append(all.records, recordOf(s, name))
	}
	all.records = slices.Clip(record.Latest(all.records))
}

// Run writes until ctx is done. Flush writes what comes after that.
func (d *Digests) Run(ctx context.Context) error {
	for d.changed.Wait(ctx, d.options.Clock, 0) {
		d.Flush(ctx)
	}
	return nil
}

// Flush writes all unwritten digests. It does not repeat a failed write, since the log and the
// metrics have everything.
func (d *Digests) Flush(ctx context.Context) {
	d.mu.Lock()
	fresh := d.fresh
	d.fresh = map[digestKey]*deletions{}
	d.mu.Unlock()
	now := d.options.Clock.Now()
	maps.DeleteFunc(d.events, func(_ digestKey, event *digest) bool { return now.Sub(event.last) > idle })
	for key, count := range fresh {
		if err := d.write(ctx, key, count, now); err != nil && ctx.Err() == nil {
			d.options.Log.Info("could not write an Event", "source", key.target.Name, "policy", key.target.Policy, "reason", err.Error())
		}
	}
}

func (d *Digests) write(ctx context.Context, key digestKey, count *deletions, now time.Time) error {
	events := d.options.Client.Events(key.target.home())
	if event := d.events[key]; event != nil {
		message := event.add(key.reason, count, now)
		patch, err := json.Marshal(map[string]any{"message": message, "count": event.count, "lastTimestamp": metav1.NewTime(now),
			"metadata": map[string]any{"annotations": event.annotations(key.reason)}})
		if err != nil {
			return err
		}
		_, err = events.Patch(ctx, event.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	d.forget()
	d.serial++
	event := &digest{name: fmt.Sprintf("%s.%x-%d", key.target.Name, now.UnixNano(), d.serial), first: now}
	d.events[key] = event
	t := metav1.NewTime(now)
	message := event.add(key.reason, count, now)
	_, err := events.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: key.target.home(), Name: event.name, Annotations: event.annotations(key.reason)},
		InvolvedObject: key.target.reference(d.options.UIDs),
		Type:           corev1.EventTypeNormal, Reason: key.reason, Action: "Delete", Message: message,
		FirstTimestamp: t, LastTimestamp: t, Count: 1,
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
	}, metav1.CreateOptions{})
	return err
}

// forget makes room for one more digest. The one that changed longest ago begins again with a new
// Event.
func (d *Digests) forget() {
	if len(d.events) < maxRemembered {
		return
	}
	var oldest digestKey
	for key, event := range d.events {
		if first := d.events[oldest]; first == nil || event.last.Before(first.last) {
			oldest = key
		}
	}
	delete(d.events, oldest)
}

const (
	// maxNote is where the API server cuts the text of an Event.
	maxNote = 1024
	// maxKinds bounds how many kinds a note names.
	maxKinds = 8
	examples = 10
)

// deletions counts deleted objects and names some of them.
type deletions struct {
	counts  map[group]int
	names   []string
	records []record.Record
}

type group struct{ kind, trigger string }

// digest is an Event and the deletions that it has counted.
type digest struct {
	name        string
	first, last time.Time
	count       int32 // of changes
	total       int   // of deletions
	records     []record.Record
}

func recordOf(s *expire.Summary, name string) record.Record {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = "", namespace
	}
	return record.Record{
		Resource: s.Kind.Resource.GroupResource().String(), Namespace: namespace, Name: name, Trigger: s.Trigger, Source: s.Source,
		From: s.First.UTC(), To: s.Last.UTC(),
	}
}

// annotations returns the annotations of the Event. Only real deletions are on record.
func (e *digest) annotations(reason string) map[string]string {
	if reason != ReasonDeleted {
		return nil
	}
	return record.Annotations(e.records, e.total)
}

// add counts deletions and returns the text of the Event: these, and how many there were in all.
func (e *digest) add(reason string, count *deletions, now time.Time) string {
	fresh := 0
	for _, n := range count.counts {
		fresh += n
	}
	e.last = now
	e.count++
	e.total += fresh
	e.records = record.Latest(append(e.records, count.records...))
	note := count.describe(reason)
	if fresh > len(count.names) {
		note += ", …"
	}
	if e.count > 1 {
		note += fmt.Sprintf(" (%d since %s)", e.total, e.first.UTC().Format(time.RFC3339))
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	return note
}

func (d *deletions) describe(reason string) string {
	verb := "Deleted"
	if reason == ReasonWouldDelete {
		verb = "Would delete (dry-run)"
	}
	groups := slices.SortedFunc(maps.Keys(d.counts), func(a, b group) int {
		return cmp.Or(d.counts[b]-d.counts[a], strings.Compare(a.kind, b.kind), strings.Compare(a.trigger, b.trigger))
	})
	var parts []string
	for _, g := range groups[:min(maxKinds, len(groups))] {
		parts = append(parts, fmt.Sprintf("%d x %s by %s", d.counts[g], g.kind, g.trigger))
	}
	if more := len(groups) - maxKinds; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more kinds", more))
	}
	return fmt.Sprintf("%s %s: %s", verb, strings.Join(parts, ", "), strings.Join(d.names, ", "))
}

// Target is the object that a notice is about: a Namespace, or a LifecyclePolicy. The zero value is
// none.
type Target struct {
	Policy bool
	Name   string
	// Inside means that the notice is stored in the Namespace that it is about, where users who may
	// see its objects may see it.
	Inside bool
}

// targetOf returns the object behind a source. An object's own or its runtime's setting concerns
// the object's namespace, inside which it is reported. So does a policy that does not exist: the
// author of an object may have written the stamp, and each name that they invent would be an Event
// in namespace default.
func (uids UIDs) targetOf(source, namespace string) Target {
	s := lifetime.ParseSource(source)
	target := Target{Policy: s.Level == lifetime.LevelPolicy, Name: s.Name}
	if s.Level == lifetime.LevelNamespace || target.Policy && uids(target) != "" {
		return target
	}
	return Target{Name: namespace, Inside: true}
}

// home is the namespace that holds the Events about the target.
func (t Target) home() string {
	if t.Inside {
		return t.Name
	}
	return metav1.NamespaceDefault
}

// UIDs looks up the UID of a target; "" if it is unknown. kubectl describe finds Events by it.
type UIDs func(Target) types.UID

func (t Target) reference(uids UIDs) corev1.ObjectReference {
	reference := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: t.Name, UID: uids(t)}
	if t.Inside {
		reference.Namespace = t.Name // The API server demands that of an Event there.
	}
	if t.Policy {
		reference.APIVersion, reference.Kind = v1alpha1.GroupVersion.String(), "LifecyclePolicy"
	}
	return reference
}
