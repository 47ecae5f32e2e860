package feed

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// Reports reports on single objects: objects that are kept because a value cannot be used, and
// objects that are not deleted in time. Package notice reports to Namespaces and policies.
//
// An object is judged again with each change and each list, but gets an Event for the same reason
// only now and then. Beyond a rate, objects share one Event on their Namespace ([eventBudget]), so
// that a bound that thousands of objects break costs no request and no memory for each.
type Reports struct {
	// UID returns the UID of a Namespace, for the Event that objects share; nil leaves it out. Set
	// it before Run.
	UID func(namespace string) types.UID

	events   events.EventRecorder
	log      logr.Logger
	clock    clock.Clock
	unusable *prometheus.CounterVec
	budget   *eventBudget
}

// NewReports registers its metrics.
func NewReports(recorder events.EventRecorder, log logr.Logger, registerer prometheus.Registerer) *Reports {
	return &Reports{
		events: recorder,
		log:    log.WithName("report"),
		clock:  clock.RealClock{},
		unusable: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{Name: "curfew_unusable_values_total",
			Help: "Judgements that kept an object because a value that decides cannot be read or is not allowed."}, []string{"group", "kind", "level"}),
		budget: newEventBudget(),
	}
}

// report reports on a verdict that keeps an object because of a value that cannot be used (S6), and
// on a dry run that the kind's own controller does not know.
func (f *Feed) report(facts *policy.Facts, verdict policy.Verdict) {
	if f.options.Reports == nil {
		return
	}
	if verdict.Err == nil {
		f.notHeld(facts, verdict)
		return
	}
	level := cmp.Or(string(verdict.Source.Level), string(lifetime.LevelObject))
	kind := f.kind.Profile.Kind
	f.options.Reports.unusable.WithLabelValues(kind.Group, kind.Kind, level).Inc()
	f.options.Reports.kept(f.reference(facts.Namespace, facts.Name, facts.UID), verdict.Reason, verdict.Err, verdict.Source.String())
}

// notHeld reports an object that a policy in dry-run protects from Curfew only: the policy's
// default is in the native field, and the kind's own controller deletes by that field.
func (f *Feed) notHeld(facts *policy.Facts, verdict policy.Verdict) {
	if !verdict.DryRun || verdict.Trigger != policy.TriggerTTL || verdict.Source.Level != lifetime.LevelPolicy {
		return
	}
	native := resolution.NativeDeletionOf(facts)
	if native == nil {
		return
	}
	f.options.Reports.say(report{
		on: f.reference(facts.Namespace, facts.Name, facts.UID), reason: "NotHeld", action: "Judge", what: "a dry run that binds Curfew alone",
		text: fmt.Sprintf("%s is in mode DryRun, which Curfew obeys, but %s deletes the object by %s %s at %s: "+
			"remove the field to keep the object", verdict.Source.Phrase(), facts.Profile.NativeDeleter(),
			native.Setting.Path, native.Setting.Shown(), native.Expiry.UTC().Format(time.RFC3339)),
	})
}

func (f *Feed) reference(namespace, name string, uid types.UID) *corev1.ObjectReference {
	kind := f.kind.Profile.Kind
	return &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: namespace, Name: name, UID: uid}
}

// kept reports that an object is kept, and why.
func (r *Reports) kept(on *corev1.ObjectReference, because string, err error, source string) {
	log := r.log
	switch r.say(report{on: on, reason: "Kept", action: "Judge", what: because, text: because + ": " + err.Error()}) {
	case reportedBefore:
		return
	case reportedTogether:
		log = log.V(1)
	}
	log.Info("kept", "kind", on.Kind, "object", name(on.Namespace, on.Name), "uid", on.UID,
		"because", because, "reason", cut(err.Error()), "source", source)
}

// Stuck writes an Event on an object that has been terminating for too long. The engine logs it.
func (r *Reports) Stuck(stuck expire.StuckObject) {
	r.say(report{
		on: referenceOf(&stuck.Object, &stuck.Kind), reason: "Stuck", action: "Wait", what: "still terminating",
		text: fmt.Sprintf("still terminating since %s: some finalizer is not removed; Curfew does not delete it again",
			stuck.Since.UTC().Format(time.RFC3339)),
	})
}

// Blocked writes an Event on an object that is due and cannot be deleted yet. The engine logs it.
func (r *Reports) Blocked(blocked expire.BlockedObject) {
	r.say(report{
		on: referenceOf(&blocked.Object, &blocked.Kind), reason: blocked.Reason, action: "Wait", what: "due, and not deleted yet",
		text: fmt.Sprintf("due since %s, but %s; Curfew keeps trying", blocked.Object.Expiry.UTC().Format(time.RFC3339), blocked.Message),
	})
}

func referenceOf(object *expire.Entry, kind *expire.KindOptions) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// say writes an Event on the object, unless the same was reported lately or too much is reported
// now.
func (r *Reports) say(event report) manner {
	how := r.budget.admit(&event, r.clock.Now())
	if how == reportedAlone {
		r.write(&event)
	}
	return how
}

func (r *Reports) write(event *report) {
	r.events.Eventf(event.on, nil, corev1.EventTypeWarning, event.reason, event.action, "%s", cut(event.text))
}

// Run writes, once a minute, the Events that objects share, until ctx is done.
func (r *Reports) Run(ctx context.Context) error {
	for {
		timer := r.clock.NewTimer(shareEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
			r.flush()
		}
	}
}

