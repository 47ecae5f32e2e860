package main

import (
	"context"
	"errors"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/controller/backfill"
	"curfew.dev/curfew/controller/cleanup"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// controller are the parts of the controller.
type controller struct {
	*process
	watches    *rest.Config // for lists and watches
	objects    dynamic.Interface
	namespaces *follow.Namespaces
	policies   *follow.Policies
	notices    *notices
	deletion   deletion.Action
	engine     *expire.Engine
	rules      *follow.Rules
	maker      *feedMaker
	jobs       *follow.Jobs
	feeds      *discovery.Set
	kinds      *discovery.Profiles
	labels     *discovery.Labels // nil where trigger label is switched off
	coverage   *webhookconfig.Keeper
	settings   *settings.Publisher
	backfill   *backfill.Labels    // nil likewise
	cleanup    *cleanup.Controller // nil where trigger cleanup is switched off
	tally      *tally.Controller
	reported   loop.Signal // triggers a new report
	synced     *feed.SyncedMetric
	leads      atomic.Bool // leads, and has read the policies and namespaces
}

// addController wires feeds → engine → API server. Each step uses the parts that earlier steps
// made.
func addController(ctx context.Context, process *process) error {
	c := &controller{process: process, reported: loop.NewSignal()}
	err := steps(ctx, c.addClients, c.addStatuses, c.addNotices, c.addEngine, c.addFeeds, c.addKinds, c.addCoverage, c.addBackfill,
		c.addCleanup, c.addTally, c.addSettings)
	if err != nil {
		return err
	}
	c.connect()
	return errors.Join(c.mgr.Add(leaderRunnable(c.runOnce)), c.mgr.Add(leaderRunnable(c.runObjects)))
}

// runOnce runs the parts that may run only once in a cluster: stamps, statuses, the webhook
// configurations, the default labels of existing objects, and the published flags.
func (c *controller) runOnce(ctx context.Context) error {
	return together(ctx, c.settings.Run, func(ctx context.Context) error {
		if err := c.ready(ctx); err != nil {
			return err
		}
		all := []func(context.Context) error{c.count, c.namespaces.Run, c.policies.WriteStatuses,
			c.platform.Platform.Profiles.WriteStatuses, c.platform.Platform.Runtimes.RunStamps, c.coverage.Run}
		if c.backfill != nil {
			all = append(all, c.backfill.Run)
		}
		return together(ctx, all...)
	})
}

// runObjects finds, deletes and reports objects. Several processes could run it, for disjoint
// namespaces.
func (c *controller) runObjects(ctx context.Context) error {
	defer c.notices.last(ctx)
	return together(ctx, c.pauses.Run, c.rules.Run, c.engine.Run, func(ctx context.Context) error {
		if err := c.ready(ctx); err != nil {
			return err
		}
		c.leads.Store(true)
		return together(ctx, append(c.finders(), c.feeds.Run, c.kinds.Run, c.notices.reports.Run, c.notices.digests.Run, c.notices.pauses.Run)...)
	})
}

// ready waits until namespaces and policies are known: without them no bound would be in effect.
func (c *controller) ready(ctx context.Context) error {
	if err := c.namespaces.WaitForSync(ctx); err != nil {
		return err
	}
	return c.policies.Wait(ctx)
}

func (c *controller) addClients(context.Context) (err error) {
	c.watches = rest.CopyConfig(c.config)
	c.watches.Wrap(feed.Buffer)
	c.objects, err = feed.NewObjects(c.watches)
	c.watches.Wrap(watch.Cap) // NewObjects has it.
	return err
}

// addStatuses makes the followers write stamps and statuses on Namespaces, policies, profiles and
// runtimes.
func (c *controller) addStatuses(context.Context) error {
	c.namespaces, c.policies = c.platform.Namespaces, c.platform.Platform.Policies
	c.namespaces.WriteStamps(c.mgr.GetClient(), c.serverTime)
	if c.options.on(policy.TriggerTally) {
		c.namespaces.StampTallied(c.platform.Platform.Tallies)
	}
	c.platform.Platform.Runtimes.WriteStamps(c.serverTime)
	recorder := c.mgr.GetEventRecorder("curfew-controller")
	held := func(object *unstructured.Unstructured, reason, message string) {
		recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, "Hold", "%s", message)
	}
	c.policies.WriteStatus(c.objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies)), c.serverTime, held)
	profiles := c.objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles))
	c.platform.Platform.Profiles.WriteStatus(profiles, c.serverTime, held)
	return nil
}

