package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/events"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/controller/stop"
)

// addSettings publishes the flags.
func (c *controller) addSettings(context.Context) error {
	data := maps.Clone(c.options.published)
	data[settings.Version] = version
	c.settings = &settings.Publisher{
		ConfigMaps: c.dynamic.Resource(settings.Resource).Namespace(c.options.namespace),
		User: func(ctx context.Context) (string, error) {
			who, err := c.identify(ctx)
			return who.User, err
		},
		Data: data, Report: c.report, Changed: c.reported, Clock: c.clock, Log: c.log.WithName("settings"),
	}
	return nil
}

// report returns the state that is published with the settings. Its numbers equal the metrics.
func (c *controller) report() settings.Report {
	paused, everything := c.notices.pauses.Open()
	out := settings.Report{Paused: settings.ListOf(paused), AllPaused: everything}
	out.Incomplete, out.IncompleteKinds = settings.IncompleteOf(c.synced.Incomplete())
	held, _ := c.pauses.Last()
	out.Held, out.HeldUnread = settings.ListOf(held.Messages()), held.Unread
	skipped := map[string]bool{}
	families, err := metrics.Registry.Gather()
	if err != nil {
		c.log.V(1).Info("not all metrics could be read", "reason", err.Error())
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			value := int(metric.GetGauge().GetValue())
			switch family.GetName() {
			case "curfew_tracked_objects":
				out.Tracked += value
			case "curfew_overdue_objects":
				out.Overdue += value
			case "curfew_stuck_objects":
				out.Stuck += value
			case "curfew_blocked_objects":
				out.Blocked += value
			case "curfew_oldest_overdue_seconds":
				if value > 0 {
					// To the minute, so that the report does not change all the time.
					out.OldestDue = new(c.clock.Now().Add(-time.Duration(value) * time.Second).UTC().Truncate(time.Minute))
				}
			case "curfew_kinds_skipped":
				label := labelsOf(metric)
				kind := strings.TrimSuffix(label["kind"]+"."+label["group"], ".")
				skipped[kind+" ("+label["reason"]+")"] = value > 0
			}
		}
	}
	maps.DeleteFunc(skipped, func(_ string, skipped bool) bool { return !skipped })
	if c.cleanup != nil {
		out.Stalled = settings.ListOf(c.cleanup.Stalled())
	}
	out.Skipped = settings.ListOf(slices.Sorted(maps.Keys(skipped)))
	c.reportLabels(&out)
	wanted, foreign, err := c.coverage.State()
	out.Foreign = settings.ListOf(foreign)
	if out.Coverage = wanted; err != nil {
		out.CoverageError = err.Error()
	}
	return out
}

// known reports whether all objects that may expire are known, including objects with TTL labels.
func (c *controller) known() bool {
	if !c.leads.Load() || len(c.synced.Incomplete()) > 0 {
		return false
	}
	if c.labels == nil {
		return true
	}
	_, known := c.labels.Places()
	return known
}

func labelsOf(metric *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, pair := range metric.GetLabel() {
		out[pair.GetName()] = pair.GetValue()
	}
	return out
}

// reportLabels reports which kinds have TTL labels.
func (c *controller) reportLabels(out *settings.Report) {
	if c.labels == nil {
		return
	}
	places, _ := c.labels.Places()
	var skipped []string
	for _, place := range places {
		if len(place.Namespaces) == 0 {
			skipped = append(skipped, place.GroupResource().String())
		} else {
			out.LabelKinds++
		}
	}
	out.Unlabelled = settings.ListOf(skipped)
}

// notices writes Events and conditions on objects, Namespaces and LifecyclePolicies.
type notices struct {
	reports *feed.Reports
	digests *events.Digests
	pauses  *events.Pauses
	// failed writes an Event on an object that was failed for its deadline.
	failed func(stop.Mark)
}

// last reports the deletions since the last summary, within the time that a process gets to end.
func (n *notices) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	n.digests.Flush(ctx)
}

func (c *controller) addNotices(ctx context.Context) error {
	recorder := c.mgr.GetEventRecorder("curfew-controller")
	reports := feed.NewReports(recorder, c.log, metrics.Registry)
	reports.UID = c.namespaces.UID
	uids := func(target events.Target) types.UID {
		if target.Policy {
			return c.policies.UID(target.Name)
		}
		return c.namespaces.UID(target.Name)
	}
	c.notices = &notices{
		reports: reports,
		digests: events.NewDigests(events.DigestOptions{
			Client: c.typed.CoreV1(), UIDs: uids, Clock: c.clock, Log: c.log,
		}),
		pauses: events.NewPauses(events.PauseOptions{
			Recorder: recorder, Namespaces: events.Namespaces{Client: c.typed.CoreV1().Namespaces(), InUse: c.namespaces.InUse},
			Policies: c.policies, UIDs: uids, Own: c.options.namespace, Clock: c.clock, Log: c.log,
		}),
		failed: events.Failures(ctx, &typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")}),
	}
	return nil
}
