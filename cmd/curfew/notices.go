package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/notice"
)

// notices report to Namespaces and LifecyclePolicies, and on objects that were failed.
type notices struct {
	digests *notice.Digests
	pauses  *notice.Pauses
	// failed writes an Event on an object that was failed for its deadline.
	failed func(stop.Mark)
}

// newNotices wires namespaces and policies → reports on them.
func newNotices(ctx context.Context, mgr manager.Manager, config *rest.Config, namespaces *feed.Namespaces, policies *follow.Policies, options *options, log logr.Logger) (*notices, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	instance, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this host: %w", err)
	}
	uids := func(target notice.Target) types.UID {
		if target.Policy {
			return policies.UID(target.Name)
		}
		return namespaces.UID(target.Name)
	}
	return &notices{
		digests: notice.NewDigests(notice.DigestOptions{
			Events: client.CoreV1().Events(metav1.NamespaceDefault), UIDs: uids, Instance: instance, Clock: clock.RealClock{}, Log: log,
		}),
		pauses: notice.NewPauses(notice.PauseOptions{
			Recorder:   mgr.GetEventRecorder("curfew-controller"),
			Namespaces: notice.Namespaces{Client: client.CoreV1().Namespaces(), InUse: namespaces.InUse}, Policies: policies,
			UIDs: uids, Own: options.namespace, Clock: clock.RealClock{}, Log: log,
		}),
		failed: notice.Failures(ctx, &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}),
	}, nil
}

// last writes what was deleted since the last summary, within the time that a process gets to end.
func (n *notices) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	n.digests.Flush(ctx)
}
