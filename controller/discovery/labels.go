package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/wellknown"
)

// LabelsOptions of [Labels].
type LabelsOptions struct {
	// Discover lists what the API server serves.
	Discover func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
	// Definitions are the kinds of CustomResourceDefinitions, which are known without discovery.
	Definitions func() (map[schema.GroupResource]Kind, error)
	// Propagation returns the deletion propagation of a kind's profile, or "". A kind gets a new feed
	// when it changes.
	Propagation func(kind schema.GroupKind) (metav1.DeletionPropagation, error)
	// APIServices report when groups come and go.
	APIServices follow.Source
	// Identify asks for Curfew's own identity, and Granter for its permissions. RBAC is the source of
	// roles or bindings.
	Identify func(ctx context.Context) (permission.Identity, error)
	Granter  permission.Granter
	RBAC     func(resource string) follow.Source
	// Namespaces are asked about for kinds that may not be deleted everywhere, like the namespaces in
	// which a role is bound to Curfew.
	Namespaces []string
	Alias      bool // has the label's alias watched as well
	// Feeds are kept in step with the answers. Make makes one.
	Feeds *Set
	Make  func(spec *Spec) (Feed, error)

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

const (
	// askAgain is how often everything is asked for again, for changes that no event reports: an
	// aggregated API with new kinds, an authorizer other than RBAC. It takes a few requests, whatever
	// the number of kinds.
	askAgain = 10 * time.Minute
	// askSoon is how long after an event everything is asked for once more: another API server may
	// have answered.
	askSoon = 10 * time.Second
	// gatherFor is how long events are gathered: installing an operator brings many at once.
	gatherFor = 500 * time.Millisecond
)

// Labels keeps a feed of labelled objects for each kind that is served and permitted.
type Labels struct {
	options  LabelsOptions
	log      logr.Logger
	services *follow.Mirror[service]
	bindings *permission.Bindings
	source   *Source
	watched  prometheus.Gauge
	changed  []func()
	wake     loop.Signal
	// fresh means that something has changed since the last round.
	fresh atomic.Bool

	// The run loop alone uses these.
	discovered map[schema.GroupResource]Kind
	lacking    []string
	reported   map[schema.GroupKind]string

	mu sync.Mutex
	// places are the last answers, in order; nil until they are known.
	places []Place
}

// NewLabels makes a Labels.
func NewLabels(options LabelsOptions) *Labels {
	factory := promauto.With(options.Registerer)
	l := &Labels{
		options: options, log: options.Log.WithName("labels"), wake: loop.NewSignal(), reported: map[schema.GroupKind]string{},
		watched: factory.NewGauge(prometheus.GaugeOpts{Name: "curfew_label_kinds_watched",
			Help: "Kinds whose TTL labels are carried out, in some namespaces at least."}),
	}
	l.source = &Source{
		Make: options.Make, Log: l.log,
		Skipped: factory.NewGaugeVec(prometheus.GaugeOpts{Name: "curfew_label_kinds_skipped",
			Help: "Kinds whose TTL labels have no effect, by reason: Curfew lacks a permission, or the feed cannot be made."}, []string{"group", "kind", "reason"}),
	}
	l.services = follow.NewMirror(options.APIServices, readService, options.Clock, l.log)
	l.services.OnChange(func(_ string, old, new *service) {
		if old == nil || new == nil || *old != *new {
			l.Again()
		}
	})
	return l
}

// Again asks again which kinds are served and permitted, for example because a
// CustomResourceDefinition was created or deleted.
func (l *Labels) Again() {
	l.fresh.Store(true)
	l.wake.Set()
}

// Run keeps the feeds in step until ctx is done.
func (l *Labels) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { l.services.Run(ctx) })
	if !l.followRoles(ctx, &group) {
		return nil
	}
	l.Again()
	loop.Worker{
		Clock: l.options.Clock, Signal: l.wake, Gather: gatherFor, Do: l.refresh,
		Failed: func(err error, _ time.Duration) {
			l.log.Info("cannot find all kinds that may carry a TTL label, trying again", "reason", err.Error())
		},
	}.Run(ctx)
	return nil
}

// refresh asks which kinds are served and permitted, and starts and stops feeds. An answer that
// cannot be had keeps its last value.
func (l *Labels) refresh(ctx context.Context) (time.Duration, error) {
	next := time.Duration(askAgain)
	if l.fresh.Swap(false) {
		next = askSoon
	}
	custom, err := l.options.Definitions()
	if err != nil {
		return 0, err
	}
	errServed := l.discover(ctx)
	kinds := map[schema.GroupResource]Kind{}
	maps.Copy(kinds, l.discovered)
	maps.Copy(kinds, custom)
	answers, err := permission.Ask(ctx, l.options.Granter, l.namespaces())
	if err != nil {
		return 0, errors.Join(errServed, err)
	}
	var specs []*Spec
	places := []Place{}
	states := map[schema.GroupKind]string{}
	for _, kind := range kinds {
		namespaces, err := answers.Namespaces(ctx, kind.VersionResource(), kind.ClusterScoped)
		if err != nil {
			return 0, errors.Join(errServed, err)
		}
		propagation, err := l.options.Propagation(kind.GroupKind())
		if err != nil {
			return 0, errors.Join(errServed, err)
		}
		state := watchedIn + strings.Join(namespaces, ", ")
		switch {
		case len(namespaces) == 0:
			state = skipped
		case namespaces[0] == metav1.NamespaceAll:
			state = watched
		}
		states[kind.GroupKind()] = state
		places = append(places, Place{Kind: kind, Namespaces: namespaces})
		for _, namespace := range namespaces {
			specs = append(specs, l.specs(kind, namespace, propagation)...)
		}
	}
	l.options.Feeds.Apply(ctx, l.source, specs, nil)
	l.set(places)
	l.report(states)
	return next, errServed
}

