package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy"
)

// Target is what one feed of labelled objects watches.
type Target struct {
	Labelable
	// Namespace is the only one that is watched; "" for all.
	Namespace string
	// Alias asks for the label's alias instead of the label.
	Alias bool
	// Propagation of deletions; "" where the kind's profile does not say.
	Propagation metav1.DeletionPropagation
}

// LabelOptions are those of [Labels].
type LabelOptions struct {
	// Discover lists what the API server serves.
	Discover func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
	// Definitions are the kinds of CustomResourceDefinitions, which are known without discovery; see [Registry.Definitions].
	Definitions func() (map[schema.GroupResource]Labelable, error)
	// Propagation is what a kind's profile says of dependents; see [Registry.Propagation]. A kind of which it changes gets a new feed.
	Propagation func(kind schema.GroupKind) (metav1.DeletionPropagation, error)
	// APIServices tell when groups come and go.
	APIServices follow.Source
	// Identify asks who Curfew is to the API server, and Granter what it may do. RBAC is the source of one kind of roles or
	// bindings.
	Identify func(ctx context.Context) (Identity, error)
	Granter  Granter
	RBAC     func(resource string) follow.Source
	// Namespaces are looked at for kinds that may not be watched everywhere, beside those in which something is bound to Curfew.
	Namespaces []string
	// Alias has the label's alias watched as well.
	Alias bool
	// Start makes the feed of a target, which calls forbidden when it is refused. Forget drops what is tracked of one.
	Start  func(target Target, forbidden func()) (Running, error)
	Forget func(target Target)

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

const (
	// askAgain is how often everything is asked for anew, for what no event told: an aggregated API with new kinds, an
	// authorizer that is not RBAC. It takes a few requests, whatever the number of kinds.
	askAgain = 10 * time.Minute
	// settled is how long after an event everything is asked for once more: another API server may have answered.
	settled = 10 * time.Second
)

// Labels keeps a feed of labelled objects for each kind that is served and permitted.
type Labels struct {
	options  LabelOptions
	log      logr.Logger
	services *follow.Mirror[group]
	bindings *bindings
	skipped  *prometheus.GaugeVec
	watched  prometheus.Gauge
	wake     chan struct{}

	// What follows is the run loop's alone.
	discovered map[schema.GroupResource]Labelable
	lacking    []string
	said       map[string]string // what was last said of a kind, by its name

	mu     sync.Mutex
	feeds  map[Target]*labelFeed
	ending map[lane][]<-chan struct{} // feeds that have been stopped, until they have ended
	// everywhere are the resources of which objects may be deleted in all namespaces, in order; nil until that is known.
	everywhere []schema.GroupResource
	changed    []func()
}

// NewLabels makes the keeper of the feeds. The errors are those of metrics.
func NewLabels(options LabelOptions) (*Labels, error) {
	l := &Labels{
		options: options, log: options.Log.WithName("labels"), wake: make(chan struct{}, 1),
		feeds: map[Target]*labelFeed{}, ending: map[lane][]<-chan struct{}{}, said: map[string]string{},
		skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "curfew_label_kinds_skipped",
			Help: "Kinds whose TTL labels have no effect, by reason: Curfew lacks a permission, or the feed cannot be made.",
		}, []string{"kind", "reason"}),
		watched: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "curfew_label_kinds_watched",
			Help: "Kinds whose TTL labels are carried out, in some namespaces at least.",
		}),
	}
	if options.Registerer != nil {
		for _, collector := range []prometheus.Collector{l.skipped, l.watched} {
			if err := options.Registerer.Register(collector); err != nil {
				return nil, fmt.Errorf("registering metrics of labels: %w", err)
			}
		}
	}
	l.services = follow.NewMirror(options.APIServices, readAPIService, options.Clock, l.log)
	l.services.OnChange(func(_ string, old, new *group) {
		if old == nil || new == nil || *old != *new {
			l.Again()
		}
	})
	return l, nil
}

