package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Engine is what a run needs of the engine.
type Engine interface {
	RegisterKind(k expire.KindOptions) (expire.Kind, error)
	ForgetKind(k expire.Kind)
	Delete(ctx context.Context, o expire.Entry, work expire.Work) expire.Outcome
	Epoch() uint64
}

// Options are what a Controller works with. All fields are required unless they say otherwise.
type Options struct {
	// Objects reads policies and approvals, and writes statuses and reports.
	Objects dynamic.Interface
	// Account returns the clients of a service account; the zero name is Curfew's own.
	Account func(types.NamespacedName) (*Account, error)
	Engine  Engine
	// Served are the resources that can be listed and deleted.
	Served func(context.Context) ([]cleanup.Resource, error)
	// Cached is the platform that decides about objects of a list, Live about one that changed.
	Cached, Live platform.Source
	// Namespaces are all that are known, or an error until they are.
	Namespaces func() ([]*resolution.NamespacePolicy, error)
	// Protect are the namespaces in which nothing is deleted.
	Protect []string
	// DryRun makes every run a dry run.
	DryRun bool
	// MinInterval is the shortest time between two runs of a policy.
	MinInterval time.Duration
	// MaxPolicies is how many CleanupPolicies of a namespace may run.
	MaxPolicies int
	// ReportBytes is how much the reports of a namespace may take; 0 means any number.
	ReportBytes int64
	// RequireApproval makes approval mandatory for CleanupPolicies.
	RequireApproval bool
	// Held reports whether a pause holds what cleanup runs delete of a scope: see
	// [judging.PauseScope]. With "" that is a pause without namespaces.
	Held func(ctx context.Context, scope string) bool
	// Unread is why it is not known whether a pause holds anything; "" if it is known.
	Unread func() string
	// ServerTime is the API server's time, or an error while that is not known.
	ServerTime func(context.Context) (time.Time, error)
	// Event records an Event on a policy. It may be nil.
	Event func(object *unstructured.Unstructured, eventType, reason, message string)

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
	// PolicyNames: metrics name policies. Without, they name only namespaces.
	PolicyNames bool
}

const (
	fieldManager = "curfew-cleanup"
	// recheck is how often a policy is looked at without any reason to.
	recheck = 10 * time.Minute
	// retryFirst is the wait after a first failure of a policy. It doubles up to the next run, and
	// up to retrySoon if that is not known, or if the account lacks a permission.
	retryFirst, retrySoon = time.Second, 30 * time.Second
)

// Controller runs cleanup policies.
type Controller struct {
	options  Options
	discover survey.Served // is Options.Served as it was given; runs share the answers of Options.Served itself
	log      logr.Logger
	compiler *expression.Compiler
	queue    *loop.RetryQueue
	metrics  *metrics
	// namespaced and cluster are the policies of both kinds.
	namespaced, cluster *follow.Mirror[seen]
	// ages tell how long each namespaced policy has existed.
	ages *ages
	// unchanged reports whether a policy is still what a run applies.
	unchanged func(*cleanup.Policy) bool

	// turns limits the runs that list and judge at once, remembering the runs that keep much in memory
	// until they end, reviews the permission checks between runs, and judging the live judgements.
	turns, remembering, reviews, judging *turns

	mu      sync.Mutex
	checked map[types.UID]checked
}