// flush writes the Events that objects share.
func (r *Reports) flush() {
	shared, unnamed := r.budget.take()
	for i := range shared {
		sharedEvent := &shared[i]
		on := &sharedEvent.example // a cluster-scoped object has no Namespace
		if namespace := sharedEvent.example.Namespace; namespace != "" {
			on = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace}
			if r.UID != nil {
				on.UID = r.UID(namespace)
			}
		}
		names := strings.Join(sharedEvent.names, ", ")
		text := fmt.Sprintf("%d x %s without an Event of their own: %s: %s: %s", sharedEvent.count, sharedEvent.kind, sharedEvent.what, names, sharedEvent.text)
		r.write(&report{on: on, reason: sharedEvent.reason, action: sharedEvent.action, text: text})
		r.log.Info("more objects are reported than have Events of their own", "namespace", sharedEvent.example.Namespace,
			"kind", sharedEvent.kind, "because", sharedEvent.what, "objects", sharedEvent.count)
	}
	if unnamed > 0 {
		r.log.Info("more objects are reported than have Events of their own", "objects", unnamed)
	}
}

// maxNote is how long the API server lets the text of an Event be.
const maxNote = 1024

// cut shortens a text to what fits into an Event.
func cut(text string) string {
	const more = "…"
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

const (
	// repeatAfter is how long until the same report is written again. The API server keeps Events
	// for an hour.
	repeatAfter = 25 * time.Minute
	// maxRemembered bounds how many reports are remembered, twice.
	maxRemembered = 10_000
	// burst and perSecond bound the Events on single objects, and maxAlone those in one namespace
	// between two flushes: one tenant must not use up the Events of the others.
	burst, perSecond = 100, 5
	maxAlone         = 20
	// shareEvery is how often shared Events are written, maxShared how many at a time, and
	// maxGroups how many may wait.
	shareEvery = time.Minute
	maxShared  = 60
	maxGroups  = 1000
	// maxNames is how many names a shared Event gives.
	maxNames = 3
)

// report is one report on one object.
type report struct {
	on             *corev1.ObjectReference
	reason, action string
	// what describes the problem. All objects that share an Event have the same.
	what, text string
}

// manner says whether and how a report was made.
type manner uint8

const (
	// reportedBefore: the same was reported on this object a while ago.
	reportedBefore manner = iota
	// reportedAlone: the object has an Event of its own.
	reportedAlone
	// reportedTogether: it is counted in an Event that objects share.
	reportedTogether
)

// eventBudget decides which reports become Events of their own. Its memory is bounded.
type eventBudget struct {
	seed maphash.Seed

	mu sync.Mutex
	// recent and earlier are when something was last reported. When recent is full it becomes
	// earlier.
	recent, earlier map[uint64]time.Time
	tokens          float64
	filled          time.Time
	alone           map[string]int // by namespace, since the last flush
	groups          map[group]*sharedEvent
	order           []group
	unnamed         int // counted in no group
}

// group identifies the Event that objects share.
type group struct{ namespace, apiVersion, kind, reason, what string }

// sharedEvent is an Event that objects share.
type sharedEvent struct {
	group
	action, text string
	example      corev1.ObjectReference
	names        []string
	count        int
}

func newEventBudget() *eventBudget {
	return &eventBudget{
		seed: maphash.MakeSeed(), recent: map[uint64]time.Time{}, earlier: map[uint64]time.Time{}, tokens: burst,
		alone: map[string]int{}, groups: map[group]*sharedEvent{},
	}
}

// admit decides how a report is made.
func (b *eventBudget) admit(event *report, now time.Time) manner {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.before(event, now) {
		return reportedBefore
	}
	b.tokens = min(burst, b.tokens+perSecond*max(0, now.Sub(b.filled).Seconds()))
	b.filled = now
	if namespace := event.on.Namespace; b.tokens >= 1 && b.alone[namespace] < maxAlone {
		b.tokens--
		b.alone[namespace]++
		return reportedAlone
	}
	key := group{event.on.Namespace, event.on.APIVersion, event.on.Kind, event.reason, event.what}
	shared := b.groups[key]
	switch {
	case shared != nil:
	case len(b.groups) < maxGroups:
		shared = &sharedEvent{group: key, action: event.action, text: cut(event.text), example: *event.on}
		b.groups[key] = shared
		b.order = append(b.order, key)
	default:
		b.unnamed++
		return reportedTogether
	}
	shared.count++
	if len(shared.names) < maxNames {
		shared.names = append(shared.names, event.on.Name)
	}
	return reportedTogether
}

// before reports whether the same was reported on the object lately, and remembers this report.
func (b *eventBudget) before(event *report, now time.Time) bool {
	var h maphash.Hash
	h.SetSeed(b.seed)
	for _, part := range []string{string(event.on.UID), event.reason, event.text} {
		_, _ = h.WriteString(part) // It never fails.
		_ = h.WriteByte(0)
	}
	key := h.Sum64()
	t, ok := b.recent[key]
	if !ok {
		t, ok = b.earlier[key]
	}
	if since := now.Sub(t); ok && since >= 0 && since < repeatAfter {
		return true
	}
	if len(b.recent) >= maxRemembered {
		b.recent, b.earlier = map[uint64]time.Time{}, b.recent
	}
	b.recent[key] = now
	return false
}

// take returns the oldest Events that objects share, and how many objects are counted in none. The
// next call returns the remaining Events.
func (b *eventBudget) take() (out []sharedEvent, unnamed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.alone)
	n := min(len(b.order), maxShared)
	for _, key := range b.order[:n] {
		out = append(out, *b.groups[key])
		delete(b.groups, key)
	}
	b.order = append([]group(nil), b.order[n:]...)
	unnamed, b.unnamed = b.unnamed, 0
	return out, unnamed
}
