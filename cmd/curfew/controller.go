package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/expiry"
	"curfew.dev/curfew/controller/feed"
)

// addController wires feeds → engine → API server. All of it runs on the leader alone.
func addController(ctx context.Context, mgr manager.Manager, config *rest.Config, skew *expiry.Skew, options *options, log logr.Logger) error {
	deleter, err := expiry.NewClient(config)
	if err != nil {
		return err
	}
	reports, err := feed.NewReports(mgr.GetEventRecorder("curfew-controller"), log, metrics.Registry)
	if err != nil {
		return err
	}
	engine, err := expiry.New(expiry.Options{
		Deleter: deleter, Ping: deleter.Ping, Skew: skew, Clock: clock.RealClock{},
		Log: log.WithName("expiry"), Registerer: metrics.Registry,
		MaxDeletionsPerMinute: options.maxDeletionsPerMinute, FavourDrain: options.favourDrain, DryRun: options.dryRun,
		StuckAfter: options.stuckAfter,
		OnSummary:  reports.Summary, OnBreaker: reports.Breaker, OnStuck: reports.Stuck,
	})
	if err != nil {
		return err
	}
	namespaces, err := feed.NewNamespaces(ctx, mgr.GetCache(), mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, log)
	if err != nil {
		return err
	}
	feeds, err := newFeeds(config, feed.Options{
		Engine: engine, Namespaces: namespaces, Reports: reports, Clock: clock.RealClock{}, Log: log,
		Protect: append([]string{options.namespace}, options.protect...), AnnotationsOnly: options.annotationsOnly(),
		RelistEvery: options.relistEvery,
	})
	if err != nil {
		return err
	}
	namespaces.OnChange(func(name string) {
		for _, feed := range feeds {
			feed.RejudgeNamespace(name)
		}
	})
	return mgr.Add(leaderRunnable(func(ctx context.Context) error {
		if err := namespaces.WaitForSync(ctx); err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return engine.Run(ctx) })
		group.Go(func() error { return namespaces.Run(ctx) })
		for _, feed := range feeds {
			group.Go(func() error { return feed.Run(ctx) })
		}
		return group.Wait()
	}))
}

func newFeeds(config *rest.Config, options feed.Options) ([]*feed.Feed, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	var feeds []*feed.Feed
	for _, kind := range []feed.Kind{feed.Jobs(client), feed.Pods(client)} {
		one, err := feed.New(kind, options)
		if err != nil {
			return nil, err
		}
		feeds = append(feeds, one)
	}
	return feeds, nil
}