// New makes a controller that does nothing until Run.
func New(options Options) *Controller {
	discover := options.Served
	options.Served = survey.Share(options.Clock, discover)
	c := &Controller{
		options: options, metrics: newMetrics(options.Registerer, options.PolicyNames), discover: discover, log: options.Log.WithName("cleanup"), compiler: expression.NewCompiler(expression.DefaultCacheSize),
		queue: loop.NewRetryQueue(options.Clock, recheck), checked: map[types.UID]checked{}, ages: newAges(),
		turns: newTurns(options.Clock, runsAtOnce, runsShare), remembering: newTurns(options.Clock, rememberingAtOnce, rememberingShare),
		reviews: newTurns(options.Clock, runsAtOnce, runsAtOnce), judging: newTurns(options.Clock, judgingAtOnce, judgingShare),
	}
	follows := func(resource string) *follow.Mirror[seen] {
		source := options.Objects.Resource(v1alpha1.GroupVersion.WithResource(resource))
		m := follow.NewMirror(source, see, options.Clock, c.log.WithValues("resource", resource))
		m.OnChange(func(name string, old, now *seen) {
			if resource == v1alpha1.CleanupPolicies {
				c.ages.observe(name, old, now)
			}
			switch {
			case name == "":
			case now == nil:
				c.queue.Remove(resource + "/" + name)
			case old == nil || old.spec != now.spec:
				c.queue.Add(resource + "/" + name)
			}
			c.metrics.observe(resource, name, now)
		})
		return m
	}
	c.unchanged = c.stillApplies
	c.namespaced, c.cluster = follows(v1alpha1.CleanupPolicies), follows(v1alpha1.ClusterCleanupPolicies)
	return c
}

// Run runs policies until ctx is done. It may run once in a cluster.
func (c *Controller) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { c.namespaced.Run(ctx) })
	all.Go(func() { c.cluster.Run(ctx) })
	c.serve(ctx)
	all.Wait()
	return nil
}

// known reports whether a policy of this name is known: it may have been created again during a run
// of the old one.
func (c *Controller) known(key string) bool {
	resource, name, _ := strings.Cut(key, "/")
	mirror := c.cluster
	if resource == v1alpha1.CleanupPolicies {
		mirror = c.namespaced
	}
	_, ok := mirror.Get(name)
	return ok
}

// stillApplies reports whether a policy is still what a run applies.
func (c *Controller) stillApplies(p *cleanup.Policy) bool {
	mirror, key := c.cluster, p.Name
	if p.Namespace != "" {
		mirror, key = c.namespaced, p.Namespace+"/"+p.Name
	}
	now, ok := mirror.Get(key)
	return ok && now.uid == p.UID && now.generation <= p.Generation && !now.suspended && !now.deleting
}

// namespaceOf is the namespace in the key of a policy. A ClusterCleanupPolicy counts as a namespace
// of its own: only administrators write them, and each may have to list the whole cluster.
func namespaceOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	namespace, _, namespaced := strings.Cut(name, "/")
	if !namespaced {
		return key
	}
	return namespace
}

// Stalled are the policies that do not delete all that they should, with the reason.
func (c *Controller) Stalled() []string {
	c.metrics.mu.Lock()
	defer c.metrics.mu.Unlock()
	out := make([]string, 0, len(c.metrics.reasons))
	for policy, reason := range c.metrics.reasons {
		out = append(out, policy+" ("+reason+")")
	}
	slices.Sort(out)
	return out
}

// limit checks what admission checks as well: policies get past it.
func (c *Controller) limit(p *cleanup.Policy) (errs field.ErrorList, err error) {
	if err := p.CheckInterval(c.options.MinInterval); err != nil {
		errs = append(errs, err)
	}
	if p.Namespace == "" {
		return errs, nil
	}
	if err := c.namespaced.Known(); err != nil {
		return nil, err
	}
	own, _ := c.namespaced.Get(p.Namespace + "/" + p.Name)
	if older := c.ages.older(p.Namespace, spec{uid: p.UID, created: own.created}); older >= c.options.MaxPolicies {
		text := "namespace %q has %d older CleanupPolicies, and %d may run: see --cleanup-max-policies"
		message := fmt.Sprintf(text, p.Namespace, older, c.options.MaxPolicies)
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "namespace"), message))
	}
	return errs, nil
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

// checked is when the permissions of a generation of a policy were checked, and until when that
// counts.
type checked struct {
	generation int64
	at, until  time.Time
}

// maxChecked bounds how many policies are remembered, deleted ones included.
const maxChecked = 10_000
