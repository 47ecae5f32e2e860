package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of a [Platform].
type Options struct {
	// Builtin are the profiles that come with Curfew.
	Builtin []*v1alpha1.KindProfile
	// Source is how a resource is listed and watched, and Client reads single objects.
	Source func(resource schema.GroupVersionResource) Source
	Client dynamic.Interface
	Clock  clock.Clock
	Log    logr.Logger
}

// gatherFor is how long changes of kinds are gathered: installing an operator brings many at once.
const gatherFor = 500 * time.Millisecond

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Platform follows LifecyclePolicies, KindProfiles, CustomResourceDefinitions and training
// runtimes, and keeps a [platform.Store] current. It follows PodTallies, too. Admission and the
// controller judge by it. A kind that is not served, as before its CRD is installed, has no
// objects.
type Platform struct {
	Policies *Policies
	Profiles *Profiles
	Runtimes *Runtimes
	Tallies  *Tallies
	// OnNoKueue is called when objects were kept for MultiKueue's label, and Kueue's CRD is found
	// absent. Set it before Run.
	OnNoKueue func()

	store       *platform.Store
	definitions *Mirror[expression.Definition]
	live        *recent[*rules]
	kueue       *recent[bool] // whether Kueue's CRD is absent; nil where that is never known
	copies      atomic.Bool   // an object with MultiKueue's label was kept
	clock       clock.Clock
	dirty       loop.Signal
	onKinds     []func()
}

// NewPlatform makes a follower. It fails only if a built-in profile is bad, which a test rules out.
func NewPlatform(options Options) (*Platform, error) {
	store, err := platform.New(options.Builtin)
	if err != nil {
		return nil, err
	}
	p := &Platform{store: store, clock: options.Clock, dirty: loop.NewSignal()}
	definitions := options.Source(definitionResource)
	own := func(resource string) Source { return options.Source(v1alpha1.GroupVersion.WithResource(resource)) }
	p.Policies = NewPolicies(own(v1alpha1.LifecyclePolicies), store, options.Clock, options.Log)
	p.Profiles = NewProfiles(own(v1alpha1.KindProfiles), store, options.Clock, options.Log)
	p.Policies.mirror.Unserved = p.unserved(definitions, v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies))
	p.Profiles.mirror.Unserved = p.unserved(definitions, v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles))
	p.Tallies = newTallies(own(v1alpha1.PodTallies), options.Clock, options.Log)
	p.live = newRecent(options.Clock, p.readRules, func() any { return store.Snapshot() }) // A change of a rule replaces it.
	p.Tallies.mirror.Unserved = unserved(definitions, v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies))
	p.Runtimes = newRuntimes(options, store)
	p.definitions = NewMirror(definitions, readDefinition, options.Clock, options.Log.WithName("kinds"))
	p.kueue = newRecent(options.Clock, unserved(definitions, kueue), func() any { return p.noKueue() })
	store.SetNoMultiKueue(func(context.Context) (bool, error) { return p.noKueue(), nil })
	p.definitions.OnChange(func(name string, _, new *expression.Definition) {
		if name != "" {
			store.SetDefinition(name, new)
		}
		p.Policies.mirror.Wake() // One of them may be Curfew's own.
		p.Profiles.mirror.Wake()
		p.Tallies.mirror.Wake()
		p.kindsChanged()
	})
	p.Profiles.mirror.OnChange(func(string, *compiledProfile, *compiledProfile) { p.kindsChanged() })
	return p, nil
}

// readDefinition keeps the names of fields alone: a cluster holds many CustomResourceDefinitions,
// and large ones.
func readDefinition(object *unstructured.Unstructured) expression.Definition {
	return expression.DefinitionOf(object.Object)
}

// OnKinds registers a function that is called when kinds or profiles come, change or go, and once
// all are known. Call it before Run.
func (p *Platform) OnKinds(f func()) { p.onKinds = append(p.onKinds, f) }

// kueue is served, in some version, by each cluster to which MultiKueue copies.
var kueue = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Resource: "workloads"}

// noKueue reports whether Kueue's CRD is surely absent, by the copy of the definitions: they are
// followed. Right before a deletion the API server is asked.
func (p *Platform) noKueue() bool {
	_, ok := p.definitions.Get(kueue.GroupResource().String())
	absent := !ok && p.definitions.Following()
	p.copies.CompareAndSwap(false, !absent)
	return absent
}

func (p *Platform) kindsChanged() {
	p.dirty.Set()
	for _, f := range p.onKinds {
		f()
	}
}

// Store returns the store that the follower keeps current.
func (p *Platform) Store() *platform.Store { return p.store }

// NeedLeaderElection is false: every replica answers admission requests.
func (p *Platform) NeedLeaderElection() bool { return false }

// Start follows everything until ctx is done.
func (p *Platform) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, follow := range []func(context.Context){p.Policies.mirror.Run, p.Profiles.mirror.Run, p.Tallies.mirror.Run, p.definitions.Run} {
		group.Go(func() { follow(ctx) })
	}
	group.Go(func() {
		if p.Profiles.mirror.Wait(ctx) == nil {
			p.store.SetIncomplete(nil)
			p.kindsChanged()
		}
	})
	loop.Worker{Clock: p.clock, Signal: p.dirty, Gather: gatherFor, Do: func(ctx context.Context) (time.Duration, error) {
		if p.copies.Swap(false) && p.noKueue() && p.OnNoKueue != nil {
			p.OnNoKueue()
		}
		if p.Kinds() == nil {
			p.Runtimes.follow(ctx, p.store.Snapshot())
			p.Profiles.writeStatuses()
		}
		return 0, nil
	}}.Run(ctx)
	p.Runtimes.group.Wait()
	return nil
}

