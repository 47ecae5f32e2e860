package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
)

// Options of a [Registry].
type Options struct {
	// Typed are feeds of kinds that run whatever profiles say.
	Typed []*feedset.Spec
	// Platform knows the profiles and the kinds that are served.
	Platform *follow.Platform
	// Feeds are kept in step with profiles and kinds.
	Feeds *feedset.Set

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

// gatherFor is how long changes are gathered: installing an operator brings many at once.
const gatherFor = 500 * time.Millisecond

// Registry starts and stops feeds as profiles and kinds come and go.
type Registry struct {
	options Options
	log     logr.Logger
	dirty   loop.Signal
	source  *feedset.Source
}

// New makes a registry. The errors are those of metrics. Call it before the platform is followed.
func New(options Options) (*Registry, error) {
	r := &Registry{options: options, log: options.Log.WithName("registry"), dirty: loop.NewSignal()}
	r.source = &feedset.Source{
		Log: r.log,
		Skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "curfew_kinds_skipped",
			Help: "Kinds with a profile that are not watched, or not for all, by reason: Curfew lacks a permission to watch and delete, to enforce a deadline or to write finish times, or the feed cannot be made.",
		}, []string{"kind", "reason"}),
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(r.source.Skipped); err != nil {
			return nil, fmt.Errorf("registering metrics of the registry: %w", err)
		}
	}
	options.Platform.Profiles.OnChange(options.Feeds.Outdated)
	options.Platform.Runtimes.OnChange(r.runtimeChanged)
	options.Platform.OnKinds(r.dirty.Set)
	return r, nil
}

// Run keeps the feeds in step until ctx is done.
func (r *Registry) Run(ctx context.Context) error {
	typed := *r.source // A source of its own: profiles replace none of these feeds.
	r.options.Feeds.Apply(ctx, &typed, r.options.Typed, nil)
	r.dirty.Set() // All may have been known for long, on a replica that was on standby.
	loop.Worker{Clock: r.options.Clock, Signal: r.dirty, Gather: gatherFor, Do: r.refresh}.Run(ctx)
	return nil
}

// refresh starts and stops feeds. Whatever is not known yet sets the signal once it is.
func (r *Registry) refresh(ctx context.Context) (time.Duration, error) {
	seen := r.options.Feeds.Changes()
	wanted, err := r.wanted()
	if err != nil {
		r.log.V(1).Info("not all is known yet", "reason", err.Error())
		return 0, nil
	}
	r.options.Feeds.Apply(ctx, r.source, wanted, seen)
	return 0, nil
}

// wanted are the feeds of the kinds that can finish and are served, each with the profile as it
// applies to the installed version.
func (r *Registry) wanted() ([]*feedset.Spec, error) {
	if err := r.options.Platform.Kinds(); err != nil {
		return nil, err
	}
	var out []*feedset.Spec
	for profile, definition := range r.options.Platform.Store().Snapshot().Installed() {
		if r.typed(profile.Kind.GroupKind()) || !profile.Finishable() {
			continue
		}
		out = append(out, feedset.OfProfile(profile, fmt.Sprintf("%s/%s/%d/%s/%d/%s",
			profile.Name, profile.UID, profile.Generation, definition.UID, definition.Generation, profile.Unenforced)))
	}
	return out, nil
}

func (r *Registry) typed(kind schema.GroupKind) bool {
	return slices.ContainsFunc(r.options.Typed, func(spec *feedset.Spec) bool { return spec.Kind.GroupKind() == kind })
}

// runtimeChanged has the objects judged again that may use a runtime: in its namespace, or with ""
// everywhere.
func (r *Registry) runtimeChanged(resource schema.GroupVersionResource, namespace string) {
	r.options.Feeds.Rejudge(namespace, func(spec *feedset.Spec) bool {
		return spec.Profile != nil && spec.Profile.Runtime != nil && slices.Contains(spec.Profile.Runtime.Resources(), resource)
	})
}

// Definitions are the kinds that CustomResourceDefinitions define, each in the version in which it
// is stored where that is served: reading it asks no conversion webhook, which may be broken.
func (r *Registry) Definitions() (map[schema.GroupResource]discovery.Kind, error) {
	all, err := r.options.Platform.Definitions()
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupResource]discovery.Kind{}
	for _, definition := range all {
		if version := definition.Preferred(); version != "" {
			kind := discovery.Kind{GroupVersionKind: definition.Kind.WithVersion(version), Resource: definition.Resource, ClusterScoped: definition.ClusterScoped}
			out[kind.GroupResource()] = kind
		}
	}
	return out, nil
}
