package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of a [Registry].
type Options struct {
	// Builtin are the profiles that come with Curfew.
	Builtin []*v1alpha1.KindProfile
	// Typed are feeds of kinds that run whatever profiles say.
	Typed []*feedset.Spec
	// Compiler of expressions.
	Compiler *expression.Compiler
	// Profiles and Definitions are the sources of KindProfiles and of CustomResourceDefinitions.
	Profiles, Definitions follow.Source
	// Feeds are kept in step with profiles and kinds.
	Feeds *feedset.Set
	// Runtime is the source of a kind that objects refer to.
	Runtime func(resource schema.GroupVersionResource) follow.Source

	Clock      clock.Clock
	ServerTime follow.ServerTime
	Log        logr.Logger
	Registerer prometheus.Registerer
}

// gatherFor is how long changes are gathered: installing an operator brings many at once.
const gatherFor = 500 * time.Millisecond

// Registry starts and stops feeds as profiles and kinds come and go.
type Registry struct {
	options     Options
	log         logr.Logger
	profiles    *follow.Mirror[compiledProfile]
	definitions *follow.Mirror[expression.Definition]
	builtin     []compiledProfile
	dirty       loop.Signal
	source      *feedset.Source
	status      *follow.Statuses // nil where none is written
	onRuntimes  []func()

	mu       sync.Mutex
	runtimes map[schema.GroupVersionResource]*followed
}

// New makes a registry. Errors are those of built-in profiles, which a test rules out, and of metrics.
func New(options Options) (*Registry, error) {
	r := &Registry{
		options: options, log: options.Log.WithName("registry"), dirty: loop.NewSignal(),
		runtimes: map[schema.GroupVersionResource]*followed{},
	}
	r.source = &feedset.Source{
		Log: r.log,
		Skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "curfew_kinds_skipped",
			Help: "Kinds with a profile that are not watched, or not for all, by reason: Curfew lacks a permission to watch and delete, to enforce a deadline or to write finish times, or the feed cannot be made.",
		}, []string{"kind", "reason"}),
	}
	for _, object := range options.Builtin {
		compiled := r.compile(object)
		if len(compiled.errs) > 0 {
			return nil, fmt.Errorf("built-in profile %s: %w", object.Name, compiled.errs.ToAggregate())
		}
		r.builtin = append(r.builtin, compiled)
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(r.source.Skipped); err != nil {
			return nil, fmt.Errorf("registering metrics of the registry: %w", err)
		}
	}
	r.profiles = follow.NewMirror(options.Profiles, r.readProfile, options.Clock, r.log)
	r.definitions = follow.NewMirror(options.Definitions, readDefinition, options.Clock, r.log)
	r.profiles.OnChange(func(_ string, old, new *compiledProfile) { r.profileChanged(old, new); r.dirty.Set() })
	r.definitions.OnChange(func(string, *expression.Definition, *expression.Definition) { r.profiles.Wake(); r.dirty.Set() })
	return r, nil
}

// OnDefinitions registers a function that is told when kinds come and go. Call it before Run.
func (r *Registry) OnDefinitions(f func()) {
	r.definitions.OnChange(func(string, *expression.Definition, *expression.Definition) { f() })
}

// OnChange registers a function that is told when kinds or profiles come, change or go. Call it before Run.
func (r *Registry) OnChange(f func()) {
	r.OnDefinitions(f)
	r.profiles.OnChange(func(string, *compiledProfile, *compiledProfile) { f() })
}

// Run keeps the feeds in step until ctx is done.
func (r *Registry) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.profiles.Run(ctx) })
	group.Go(func() { r.definitions.Run(ctx) })
	defer r.stopRuntimes()
	typed := *r.source // A source of its own: profiles replace none of these feeds.
	r.options.Feeds.Apply(ctx, &typed, r.options.Typed, nil)
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
	r.followRuntimes(ctx, wanted)
	r.writeStatuses()
	return 0, nil
}

