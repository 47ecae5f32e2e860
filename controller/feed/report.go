package feed

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"curfew.dev/curfew/controller/expiry"
	"curfew.dev/curfew/policy"
)

// Reports tells people what they should know of single objects: values that keep one because they cannot be used, and objects that do
// not go. What sources are told is package notice's.
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

// Blocked writes an Event on an object that is due and cannot be deleted yet. The engine logs it.
func (r *Reports) Blocked(blocked expiry.BlockedObject) {
	reference := &corev1.ObjectReference{
		APIVersion: blocked.Kind.Resource.GroupVersion().String(), Kind: blocked.Kind.Kind,
		Namespace: blocked.Object.Namespace, Name: blocked.Object.Name, UID: blocked.Object.UID,
	}
	r.events.Eventf(reference, nil, corev1.EventTypeWarning, blocked.Reason, "Wait",
		"due since %s, but %s; Curfew keeps trying", blocked.Object.Expiry.UTC().Format(time.RFC3339), blocked.Message)
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
