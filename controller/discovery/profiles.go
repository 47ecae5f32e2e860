package discovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
)

// ProfilesOptions are the options of [NewProfiles].
type ProfilesOptions struct {
	// Typed are feeds of kinds that run whatever profiles say.
	Typed []*Spec
	// Watched reports whether any trigger judges the kind of a feed; the others do not run.
	Watched func(spec *Spec) bool
	// Deadlines reports whether deadlines are enforced, which takes further permissions.
	Deadlines bool
	// Platform knows the profiles and the kinds that are served.
	Platform *follow.Platform
	// Feeds are kept in step with profiles and kinds. Make makes one.
	Feeds *Set
	Make  func(spec *Spec) (Feed, error)

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

// Profiles keeps a feed for each kind that is served as its profile says.
// CustomResourceDefinitions alone say so: built-in kinds have typed feeds, and kinds of aggregated
// APIs none.
type Profiles struct {
	options ProfilesOptions
	log     logr.Logger
	dirty   loop.Signal
	source  *Source
}

// NewProfiles makes a Profiles. Call it before the platform is followed.
func NewProfiles(options ProfilesOptions) *Profiles {
	p := &Profiles{options: options, log: options.Log.WithName("kinds"), dirty: loop.NewSignal()}
	p.source = &Source{
		Make: options.Make, Log: p.log,
		Skipped: promauto.With(options.Registerer).NewGaugeVec(prometheus.GaugeOpts{Name: "curfew_kinds_skipped",
			Help: "Kinds with a profile that are not watched, or not for all, by reason: Curfew lacks a permission to watch and delete, " +
				"to enforce a deadline, to write finish times or to stamp runtimes, or the feed cannot be made."}, []string{"group", "kind", "reason"}),
	}
	options.Platform.Profiles.OnChange(options.Feeds.Outdated)
	options.Platform.Runtimes.OnChange(p.runtimeChanged)
	options.Platform.OnKinds(p.dirty.Set)
	return p
}

// Run keeps the feeds in step until ctx is done.
func (p *Profiles) Run(ctx context.Context) error {
	typed := *p.source // A source of its own: profiles replace none of these feeds.
	p.options.Feeds.Apply(ctx, &typed, p.watched(p.options.Typed), nil)
	p.dirty.Set() // All may have been known for long, on a replica that was on standby.
	loop.Worker{Clock: p.options.Clock, Signal: p.dirty, Gather: gatherFor, Do: p.refresh}.Run(ctx)
	return nil
}

// refresh starts and stops feeds. Whatever is not known yet sets the signal once it is.
func (p *Profiles) refresh(ctx context.Context) (time.Duration, error) {
	seen := p.options.Feeds.Changes()
	wanted, err := p.wanted()
	if err != nil {
		p.log.V(1).Info("not all is known yet", "reason", err.Error())
		return 0, nil
	}
	p.options.Feeds.Apply(ctx, p.source, wanted, seen)
	return 0, nil
}

// wanted are the feeds of the kinds that can finish and are served, each with the profile as it
// applies to the installed version.
func (p *Profiles) wanted() ([]*Spec, error) {
	if err := p.options.Platform.Kinds(); err != nil {
		return nil, err
	}
	var out []*Spec
	for profile, definition := range p.options.Platform.Store().Snapshot().Installed() {
		typed := func(spec *Spec) bool { return spec.Kind.GroupKind() == profile.Kind.GroupKind() }
		if slices.ContainsFunc(p.options.Typed, typed) || !profile.Finishable() {
			continue
		}
		spec := OfProfile(profile, fmt.Sprintf("%s/%s/%d/%s/%d/%s",
			profile.Name, profile.UID, profile.Generation, definition.UID, definition.Generation, profile.Unenforced))
		if !p.options.Deadlines {
			spec.Optional = slices.DeleteFunc(spec.Optional, func(needs Needs) bool { return needs.Reason == ReasonDeadline })
		}
		out = append(out, spec)
	}
	return p.watched(out), nil
}

// watched are the specs of kinds that a trigger judges.
func (p *Profiles) watched(specs []*Spec) []*Spec {
	return slices.DeleteFunc(slices.Clone(specs), func(spec *Spec) bool { return !p.options.Watched(spec) })
}

// runtimeChanged has the objects judged again that may use a runtime: in its namespace, or with ""
// everywhere. A LifecyclePolicy that looks at the runtime may bound their TTL label.
func (p *Profiles) runtimeChanged(resource schema.GroupVersionResource, namespace string) {
	snapshot := p.options.Platform.Store().Snapshot()
	p.options.Feeds.Rejudge(namespace, func(spec *Spec) bool {
		runtime := snapshot.RuntimeOf(spec.Kind.GroupKind())
		if spec.Profile != nil {
			runtime = spec.Profile.Runtime
		}
		return runtime != nil && slices.Contains(runtime.Resources(), resource)
	})
}

// Defined are the kinds that CustomResourceDefinitions define, each in the version in which it is
// stored where that is served: reading it asks no conversion webhook, which may be broken.
func Defined(platform *follow.Platform) (map[schema.GroupResource]Kind, error) {
	all, err := platform.Definitions()
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupResource]Kind{}
	for _, definition := range all {
		if version := definition.Preferred(); version != "" {
			out[schema.GroupResource{Group: definition.Kind.Group, Resource: definition.Resource}] = Kind{
				GroupVersionKind: definition.Kind.WithVersion(version), Resource: definition.Resource, ClusterScoped: definition.ClusterScoped,
			}
		}
	}
	return out, nil
}
