package feed

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"curfew.dev/curfew/controller/deadline"
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

// Stuck writes an Event on an object that has been terminating for too long. The engine logs it.
func (r *Reports) Stuck(stuck expiry.StuckObject) {
	reference := &corev1.ObjectReference{
		APIVersion: stuck.Kind.Resource.GroupVersion().String(), Kind: stuck.Kind.Kind,
		Namespace: stuck.Object.Namespace, Name: stuck.Object.Name, UID: stuck.Object.UID,
	}
	r.events.Eventf(reference, nil, corev1.EventTypeWarning, "Stuck", "Wait",
		"still terminating since %s: some finalizer is not removed; Curfew does not delete it again", stuck.Since.UTC().Format(time.RFC3339))
}

// Marked writes the one Event on an object that Curfew failed for its deadline.
func (r *Reports) Marked(mark deadline.Mark) {
	reference := &corev1.ObjectReference{
		APIVersion: mark.Kind.GroupVersion().String(), Kind: mark.Kind.Kind, Namespace: mark.Namespace, Name: mark.Name, UID: mark.UID,
	}
	r.events.Eventf(reference, nil, corev1.EventTypeWarning, policy.ReasonDeadlineExceeded, "Fail", "%s", mark.Message)
}

// Summary writes one Event on each source for what was deleted on its behalf. Deletions that an object's own TTL asked for
// have no source but the object, which is gone; they are in the log.
func (r *Reports) Summary(summaries []expiry.Summary) {
	for _, summary := range summaries {
		source := policy.ParseSource(summary.Source)
		if source.Level != policy.LevelNamespace {
			continue
		}
		reason := "Deleted"
		if summary.Deleted == 0 {
			reason = "WouldDelete"
		}
		reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: source.Name}
		r.events.Eventf(reference, nil, corev1.EventTypeNormal, reason, "Delete", "%s", summaryNote(summary))
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

// Breaker writes an Event on the source whose deletions are paused or go on. The engine logs it.
func (r *Reports) Breaker(event expiry.BreakerEvent) {
	source := policy.ParseSource(event.Source)
	if source.Level != policy.LevelNamespace {
		return
	}
	kind, reason := corev1.EventTypeNormal, "DeletionsGoOn"
	if event.Open {
		kind, reason = corev1.EventTypeWarning, event.Reason
	}
	reference := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: source.Name}
	r.events.Eventf(reference, nil, kind, reason, "Pause", "%s", event.Message)
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