// specs are the feeds of a kind in a namespace, or with "" in all.
func (l *Labels) specs(kind Kind, namespace string, propagation metav1.DeletionPropagation) []*Spec {
	label := &Spec{
		Key:  Key{Resource: kind.GroupResource(), Purpose: Label, Namespace: namespace},
		Kind: kind.GroupVersionKind, ClusterScoped: kind.ClusterScoped, Aggregated: kind.Aggregated, Propagation: propagation,
		Version:   fmt.Sprintf("%s/%t/%t/%s", kind.GroupVersionKind, kind.ClusterScoped, kind.Aggregated, propagation),
		Forbidden: l.Again,
	}
	if !l.options.Alias {
		return []*Spec{label}
	}
	alias := *label
	alias.Purpose = Alias
	return []*Spec{label, &alias}
}

// discover finds the kinds that are served, except for custom kinds. Where a group does not answer,
// its known kinds stay: an aggregated API that is down for a moment has not lost its kinds.
func (l *Labels) discover(ctx context.Context) error {
	groups, lists, err := l.options.Discover(ctx)
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partly {
		return fmt.Errorf("discovery: %w", err)
	}
	served := map[schema.GroupVersion]service{}
	if services, err := l.services.All(); err == nil {
		for _, service := range services {
			served[service.GroupVersion] = service
		}
	}
	kinds, lacking := kindsOf(groups, lists, func(g schema.GroupVersion) bool { return served[g].custom })
	for groupResource, kind := range kinds {
		kind.Aggregated = served[kind.GroupVersion()].aggregated
		kinds[groupResource] = kind
	}
	for groupResource, kind := range l.discovered {
		if _, ok := failed[kind.GroupVersion()]; ok {
			kinds[groupResource] = kind
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

// Place is a kind that is served, and where its TTL labels take effect: the namespaces in which the
// controller may delete its objects, "" alone for all of them, none for nowhere.
type Place struct {
	Kind
	Namespaces []string
}

// OnChange registers a function that is called when [Labels.Places] has changed. Call it before Run.
func (l *Labels) OnChange(f func()) { l.changed = append(l.changed, f) }

// Places are the kinds that are served, in a stable order. It returns false until they are known.
func (l *Labels) Places() ([]Place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places, l.places != nil
}

func (l *Labels) set(places []Place) {
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	l.mu.Lock()
	same := l.places != nil && slices.EqualFunc(l.places, places, Place.equal)
	l.places = places
	l.mu.Unlock()
	if same {
		return
	}
	for _, f := range l.changed {
		f()
	}
}

func (p Place) equal(other Place) bool {
	return p.Kind == other.Kind && slices.Equal(p.Namespaces, other.Namespaces)
}

// States of a kind, as the log shows them.
const (
	watched   = "watched"
	watchedIn = "watched in "
	skipped   = "skipped"
	gone      = "no longer served"
)

// report logs the changes, in one line for all kinds, and keeps the metrics.
func (l *Labels) report(states map[schema.GroupKind]string) {
	changed := map[string][]string{}
	count := 0
	for kind, state := range states {
		if state == skipped {
			l.source.Skipped.WithLabelValues(kind.Group, kind.Kind, "permission").Set(1)
		} else {
			l.source.Skipped.DeleteLabelValues(kind.Group, kind.Kind, "permission")
			count++
		}
		if l.reported[kind] != state {
			changed[state] = append(changed[state], kind.String())
		}
	}
	for kind := range l.reported {
		if states[kind] == "" {
			l.source.Skipped.DeleteLabelValues(kind.Group, kind.Kind, "permission")
			changed[gone] = append(changed[gone], kind.String())
		}
	}
	l.watched.Set(float64(count))
	l.reported = states
	for _, state := range slices.Sorted(maps.Keys(changed)) {
		slices.Sort(changed[state])
		hint := ""
		if state == skipped {
			hint = "grant get, list, watch and delete to a ClusterRole with label " + wellknown.LabelAggregate + ", or bind them in a namespace"
		}
		l.log.Info("TTL labels of kinds: "+state, "count", len(changed[state]), "kinds", changed[state], "hint", hint)
	}
}
