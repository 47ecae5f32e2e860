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

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Running is a feed of one kind.
type Running interface {
	// Run streams until ctx is done.
	Run(ctx context.Context) error
	RejudgeNamespace(name string)
	RejudgeAll()
}

// Options of a [Registry].
type Options struct {
	// Builtin are the profiles that come with Curfew.
	Builtin []*v1alpha1.KindProfile
	// Typed are kinds that have feeds of their own, whatever profiles say.
	Typed []schema.GroupKind
	// Compiler of expressions.
	Compiler *expression.Compiler
	// Profiles and Definitions are the sources of KindProfiles and of CustomResourceDefinitions.
	Profiles, Definitions follow.Source
	// Missing names the verbs on a resource that Curfew is not permitted.
	Missing func(ctx context.Context, resource schema.GroupVersionResource) ([]string, error)
	// Lacks answers with those permissions that Curfew does not have; nil where nobody asks.
	Lacks func(ctx context.Context, needs []Need) ([]Need, error)
	// Start makes the feed of a kind, and Forget drops what is tracked of one that is gone.
	Start  func(profile *expression.Profile) (Running, error)
	Forget func(resource schema.GroupVersionResource)
	// Hold stops the deletions of a kind, or lets them go on. It may be nil.
	Hold func(resource schema.GroupVersionResource, on bool)
	// Runtime is the source of a kind that objects refer to.
	Runtime func(resource schema.GroupVersionResource) follow.Source

	Clock      clock.Clock
	ServerTime follow.ServerTime
	Log        logr.Logger
	Registerer prometheus.Registerer
}

// settle is how long changes are gathered before they are acted on: installing an operator brings many at once.
const settle = 500 * time.Millisecond

// recheck is how often it is looked whether a permission that is missing was granted, which no event tells, once it has been
// missing for a while.
const recheck = time.Minute

// Registry starts and stops feeds as profiles and kinds come and go.
type Registry struct {
	options     Options
	log         logr.Logger
	profiles    *follow.Mirror[compiledProfile]
	definitions *follow.Mirror[expression.Definition]
	builtin     []compiledProfile
	dirty       chan struct{}
	skipped     *prometheus.GaugeVec
	status      *follow.Statuses // nil where none is written
	onRuntimes  []func()
	onProfile   []func(kind schema.GroupKind)

	mu      sync.Mutex
	running map[schema.GroupKind]*kind
	// ending are kinds that are no longer wanted, until their feeds have ended.
	ending map[schema.GroupKind]<-chan struct{}
	// changed counts, by kind, the changes of profiles that the feeds are not in step with yet.
	changed  map[schema.GroupKind]int
	runtimes map[schema.GroupVersionResource]*followed
}

// New makes a registry. Errors are those of built-in profiles, which a test rules out, and of metrics.
func New(options Options) (*Registry, error) {
	r := &Registry{
		options: options, log: options.Log.WithName("registry"), dirty: make(chan struct{}, 1),
		running: map[schema.GroupKind]*kind{}, changed: map[schema.GroupKind]int{}, ending: map[schema.GroupKind]<-chan struct{}{},
		runtimes: map[schema.GroupVersionResource]*followed{},
		skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{
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
		if err := options.Registerer.Register(r.skipped); err != nil {
			return nil, fmt.Errorf("registering metrics of the registry: %w", err)
		}
	}
	r.profiles = follow.NewMirror(options.Profiles, r.readProfile, options.Clock, r.log)
	r.definitions = follow.NewMirror(options.Definitions, readDefinition, options.Clock, r.log)
	r.profiles.OnChange(func(_ string, old, new *compiledProfile) { r.profileChanged(old, new); r.again() })
	r.definitions.OnChange(func(string, *expression.Definition, *expression.Definition) { r.profiles.Wake(); r.again() })
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

func (r *Registry) again() {
	select {
	case r.dirty <- struct{}{}:
	default:
	}
}

// Run keeps the feeds in step until ctx is done.
func (r *Registry) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.profiles.Run(ctx) })
	group.Go(func() { r.definitions.Run(ctx) })
	if r.status != nil {
		group.Go(func() { r.status.Run(ctx) })
	}
	if slices.Contains(r.options.Typed, policy.PodProfile.Kind.GroupKind()) {
		group.Go(func() { r.ask(ctx, finishNeeds()) })
	}
	defer r.stopAll()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.dirty:
		}
		timer := r.options.Clock.NewTimer(settle)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		select {
		case <-r.dirty:
		default:
		}
		changes := r.pendingChanges()
		wanted, err := r.wanted()
		if err != nil {
			r.log.V(1).Info("not all is known yet", "reason", err.Error())
			continue // What makes it known says so.
		}
		r.reconcile(ctx, wanted, changes)
		r.writeStatuses()
	}
}

// wanted are the kinds that can finish and are served, each with the profile as it holds for the installed version.
func (r *Registry) wanted() (map[schema.GroupKind]*wantedKind, error) {
	definitions, byKind, err := r.known()
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupKind]*wantedKind{}
	for _, definition := range definitions {
		profile, ok := byKind[definition.Kind]
		if !ok || slices.Contains(r.options.Typed, definition.Kind) || !profile.Finishable() {
			continue
		}
		fields, ok := definition.Serves(profile.Profile)
		if !ok {
			continue
		}
		installed := profile.Installed(fields, byDefinition(definitions))
		out[definition.Kind] = &wantedKind{
			profile: installed,
			version: fmt.Sprintf("%s/%s/%d/%s/%d/%s", profile.Name, profile.uid, profile.Generation, definition.UID, definition.Generation, installed.Unenforced),
		}
	}
	return out, nil
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

// RejudgeNamespace passes on that a namespace has changed its mind.
func (r *Registry) RejudgeNamespace(name string) {
	r.each(func(k *kind) { k.tell(func(feed Running) { feed.RejudgeNamespace(name) }) })
}

// RejudgeKinds passes on that a policy has changed.
func (r *Registry) RejudgeKinds(concerns func(schema.GroupKind) bool) {
	r.each(func(k *kind) {
		if concerns(k.profile.Kind.GroupKind()) {
			k.tell(Running.RejudgeAll)
		}
	})
}

func (r *Registry) each(f func(*kind)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.running {
		f(k)
	}
}
