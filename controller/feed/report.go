package feed

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"curfew.dev/curfew/controller/expiry"
	"curfew.dev/curfew/policy"
)

// Reports tells people what they should know: values that keep an object because they cannot be used, objects that do not
// go, pauses, and, in one Event on the source, what was deleted.
type Reports struct {
	events   events.EventRecorder
	log      logr.Logger
	unusable *prometheus.CounterVec
}

// NewReports registers its metrics.
func NewReports(recorder events.EventRecorder, log logr.Logger, registerer prometheus.Registerer) (*Reports, error) {
	reports := &Reports{
		events: recorder,
		log:    log.WithName("report"),
		unusable: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_unusable_values_total",
			Help: "Judgements that kept an object because a value that decides cannot be read or is not allowed.",
		}, []string{"kind", "level"}),
	}
	if err := registerer.Register(reports.unusable); err != nil {
		return nil, fmt.Errorf("registering metrics of the reports: %w", err)
	}
	return reports, nil
}

// report tells of a verdict that keeps an object because of a value that cannot be used (S6).
func (f *Feed) report(facts *policy.Facts, verdict policy.Verdict) {
	if verdict.Err == nil || f.options.Reports == nil {
		return
	}
	kind := f.kind.Profile.Kind
	level := string(verdict.Source.Level)
	if level == "" {
		level = string(policy.LevelObject)
	}
	r := f.options.Reports
	r.unusable.WithLabelValues(kind.Kind, level).Inc()
	r.log.Info("kept", "kind", kind.Kind, "object", name(facts.Namespace, facts.Name), "uid", facts.UID,
		"because", verdict.Reason, "reason", verdict.Err.Error(), "source", verdict.Source.String())
	reference := &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: facts.Namespace, Name: facts.Name, UID: facts.UID,
	}
	r.events.Eventf(reference, nil, corev1.EventTypeWarning, "Kept", "Judge", "%s: %s", verdict.Reason, verdict.Err)
}

// Stuck tells of an object that has been terminating for too long.
func (r *Reports) Stuck(stuck expiry.StuckObject) {
	r.log.Info("stuck: still terminating, some finalizer is not removed; it is not deleted again",
		"object", name(stuck.Object.Namespace, stuck.Object.Name), "uid", stuck.Object.UID, "since", stuck.Since)
}

// Summary writes one Event on each source for what was deleted on its behalf. Deletions that an object's own TTL asked for
// have no source but the object, which is gone; they are in the log.
func (r *Reports) Summary(summaries []expiry.Summary) {
	for _, summary := range summaries {
		source := policy.ParseSource(summary.Source)
		if source.Level != policy.LevelNamespace {
			continue
		}
		reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: source.Name}
		r.events.Eventf(reference, nil, corev1.EventTypeNormal, "Deleted", "Delete", "%s", summaryNote(summary))
	}
}

// noteMost is where the API server cuts the note of an Event.
const noteMost = 1024

func summaryNote(summary expiry.Summary) string {
	verb, count := "Deleted", summary.Deleted
	if count == 0 {
		verb, count = "Would delete (dry-run)", summary.DryRun
	}
	note := fmt.Sprintf("%s %d x %s by %s: %s", verb, count, summary.Kind.Kind, summary.Trigger, strings.Join(summary.Examples, ", "))
	if count > len(summary.Examples) {
		note += ", …"
	}
	if len(note) > noteMost {
		note = note[:noteMost]
	}
	return note
}

// Breaker tells of deletions that are paused or go on.
func (r *Reports) Breaker(event expiry.BreakerEvent) {
	state := "deletions go on"
	if event.Open {
		state = "deletions are paused"
	}
	r.log.Info(state, "class", event.Class, "kind", event.Kind, "namespace", event.Namespace, "source", event.Source,
		"because", event.Reason, "reason", event.Message)
	if source := policy.ParseSource(event.Source); source.Level == policy.LevelNamespace {
		reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: source.Name}
		kind := corev1.EventTypeNormal
		if event.Open {
			kind = corev1.EventTypeWarning
		}
		r.events.Eventf(reference, nil, kind, event.Reason, "Pause", "%s: %s", state, event.Message)
	}
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