// Kinds returns why not all kinds and profiles are known yet; nil once they are.
func (p *Platform) Kinds() error {
	if err := p.definitions.Known(); err != nil {
		return fmt.Errorf("CustomResourceDefinitions: %w", err)
	}
	return p.store.Snapshot().Incomplete()
}

// Ready returns why admission would not judge by all that the cluster has, or nil.
func (p *Platform) Ready() error {
	if err := p.Kinds(); err != nil {
		return fmt.Errorf("not all kinds are known yet: %w", err)
	}
	if err := p.Policies.mirror.Known(); err != nil {
		return fmt.Errorf("not all LifecyclePolicies are known yet: %w", err)
	}
	return nil
}

// Profile is how a kind's objects are read; nil for a kind without a profile. It is an error until
// the KindProfiles are known.
func (p *Platform) Profile(kind schema.GroupKind) (*policy.Profile, error) {
	snapshot := p.store.Snapshot()
	return snapshot.Profiles[kind], snapshot.Incomplete()
}

// Propagation returns the deletion propagation of a kind's profile. See
// [platform.Snapshot.Propagation].
func (p *Platform) Propagation(kind schema.GroupKind) (metav1.DeletionPropagation, error) {
	return p.store.Snapshot().Propagation(kind)
}

// Definitions are the CustomResourceDefinitions by name. It is an error until they are known.
func (p *Platform) Definitions() (map[string]expression.Definition, error) {
	all, err := p.definitions.All()
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinitions: %w", err)
	}
	return all, nil
}

// Served are the kinds that admission can have something to say about, and whether a runtime gives
// their objects a deadline or a TTL. It is an error until all is known.
func (p *Platform) Served() ([]platform.Served, error) {
	if err := p.Kinds(); err != nil {
		return nil, err
	}
	out := p.store.Snapshot().Served()
	for i := range out {
		if runtime := out[i].Runtime; runtime != nil {
			says, known := p.Runtimes.sets(runtime)
			out[i].RuntimeSets = says || !known
		}
	}
	return out, nil
}

// RuntimesKnown reports whether all runtimes are known that objects of the kinds that are served
// may use.
func (p *Platform) RuntimesKnown() bool {
	if p.Kinds() != nil {
		return false
	}
	for profile := range p.store.Snapshot().Installed() {
		if profile.Runtime == nil {
			continue
		}
		if _, known := p.Runtimes.sets(profile.Runtime); !known {
			return false
		}
	}
	return true
}

// unserved reports whether no CustomResourceDefinition serves a resource that the API server
// answered with 404. While the definitions are watched, the copy here answers. If it shows one that
// serves the resource, or the watch is down, the API server is asked.
func (p *Platform) unserved(definitions Source, resource schema.GroupVersionResource) func(context.Context) (bool, error) {
	name, ask := resource.GroupResource().String(), unserved(definitions, resource)
	return func(ctx context.Context) (bool, error) {
		if p.definitions.Following() {
			known, ok := p.definitions.Get(name)
			if _, served := known.Schemas[resource.Version]; !ok || !served {
				return true, nil
			}
		}
		return ask(ctx)
	}
}

// rules are LifecyclePolicies and KindProfiles as consistent LISTs show them.
type rules struct {
	*platform.Snapshot
	policies, profiles *listing
}

// readRulesFor bounds the LISTs of readRules: all live judgements wait for them.
const readRulesFor = 10 * time.Second

// readRules lists LifecyclePolicies and KindProfiles, both at once.
func (p *Platform) readRules(ctx context.Context) (*rules, error) {
	ctx, cancel := context.WithTimeout(ctx, readRulesFor)
	defer cancel()
	var group sync.WaitGroup
	var policies []*expression.Policy
	var errPolicies error
	read := &rules{}
	group.Go(func() { policies, read.policies, errPolicies = p.Policies.Live(ctx) })
	profiles, listed, err := p.Profiles.Live(ctx)
	group.Wait()
	if err := errors.Join(errPolicies, err); err != nil {
		return nil, err
	}
	read.profiles, read.Snapshot = listed, p.store.Snapshot().WithProfiles(profiles).WithPolicies(policies)
	read.NoMultiKueue = p.kueue.get
	return read, nil
}

// unserved reports whether no CustomResourceDefinition serves a resource. Without a version, one that
// may soon serve it counts, too.
func unserved(definitions Source, resource schema.GroupVersionResource) func(context.Context) (bool, error) {
	name := resource.GroupResource().String()
	return func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
		found, err := definitions.List(ctx, options)
		if err != nil {
			return false, err
		}
		for i := range found.Items {
			_, served := readDefinition(&found.Items[i]).Schemas[resource.Version]
			if (served || resource.Version == "") && found.Items[i].GetName() == name {
				return false, nil
			}
		}
		return true, nil
	}
}
