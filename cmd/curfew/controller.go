package main

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// addController wires feeds → engine → API server. All of it runs on the leader alone.
func addController(ctx context.Context, mgr manager.Manager, config *rest.Config, skew *engine.Skew, serverTime follow.ServerTime, options *options, log logr.Logger) error {
	client, err := deletion.NewClient(config)
	if err != nil {
		return err
	}
	reports, err := feed.NewReports(mgr.GetEventRecorder("curfew-controller"), log, metrics.Registry)
	if err != nil {
		return err
	}
	census, err := feed.NewCensus(metrics.Registry)
	if err != nil {
		return err
	}
	namespaces, err := feed.NewNamespaces(ctx, mgr.GetCache(), mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, serverTime, log)
	if err != nil {
		return err
	}
	reports.UID = namespaces.UID
	config = rest.CopyConfig(config)
	config.Wrap(feed.Buffer)
	objects, err := feed.NewObjects(config)
	if err != nil {
		return err
	}
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	rules := objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies))
	policies := follow.NewPolicies(rules, compiler, clock.RealClock{}, log)
	policies.WriteStatus(rules, clock.RealClock{}, serverTime)
	runtimes := &follow.Runtimes{Client: objects}
	owners := &registry.Owners{Client: objects, Mapper: mgr.GetRESTMapper()}
	notices, err := newNotices(ctx, mgr, config, namespaces, policies, options, log)
	if err != nil {
		return err
	}
	var kinds *registry.Registry
	triggers, err := newTriggers(client, config, objects, stop.Options{
		Clock: clock.RealClock{}, ServerTime: serverTime, Log: log, Registerer: metrics.Registry, Marked: notices.failed,
		Profile: func(kind schema.GroupKind) (*policy.Profile, error) { return kinds.Profile(kind) },
	})
	if err != nil {
		return err
	}
	engine, err := engine.New(engine.Options{
		Triggers: triggers, Ping: client.Ping, Skew: skew, Clock: clock.RealClock{},
		Log: log.WithName("expiry"), Registerer: metrics.Registry,
		MaxDeletionsPerMinute: options.maxDeletionsPerMinute, FavourDrain: options.favourDrain, DryRun: options.dryRun,
		StuckAfter: options.stuckAfter,
		OnSummary:  notices.digests.Add, OnBreaker: notices.pauses.Breaker, OnStuck: reports.Stuck, OnBlocked: reports.Blocked,
	})
	if err != nil {
		return err
	}
	shared := feed.Options{
		Engine: engine, Namespaces: namespaces, Policies: policies, Runtimes: runtimes, Owners: owners, Reports: reports,
		Clock: clock.RealClock{}, ServerTime: serverTime, Log: log,
		Protect: options.protected(), AnnotationsOnly: options.annotationsOnly(),
		RelistEvery: options.relistEvery, Propagation: metav1.DeletionPropagation(options.propagation), Listed: giveBack(ctx),
		Census: census,
	}
	maker, err := newFeedMaker(config, objects, shared)
	if err != nil {
		return err
	}
	feeds, err := maker.feeds(config)
	if err != nil {
		return err
	}
	kinds, err = newRegistry(objects, compiler, feeds, &shared)
	if err != nil {
		return err
	}
	maker.kinds = kinds
	labels, err := newLabels(config, objects, kinds, feeds, &shared, options)
	if err != nil {
		return err
	}
	kinds.WriteStatus(objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles)))
	runtimes.Cache = kinds
	namespaces.OnChange(feeds.RejudgeNamespace)
	namespaces.OnAdd(engine.RecheckNamespace)
	namespaces.OnOthers(func(name string) {
		if policies.ReadNamespaces() {
			feeds.RejudgeNamespace(name)
		}
	})
	policies.OnChange(feeds.RejudgeKinds)
	kinds.OnDefinitions(policies.Wake)
	keeper, err := newCoverage(objects, kinds, policies, labels, options, log)
	if err != nil {
		return err
	}
	return mgr.Add(leaderRunnable(func(ctx context.Context) error {
		if err := namespaces.WaitForSync(ctx); err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return engine.Run(ctx) })
		group.Go(func() error { return namespaces.Run(ctx) })
		group.Go(func() error { policies.Run(ctx); return nil })
		if err := policies.Wait(ctx); err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return kinds.Run(ctx) })
		group.Go(func() error { return keeper.Run(ctx) })
		group.Go(func() error { return labels.Run(ctx) })
		group.Go(func() error { return feeds.Run(ctx) })
		group.Go(func() error { return notices.pauses.Run(ctx) })
		group.Go(func() error { return notices.digests.Run(ctx) })
		group.Go(func() error { return reports.Run(ctx) })
		err := group.Wait()
		notices.last(ctx)
		return err
	}))
}