func (c *controller) addEngine(context.Context) error {
	if err := c.readPauses(); err != nil {
		return err
	}
	client, err := deletion.NewClient(c.config)
	if err != nil {
		return err
	}
	c.deletion = c.disowning(deletion.NewDeleteAction(client, c.clock, metrics.Registry))
	triggers, err := c.actions()
	if err != nil {
		return err
	}
	c.rules = follow.NewRules(c.platform.Platform, c.platform.Namespaces, c.clock, c.log, metrics.Registry)
	c.synced = feed.NewSyncedMetric(metrics.Registry, c.clock, c.reported.Set)
	c.engine, err = expire.New(expire.Options{
		Triggers: triggers, Known: c.known, Ping: client.Ping, Skew: c.skew, Behind: c.reach.Behind, Pauses: c.pauses, Rules: c.rules, Clock: c.clock,
		Log: c.log.WithName("expiry"), Registerer: metrics.Registry,
		MaxDeletionsPerMinute: c.options.maxDeletionsPerMinute, FavourDrain: c.options.favourDrain, DryRun: c.options.dryRun,
		StuckAfter: c.options.stuckAfter,
		OnSummary:  c.notices.digests.Add, OnStuck: c.notices.reports.Stuck, OnBlocked: c.notices.reports.Blocked,
		OnBreaker: func(event expire.BreakerEvent) {
			c.notices.pauses.Breaker(event)
			c.reported.Set()
		},
	})
	return err
}

func (c *controller) addFeeds(ctx context.Context) (err error) {
	owners := &follow.Owners{Client: c.objects, Mapper: c.mgr.GetRESTMapper()}
	c.jobs = follow.NewJobs(owners)
	from := follow.Cached{Platform: c.platform.Platform, Namespaces: c.platform.Namespaces, Jobs: c.jobs}
	c.maker, err = newFeedMaker(c.options, c.watches, c.objects, c.jobs, feed.Options{
		Engine: c.engine, Cached: from, Live: from.Live(), Failed: c.policies.Failed, Reports: c.notices.reports, Synced: c.synced,
		Owners: owners, Clock: c.clock, ServerTime: c.serverTime, Log: c.log,
		Protect: c.options.protected(), AnnotationsOnly: c.options.annotationsOnly(), LeaveNative: c.options.leaveNativeTTL,
		RelistEvery: c.options.relistEvery, Propagation: metav1.DeletionPropagation(c.options.propagation), Listed: giveBack(ctx),
	})
	if err != nil {
		return err
	}
	c.feeds = c.maker.feeds(c.reviews())
	return nil
}

// addKinds adds the discovery of kinds, which decides which feeds run.
func (c *controller) addKinds(context.Context) error {
	c.kinds = newProfiles(c)
	if c.options.on(policy.TriggerLabel) {
		c.labels = newLabels(c)
	}
	return nil
}

