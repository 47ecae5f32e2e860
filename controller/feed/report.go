package feed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
)

// Reports reports on single objects: objects that are kept because a value cannot be used, and
// objects that are not deleted in time. Package notice reports to Namespaces and policies.
//
// An object is judged again with each change and each list, but gets an Event for the same reason
// only now and then. Beyond a rate, objects share one Event on their Namespace (event_budget.go),
// so that a bound that thousands of objects break costs no request and no memory for each.
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
func NewReports(recorder events.EventRecorder, log logr.Logger, registerer prometheus.Registerer) (*Reports, error) {
	reports := &Reports{
		events: recorder,
		log:    log.WithName("report"),
		clock:  clock.RealClock{},
		unusable: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_unusable_values_total",
			Help: "Judgements that kept an object because a value that decides cannot be read or is not allowed.",
		}, []string{"group", "kind", "level"}),
		budget: newEventBudget(),
	}
	if err := registerer.Register(reports.unusable); err != nil {
		return nil, fmt.Errorf("registering metrics of the reports: %w", err)
	}
	return reports, nil
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
	level := string(verdict.Source.Level)
	if level == "" {
		level = string(policy.LevelObject)
	}
	kind := f.kind.Profile.Kind
	f.options.Reports.unusable.WithLabelValues(kind.Group, kind.Kind, level).Inc()
	f.options.Reports.kept(f.reference(facts.Namespace, facts.Name, facts.UID), verdict.Reason, verdict.Err, verdict.Source.String())
}

// notHeld reports an object that a policy in dry-run protects from Curfew only: the policy's
// default is in the native field, and the kind's own controller deletes by that field.
func (f *Feed) notHeld(facts *policy.Facts, verdict policy.Verdict) {
	if !verdict.DryRun || verdict.Trigger != policy.TriggerTTL || verdict.Source.Level != policy.LevelPolicy {
		return
	}
	native := policy.NativeDeletionOf(facts)
	if native == nil {
		return
	}
	f.options.Reports.say(report{
		on: f.reference(facts.Namespace, facts.Name, facts.UID), reason: "NotHeld", action: "Judge", what: "a dry run that binds Curfew alone",
		text: fmt.Sprintf("%s is in mode DryRun, which Curfew obeys, but %s deletes the object by %s %s at %s: remove the field to keep the object",
			verdict.Source.Phrase(), facts.Profile.NativeDeleter(), native.Setting.Path, native.Setting.Shown(), native.Expiry.UTC().Format(time.RFC3339)),
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
func (r *Reports) Stuck(stuck engine.StuckObject) {
	r.say(report{
		on: referenceOf(&stuck.Object, &stuck.Kind), reason: "Stuck", action: "Wait", what: "still terminating",
		text: fmt.Sprintf("still terminating since %s: some finalizer is not removed; Curfew does not delete it again", stuck.Since.UTC().Format(time.RFC3339)),
	})
}

// Blocked writes an Event on an object that is due and cannot be deleted yet. The engine logs it.
func (r *Reports) Blocked(blocked engine.BlockedObject) {
	r.say(report{
		on: referenceOf(&blocked.Object, &blocked.Kind), reason: blocked.Reason, action: "Wait", what: "due, and not deleted yet",
		text: fmt.Sprintf("due since %s, but %s; Curfew keeps trying", blocked.Object.Expiry.UTC().Format(time.RFC3339), blocked.Message),
	})
}

func referenceOf(object *engine.Object, kind *engine.KindOptions) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
	}
}

// say writes an Event on the object, unless the same was reported lately or too much is reported
// now.
func (r *Reports) say(of report) outcome {
	how := r.budget.admit(&of, r.clock.Now())
	if how == reportedAlone {
		r.write(&of)
	}
	return how
}

func (r *Reports) write(of *report) {
	r.events.Eventf(of.on, nil, corev1.EventTypeWarning, of.reason, of.action, "%s", cut(of.text))
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
		of := &shared[i]
		on := &of.example // a cluster-scoped object has no Namespace
		if namespace := of.example.Namespace; namespace != "" {
			on = &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace}
			if r.UID != nil {
				on.UID = r.UID(namespace)
			}
		}
		text := fmt.Sprintf("%d x %s without an Event of their own: %s: %s: %s", of.count, of.kind, of.what, strings.Join(of.names, ", "), of.text)
		r.write(&report{on: on, reason: of.reason, action: of.action, text: text})
		r.log.Info("more objects are reported than have Events of their own", "namespace", of.example.Namespace, "kind", of.kind, "because", of.what, "objects", of.count)
	}
	if unnamed > 0 {
		r.log.Info("more objects are reported than have Events of their own", "objects", unnamed)
	}
}

// noteMost is how long the API server lets the text of an Event be.
const noteMost = 1024

// cut shortens a text to what fits into an Event.
func cut(text string) string {
	const more = "…"
	if len(text) <= noteMost {
		return text
	}
	return strings.ToValidUTF8(text[:noteMost-len(more)], "") + more
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