// followRBAC mirrors roles and bindings, once it is known whose.
func (l *Labels) followRBAC(ctx context.Context) ([]*follow.Mirror[string], error) {
	identity, err := l.identity(ctx)
	if err != nil {
		return nil, err
	}
	l.bindings = newBindings(identity, l.Again)
	version := func(object *unstructured.Unstructured) string { return object.GetResourceVersion() }
	var out []*follow.Mirror[string]
	for _, resource := range []string{"clusterroles", "roles"} {
		roles := follow.NewMirror(l.options.RBAC(resource), version, l.options.Clock, l.log)
		roles.OnChange(l.bindings.roleChanged)
		out = append(out, roles)
	}
	for _, resource := range []string{"clusterrolebindings", "rolebindings"} {
		bound := follow.NewMirror(l.options.RBAC(resource), l.bindings.readBinding, l.options.Clock, l.log)
		bound.OnChange(l.bindings.bindingChanged)
		out = append(out, bound)
	}
	return out, nil
}

// identity asks until there is an answer. An API server that cannot say (before Kubernetes 1.28) leaves nobody: permissions are
// then noticed with the timer alone.
func (l *Labels) identity(ctx context.Context) (Identity, error) {
	for delay := newDelay(); ; {
		identity, err := l.options.Identify(ctx)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return identity, ctx.Err()
		}
		l.log.Info("could not ask who Curfew is, trying again", "reason", err.Error())
		timer := l.options.Clock.NewTimer(delay.Step())
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// OnChange registers a function that is told when [Labels.Everywhere] has changed. Call it before Run.
func (l *Labels) OnChange(f func()) { l.changed = append(l.changed, f) }

// Everywhere are the resources of which Curfew may delete objects in all namespaces, in an order that is always the same. Until that
// is known it is false.
func (l *Labels) Everywhere() ([]schema.GroupResource, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.everywhere, l.everywhere != nil
}

func (l *Labels) setEverywhere(all []schema.GroupResource) {
	slices.SortFunc(all, func(a, b schema.GroupResource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	l.mu.Lock()
	same := l.everywhere != nil && slices.Equal(l.everywhere, all)
	l.everywhere = all
	l.mu.Unlock()
	if same {
		return
	}
	for _, f := range l.changed {
		f()
	}
}

// Again has kinds and permissions looked at anew, as when CustomResourceDefinitions come and go.
func (l *Labels) Again() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run keeps the feeds in step until ctx is done.
func (l *Labels) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { l.services.Run(ctx) })
	rbac, err := l.followRBAC(ctx)
	if err != nil {
		return nil
	}
	for _, mirror := range rbac {
		group.Go(func() { mirror.Run(ctx) })
	}
	defer l.stopAll()
	l.Again()
	delay := newDelay()
	next := l.options.Clock.NewTimer(askAgain)
	defer next.Stop()
	for {
		wait := time.Duration(askAgain)
		select {
		case <-ctx.Done():
			return nil
		case <-next.C():
		case <-l.wake:
			wait = settled
			if !l.gather(ctx) {
				return nil
			}
		}
		if err := l.refresh(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			l.log.Info("could not tell all kinds whose TTL labels are to be carried out, trying again", "reason", err.Error())
			wait = delay.Step()
		} else {
			delay = newDelay()
		}
		next.Reset(wait)
	}
}

// gather waits for what comes with a change: installing an operator brings much at once.
func (l *Labels) gather(ctx context.Context) bool {
	timer := l.options.Clock.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
	}
	select {
	case <-l.wake:
	default:
	}
	return true
}

