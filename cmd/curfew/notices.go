package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/notice"
)

// notices writes Events and conditions on objects, Namespaces and LifecyclePolicies.
type notices struct {
	reports *feed.Reports
	digests *notice.Digests
	pauses  *notice.Pauses
	// failed writes an Event on an object that was failed for its deadline.
	failed func(stop.Mark)
}

func (n *notices) run(ctx context.Context) error {
	return together(ctx, n.reports.Run, n.digests.Run, n.pauses.Run)
}

// last reports the deletions since the last summary, within the time that a process gets to end.
func (n *notices) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	n.digests.Flush(ctx)
}

func (c *controller) addNotices(ctx context.Context) error {
	instance, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	recorder := c.mgr.GetEventRecorder("curfew-controller")
	reports, err := feed.NewReports(recorder, c.log, metrics.Registry)
	if err != nil {
		return err
	}
	reports.UID = c.namespaces.UID
	uids := func(target notice.Target) types.UID {
		if target.Policy {
			return c.policies.UID(target.Name)
		}
		return c.namespaces.UID(target.Name)
	}
	inside := c.options.only()
	namespaces := notice.Conditions(notice.Namespaces{Client: c.typed.CoreV1().Namespaces(), InUse: c.namespaces.InUse})
	policies := notice.Conditions(c.policies)
	if inside {
		namespaces, policies = notice.NoConditions{}, notice.NoConditions{}
	}
	c.notices = &notices{
		reports: reports,
		digests: notice.NewDigests(notice.DigestOptions{
			Events: func(namespace string) notice.Events { return c.typed.CoreV1().Events(namespace) }, UIDs: uids, Inside: inside,
			Instance: instance, Clock: c.clock, Log: c.log,
		}),
		pauses: notice.NewPauses(notice.PauseOptions{
			Recorder: recorder, Namespaces: namespaces, Policies: policies, UIDs: uids, Inside: inside, Own: c.options.namespace, Clock: c.clock,
			Log: c.log,
		}),
		failed: notice.Failures(ctx, &typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")}),
	}
	return nil
}