// connect subscribes each part to the changes that concern it.
func (c *controller) connect() {
	// A namespace concerns all kinds, and the objects that a cleanup run has listed, which no feed
	// holds.
	c.namespaces.OnChange(c.engine.RecheckNamespace)
	c.namespaces.OnAdd(c.engine.RecheckNamespace)
	c.namespaces.OnChange(c.feeds.RejudgeNamespace)
	c.namespaces.OnOthers(func(name string) {
		switch {
		case c.policies.ReadNamespaces():
			c.engine.RecheckNamespace(name)
			c.feeds.RejudgeNamespace(name)
		case c.cleanup != nil:
			c.engine.RecheckNamespace(name)
		}
	})
	c.jobs.OnChange(c.feeds.RejudgePods)
	c.platform.Platform.Tallies.OnChange(func(namespace string) { c.feeds.RejudgePods(namespace, "", false) })
	c.policies.OnChange(c.feeds.RejudgeKinds)
	c.policies.OnChange(func(func(schema.GroupKind) bool) { c.coverage.Again() })
	c.platform.Platform.OnNoKueue = func() { c.feeds.RejudgeKinds(policy.MultiKueueCopies) }
	c.platform.Platform.OnKinds(c.coverage.Again)
	c.platform.Platform.Runtimes.OnChange(func(schema.GroupVersionResource, string) { c.coverage.Again() })
	if c.labels != nil {
		c.platform.Platform.OnKinds(c.labels.Again)
		c.labels.OnChange(c.coverage.Again)
		c.labels.OnChange(c.backfill.Again)
		c.policies.OnChange(func(func(schema.GroupKind) bool) { c.backfill.Again() })
	}
}

// addPauses makes all clients hold the requests that a DeletionPause names, and all deletions and
// stops of a replica that may have lost its Lease.
func (p *process) addPauses() {
	p.pauses = deletion.NewGate(deletion.GateOptions{Clock: p.clock, Log: p.log.WithName("pause"), Leads: p.lease.held})
	p.config.Wrap(p.pauses.Wrap)
}

// readPauses sets where the pauses are read from.
func (c *controller) readPauses() error {
	read, err := deletion.PausesOfCluster(c.config)
	c.pauses.Use(read, c.reported.Set)
	return err
}

// apiServices say which groups the API server serves; rbac is the version of roles and their
// bindings.
var (
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	rbac        = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
)

// newProfiles wires profiles → feeds of their kinds.
func newProfiles(c *controller) *discovery.Profiles {
	watched := func(spec *discovery.Spec) bool { return len(c.options.judges(profileOf(spec))) > 0 }
	return discovery.NewProfiles(discovery.ProfilesOptions{
		Typed: discovery.Typed(), Watched: watched, Deadlines: c.options.on(policy.TriggerDeadline),
		Platform: c.platform.Platform, Feeds: c.feeds, Make: c.maker.withProfile, Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
}

// newLabels wires discovery and permissions → feeds of labelled objects.
func newLabels(c *controller) *discovery.Labels {
	return discovery.NewLabels(discovery.LabelsOptions{
		Discover: func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			return clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, clientdiscovery.ToDiscoveryInterfaceWithContext(c.typed.Discovery()))
		},
		Definitions: func() (map[schema.GroupResource]discovery.Kind, error) { return discovery.Defined(c.platform.Platform) },
		Propagation: c.platform.Platform.Propagation, APIServices: c.objects.Resource(apiServices),
		Identify: c.identify, Granter: c.reviews(),
		RBAC:       func(resource string) follow.Source { return c.objects.Resource(rbac.WithResource(resource)) },
		Namespaces: c.options.namespaces, Alias: c.options.kyvernoLabel, Feeds: c.feeds, Make: c.maker.labelled,
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
}

// identify asks the API server who Curfew is.
func (p *process) identify(ctx context.Context) (permission.Identity, error) {
	review, err := p.typed.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return permission.Identity{}, err
	}
	return permission.Identity{User: review.Status.UserInfo.Username, Groups: review.Status.UserInfo.Groups}, nil
}

// reviews asks the API server for Curfew's permissions.
func (p *process) reviews() permission.Reviews {
	client := p.typed.AuthorizationV1()
	return permission.Reviews{Access: client.SelfSubjectAccessReviews(), RulesOf: client.SelfSubjectRulesReviews()}
}