// refresh asks what is served and permitted, and starts and stops feeds. What could not be asked stays as it was.
func (l *Labels) refresh(ctx context.Context) error {
	custom, err := l.options.Definitions()
	if err != nil {
		return err
	}
	errServed := l.discover(ctx)
	kinds := maps.Clone(l.discovered)
	for at, kind := range custom {
		if kinds == nil {
			kinds = map[schema.GroupResource]Labelable{}
		}
		kinds[at] = kind
	}
	permissions, err := askForGrants(ctx, l.options.Granter, l.candidates())
	if err != nil {
		return errors.Join(errServed, err)
	}
	wanted := map[Target]bool{}
	states := map[string]string{}
	everywhere := []schema.GroupResource{}
	for _, kind := range kinds {
		name := kind.Kind.GroupKind().String()
		granted, err := permissions.of(ctx, kind)
		switch {
		case err != nil:
			return errors.Join(errServed, err)
		case granted.nowhere():
			states[name] = "skipped"
			continue
		case granted.everywhere:
			states[name] = "watched"
			granted.namespaces = []string{metav1.NamespaceAll}
			everywhere = append(everywhere, kind.groupResource())
		default:
			states[name] = "watched in " + strings.Join(granted.namespaces, ", ")
		}
		propagation, err := l.options.Propagation(kind.Kind.GroupKind())
		if err != nil {
			return errors.Join(errServed, err)
		}
		for _, namespace := range granted.namespaces {
			target := Target{Labelable: kind, Namespace: namespace, Propagation: propagation}
			wanted[target] = true
			if target.Alias = l.options.Alias; target.Alias {
				wanted[target] = true
			}
		}
	}
	l.reconcile(ctx, wanted)
	l.setEverywhere(everywhere)
	l.tell(states)
	return errServed
}

// candidates are the namespaces in which more may be granted than everywhere.
func (l *Labels) candidates() []string {
	out := append(l.bindings.namespaces(), l.options.Namespaces...)
	slices.Sort(out)
	return slices.Compact(out)
}

// discover brings up to date what is served beside custom kinds. Where a group does not answer, what was known of it stays: an
// aggregated API that is down for a moment has not lost its kinds.
func (l *Labels) discover(ctx context.Context) error {
	groups, lists, err := l.options.Discover(ctx)
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		return fmt.Errorf("discovery: %w", err)
	}
	served := map[schema.GroupVersion]group{}
	if services, err := l.services.All(); err == nil {
		for _, service := range services {
			served[service.GroupVersion] = service
		}
	}
	kinds, lacking := labelable(groups, lists, func(of schema.GroupVersion) bool { return served[of].custom })
	for at, kind := range kinds {
		kind.Aggregated = served[kind.Kind.GroupVersion()].aggregated
		kinds[at] = kind
	}
	for at, kind := range l.discovered {
		if _, ok := failed[kind.Kind.GroupVersion()]; ok {
			kinds[at] = kind
		}
	}
	if !slices.Equal(lacking, l.lacking) {
		l.log.V(1).Info("kinds that cannot be listed, watched and deleted have no TTL label", "resources", lacking)
	}
	l.discovered, l.lacking = kinds, lacking
	if partly {
		return fmt.Errorf("discovery: %w", err)
	}
	return nil
}

// tell says once what has changed, in one line for all kinds, and keeps the metrics.
func (l *Labels) tell(states map[string]string) {
	changed := map[string][]string{}
	watched := 0
	for name, state := range states {
		if state == "skipped" {
			l.skipped.WithLabelValues(name, "permission").Set(1)
		} else {
			l.skipped.DeleteLabelValues(name, "permission")
			watched++
		}
		if l.said[name] != state {
			changed[state] = append(changed[state], name)
		}
	}
	for name := range l.said {
		if states[name] == "" {
			l.skipped.DeleteLabelValues(name, "permission")
			changed["no longer served"] = append(changed["no longer served"], name)
		}
	}
	l.watched.Set(float64(watched))
	l.said = states
	for _, state := range slices.Sorted(maps.Keys(changed)) {
		slices.Sort(changed[state])
		hint := ""
		if state == "skipped" {
			hint = "grant get, list, watch and delete to a ClusterRole with label " + policy.LabelAggregate + ", or bind them in a namespace"
		}
		l.log.Info("TTL labels of kinds: "+state, "count", len(changed[state]), "kinds", changed[state], "hint", hint)
	}
}

// RejudgeNamespace passes on that a namespace has changed its mind.
func (l *Labels) RejudgeNamespace(name string) {
	l.each(func(f *labelFeed) { f.feed.RejudgeNamespace(name) })
}

// RejudgeKinds passes on that a policy has changed.
func (l *Labels) RejudgeKinds(concerns func(schema.GroupKind) bool) {
	l.each(func(f *labelFeed) {
		if concerns(f.target.Kind.GroupKind()) {
			f.feed.RejudgeAll()
		}
	})
}

func (l *Labels) each(f func(*labelFeed)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, feed := range l.feeds {
		if feed.feed != nil {
			f(feed)
		}
	}
}