// wanted are the feeds of the kinds that can finish and are served, each with the profile as it applies to the installed version.
func (r *Registry) wanted() ([]*feedset.Spec, error) {
	definitions, byKind, err := r.known()
	if err != nil {
		return nil, err
	}
	var out []*feedset.Spec
	for _, definition := range definitions {
		profile, ok := byKind[definition.Kind]
		if !ok || r.typed(definition.Kind) || !profile.Finishable() {
			continue
		}
		fields, ok := definition.Serves(profile.Profile)
		if !ok {
			continue
		}
		installed := profile.Installed(fields, byDefinition(definitions))
		out = append(out, feedset.OfProfile(installed, fmt.Sprintf("%s/%s/%d/%s/%d/%s",
			profile.Name, profile.uid, profile.Generation, definition.UID, definition.Generation, installed.Unenforced)))
	}
	return out, nil
}

func (r *Registry) typed(kind schema.GroupKind) bool {
	return slices.ContainsFunc(r.options.Typed, func(spec *feedset.Spec) bool { return spec.Kind.GroupKind() == kind })
}

// byDefinition looks a kind up.
func byDefinition(definitions map[string]expression.Definition) func(schema.GroupKind) *expression.Definition {
	return func(kind schema.GroupKind) *expression.Definition {
		for _, definition := range definitions {
			if definition.Kind == kind {
				return &definition
			}
		}
		return nil
	}
}

// known are the CustomResourceDefinitions, and the profiles that hold by kind. Before both are known it is an error.
func (r *Registry) known() (map[string]expression.Definition, map[schema.GroupKind]compiledProfile, error) {
	definitions, err := r.definitions.All()
	if err != nil {
		return nil, nil, fmt.Errorf("CustomResourceDefinitions: %w", err)
	}
	own, err := r.profiles.All()
	if err != nil {
		return nil, nil, fmt.Errorf("KindProfiles: %w", err)
	}
	byKind := map[schema.GroupKind]compiledProfile{}
	for _, profile := range r.builtin {
		byKind[profile.Kind.GroupKind()] = profile
	}
	names := make([]string, 0, len(own))
	for name := range own {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) }) // The first in the alphabet comes last and holds.
	for _, name := range names {
		byKind[own[name].Kind.GroupKind()] = own[name]
	}
	return definitions, byKind, nil
}

// Propagation is what a kind's profile says of the dependents of what is deleted, whatever the trigger; "" where it does not say, or there is
// none. Before the KindProfiles are known it is an error: one that orphans dependents would not be heeded.
func (r *Registry) Propagation(kind schema.GroupKind) (metav1.DeletionPropagation, error) {
	profile, err := r.profileOf(kind)
	if profile == nil {
		return "", err
	}
	return profile.Propagation, nil
}

// RuntimeOf is what objects of a kind refer to by its profile; nil where they refer to nothing, or where there is none. Before the KindProfiles
// are known it is an error.
func (r *Registry) RuntimeOf(kind schema.GroupKind) (*expression.Runtime, error) {
	profile, err := r.profileOf(kind)
	if profile == nil {
		return nil, err
	}
	return profile.Runtime, nil
}

// Profile is how a kind's objects are read, such as what another kind runs; nil where it has no profile. Before the KindProfiles are known it
// is an error.
func (r *Registry) Profile(kind schema.GroupKind) (*policy.Profile, error) {
	profile, err := r.profileOf(kind)
	if profile == nil {
		return nil, err
	}
	return profile.Profile, nil
}

// profileOf is a kind's profile, in whatever version: the cluster's own before one that comes with Curfew. Nil where there is none.
func (r *Registry) profileOf(kind schema.GroupKind) (*expression.Profile, error) {
	own, err := r.profiles.All()
	if err != nil {
		return nil, fmt.Errorf("KindProfiles: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if own[name].Kind.GroupKind() == kind {
			return own[name].Profile, nil
		}
	}
	for _, profile := range r.builtin {
		if profile.Kind.GroupKind() == kind {
			return profile.Profile, nil
		}
	}
	return nil, nil
}

// profileChanged holds the deletions of the kinds that a changed profile concerns.
func (r *Registry) profileChanged(old, new *compiledProfile) {
	if old != nil && new != nil && old.uid == new.uid && old.Generation == new.Generation {
		return // Only its status or metadata changed.
	}
	kinds := map[schema.GroupKind]bool{}
	for _, profile := range []*compiledProfile{old, new} {
		if profile != nil {
			kinds[profile.Kind.GroupKind()] = true
		}
	}
	for kind := range kinds {
		r.options.Feeds.Outdated(kind)
	}
}
