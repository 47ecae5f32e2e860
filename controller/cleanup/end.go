package cleanup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/collectors"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
)

// interrupted ends the attempt, not the run: the run is resumed after a while, at its next step.
func (r *run) interrupted(ctx context.Context, err error) error {
	reason := v1alpha1.ReasonRunFailed
	if errors.Is(err, errForbidden) || isForbidden(err) {
		reason = v1alpha1.ReasonForbidden
	}
	if ctx.Err() != nil || errors.Is(err, errOvertaken) || errors.Is(err, errGone) {
		return err
	}
	if reason == v1alpha1.ReasonRunFailed && r.c.stillPaused(ctx, r.policy, r.ledger.status()) {
		reason = v1alpha1.ReasonPaused
	}
	written := r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		r.stalled(s, reason, "the run was interrupted and will go on: "+err.Error())
		switch { // A resumed run waits for a permission that it lost, not for those that it never had.
		case reason == v1alpha1.ReasonForbidden:
			r.cur.permitted(s, err.Error())
		case r.opened && r.lacks == "":
			r.cur.permitted(s, "")
		}
	})
	return errors.Join(err, written)
}

// end ends the run. It writes the matches on their pages before the status names these pages.
func (r *run) end(ctx context.Context, phase v1alpha1.RunPhase, reason, message string) error {
	matches, err := r.writeMatches(ctx)
	if err != nil {
		return r.interrupted(ctx, err)
	}
	now, err := r.c.options.ServerTime(ctx)
	if err != nil {
		now = r.cur.now
	}
	err = r.ledger.end(ctx, phase, now, func(s *v1alpha1.CleanupPolicyStatus) {
		s.LastRun.Listed, s.LastRun.Matched, s.LastRun.DryRun = max(s.LastRun.Listed, r.survey.Listed), max(r.survey.Matched, s.LastRun.Deleted), r.info.DryRun && s.LastRun.Deleted+s.LastRun.Lost == 0
		s.LastRun.Skipped, s.Matches = nil, matches
		for _, count := range r.survey.Skipped {
			s.LastRun.Skipped = append(s.LastRun.Skipped, *count)
		}
		slices.SortFunc(s.LastRun.Skipped, func(a, b v1alpha1.SkipCount) int { return strings.Compare(a.Reason, b.Reason) })
		r.stalled(s, reason, message)
		if r.opened {
			r.cur.permitted(s, r.lacks)
		}
	})
	if err != nil {
		return err
	}
	r.report(phase, reason, message)
	return r.ledger.prune(ctx, r.info.ID, now)
}

// report tells people how the run ended: one log line, one Event.
func (r *run) report(phase v1alpha1.RunPhase, reason, message string) {
	status := r.ledger.status().LastRun
	text := fmt.Sprintf("deleted %d of %d objects", status.Deleted, status.Listed)
	switch {
	case status.DryRun:
		text = fmt.Sprintf("would delete %d of %d objects", status.Matched, status.Listed)
	case r.info.DryRun: // Since its approval was deleted.
		text += fmt.Sprintf(", and would delete %d more", r.survey.Matched)
	}
	if message != "" {
		text += ": " + message
	}
	r.c.metrics.runs.WithLabelValues(string(phase)).Inc()
	r.log.Info("a cleanup run has ended", "phase", phase, "deleted", status.Deleted, "matched", status.Matched, "listed", status.Listed, "dryRun", status.DryRun, "reason", reason)
	r.c.event(r.cur.object, reason != v1alpha1.ReasonComplete, "Cleanup"+string(phase), text)
}

// stalled sets Stalled.
func (r *run) stalled(s *v1alpha1.CleanupPolicyStatus, reason, message string) {
	stalled := metav1.ConditionTrue
	if reason == v1alpha1.ReasonComplete {
		stalled = metav1.ConditionFalse
	}
	r.cur.set(s, v1alpha1.ConditionStalled, stalled, reason, message)
}

// permitted sets PermissionsGranted; lacks names the missing permissions.
func (cur *current) permitted(s *v1alpha1.CleanupPolicyStatus, lacks string) {
	if lacks == "" {
		cur.set(s, v1alpha1.ConditionPermissionsGranted, metav1.ConditionTrue, v1alpha1.ReasonGranted, "")
		return
	}
	cur.set(s, v1alpha1.ConditionPermissionsGranted, metav1.ConditionFalse, v1alpha1.ReasonForbidden, lacks)
}

func (cur *current) set(s *v1alpha1.CleanupPolicyStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition((*[]metav1.Condition)(&s.Conditions), metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: quote.ShortenTo(message, 1024), ObservedGeneration: cur.policy.Generation,
		LastTransitionTime: metav1.NewTime(cur.now),
	})
}

// event records an Event on a policy.
func (c *Controller) event(object *unstructured.Unstructured, warning bool, reason, message string) {
	if c.options.Event == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	c.options.Event(object, kind, reason, message)
}

// settle reads the objects that an interrupted run had announced, and counts those that are gone.
// It deletes nothing. It ignores results that are on the page already, as others may have written
// them. Other runs have the turn meanwhile, since this may wait for a kind that cannot be read.
func (r *run) settle(ctx context.Context) error {
	return r.cur.turn.away(ctx, func() error { return r.settleAll(ctx) })
}

