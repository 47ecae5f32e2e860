package main

import (
	"context"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/controller/servertime"
)

// process is what webhooks and controller share.
type process struct {
	options    *options
	mgr        manager.Manager
	config     *rest.Config
	typed      kubernetes.Interface
	dynamic    dynamic.Interface
	clock      clock.WithTicker
	skew       *servertime.Skew
	reach      *servertime.Reach
	pauses     *pause.Gate // nil without the controller
	serverTime follow.ServerTime
	log        logr.Logger
	drain      drain
	// platform is what both judge by.
	platform follow.Cached
	// fresh reads the namespaces of --only-namespaces for admission; nil without that flag.
	fresh *follow.Fresh
}

// steps runs the steps of a setup until one fails.
func steps(ctx context.Context, all ...func(context.Context) error) error {
	for _, step := range all {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// together runs parts beside each other until ctx is done and all have ended. The first error ends
// the others.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// leaderRunnable runs on the holder of the lease alone.
type leaderRunnable func(context.Context) error

func (f leaderRunnable) Start(ctx context.Context) error { return f(ctx) }
func (leaderRunnable) NeedLeaderElection() bool          { return true }