func (r *run) settleAll(ctx context.Context) error {
	var broken func(*v1alpha1.CleanupItem)
	if r.ending { // Newer runs wait for this one, and cannot wait until a user repairs the kind.
		broken = func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemUnknown, "its kind cannot be read"
		}
	}
	for _, uncounted := range r.ledger.status().UncountedDeletions {
		page, err := r.announced(ctx, &uncounted)
		if err != nil {
			return err
		}
		if page == nil {
			if err := r.lose(ctx, &uncounted); err != nil {
				return err
			}
			continue
		}
		unknown := map[types.UID]bool{}
		for i := range page.fields.Objects {
			item := &page.fields.Objects[i]
			unknown[item.UID], item.Result = item.Result == v1alpha1.ItemUnknown, ""
		}
		err = r.newBatch(page).check(ctx, func(item *v1alpha1.CleanupItem) {
			item.Result, item.Message = v1alpha1.ItemKept, "the run was interrupted"
			if unknown[item.UID] { // Its DELETE may still be carried out.
				item.Result, item.Message = v1alpha1.ItemUnknown, ""
			}
		}, broken)
		if err != nil {
			return err
		}
		if err := r.count(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// announced reads a page that the status announces. It is nil if it is not exactly what this run
// announced: others have written the page or the status, and it must be neither counted nor
// overwritten.
func (r *run) announced(ctx context.Context, uncounted *v1alpha1.UncountedPage) (*page, error) {
	fields, err := r.ledger.store.readPage(ctx, uncounted.Report)
	if err != nil || fields == nil || fields.Run != r.info.ID || uncounted.SHA256 != sumItems(fields.Objects) {
		return nil, err
	}
	page := newPage(fields.Policy, fields.Run, fields.Page, false, fields.Objects)
	if page.name = pageName(r.policy.Name, fields.Run, fields.Page); page.name != uncounted.Report {
		return nil, nil
	}
	return page, nil
}

// lose forgets a page that another writer deleted or changed: its outcomes are unknown from now on.
func (r *run) lose(ctx context.Context, page *v1alpha1.UncountedPage) error {
	r.log.Info("a report page was deleted or changed before its objects were counted", "report", page.Report, "objects", len(page.UIDs))
	return r.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		s.UncountedDeletions = without(s.UncountedDeletions, page.Report)
		if s.LastRun.Lost = plus(s.LastRun.Lost, int64(len(page.UIDs))); len(page.UIDs) == 0 {
			return
		}
		message := fmt.Sprintf("report %s was deleted or changed before its objects were counted: up to %d deletions are in no count", page.Report, s.LastRun.Lost)
		r.cur.set(s, v1alpha1.ConditionCountsExact, metav1.ConditionFalse, v1alpha1.ReasonReportLost, message)
	})
}

// sumItems is the checksum of what identifies the objects of a page. Whatever a run finds out about
// them does not change it.
func sumItems(items []v1alpha1.CleanupItem) string {
	sum := sha256.New()
	for i := range items {
		item := &items[i]
		_, _ = fmt.Fprintf(sum, "%q %q %q %q %q %q\n", item.UID, item.Group, item.Kind, item.Resource, item.Namespace, item.Name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

type metrics struct {
	runs    *prometheus.CounterVec
	objects *prometheus.CounterVec
	stalled *prometheus.GaugeVec

	// names: stalled has a series for each policy, not only for each namespace.
	names bool
	mu    sync.Mutex
	// reasons holds, by policy name, why a policy is stalled, and counts how often each reason occurs.
	reasons map[string]string
	counts  map[[3]string]int
}

func newMetrics(registerer prometheus.Registerer, names bool) (*metrics, error) {
	m := &metrics{
		names: names, reasons: map[string]string{}, counts: map[[3]string]int{},
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_runs_total",
			Help: "Runs of cleanup policies that ended, by how they ended: Completed, Stalled or Failed.",
		}, []string{"phase"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_cleanup_objects_total",
			Help: "Objects that cleanup policies were about to delete, by what became of them: Deleted, Gone, Kept, Failed, Unknown or WouldDelete.",
		}, []string{"result"}),
		stalled: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "curfew_cleanup_stalled_policies",
			Help: "Cleanup policies that do not delete all that they should, by namespace and the reason that their conditions give; namespace is empty for ClusterCleanupPolicies. With --metrics-policy-names also by policy.",
		}, []string{"namespace", "policy", "reason"}),
	}
	return m, collectors.Register(registerer, "metrics of cleanup policies", m.runs, m.objects, m.stalled)
}

// observe shows whether a policy is stalled; now is nil for one that is deleted. It takes the same
// time however many policies there are.
func (m *metrics) observe(resource, name string, now *seen) {
	policy, namespace := "clustercleanuppolicy/"+name, ""
	if resource == v1alpha1.CleanupPolicies {
		policy = "cleanuppolicy/" + name
		namespace, _, _ = strings.Cut(name, "/")
	}
	reason := ""
	if now != nil {
		reason = now.stalled
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.reasons[policy]
	if before == reason {
		return
	}
	if m.add(namespace, policy, before, -1); reason == "" {
		delete(m.reasons, policy)
		return
	}
	m.reasons[policy] = reason
	m.add(namespace, policy, reason, 1)
}

// add adds to a series. The lock is held.
func (m *metrics) add(namespace, policy, reason string, n int) {
	if reason == "" {
		return
	}
	if !m.names {
		policy = ""
	}
	series := [3]string{namespace, policy, reason}
	if m.counts[series] += n; m.counts[series] > 0 {
		m.stalled.WithLabelValues(series[:]...).Set(float64(m.counts[series]))
		return
	}
	delete(m.counts, series)
	m.stalled.DeleteLabelValues(series[:]...)
}
