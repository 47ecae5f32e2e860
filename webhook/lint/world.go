package lint

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// ErrNotReadable is the answer of a [platform.Source] for a namespace that the user may not read.
var ErrNotReadable = fmt.Errorf("the user may not read it: %w", platform.ErrUnknown)

// world is the context of the objects: the documents, and then the source of the options. A
// document takes precedence over the cluster's object of that name, since applying it would replace
// that.
type world struct {
	options  *Options
	platform *platform.Snapshot
	// namespaces and runtimes that are among the documents, or that the source was asked about.
	namespaces map[string]namespaceAnswer
	runtimes   map[runtimeKey]runtimeAnswer
	// clusterScoped are kinds whose CustomResourceDefinition is among the documents, by what it says.
	clusterScoped map[schema.GroupKind]bool
	// The source is not asked for what a document selects, because its author may not be allowed to
	// read it: the runtimes of kinds with a posted profile, by kind, and what the expressions of a
	// posted policy can read.
	ownRuntimes                    map[schema.GroupKind]bool
	hidesRuntimes, hidesNamespaces bool
	// about has the findings about documents of the context.
	about map[place][]policy.Finding
	// given is the platform of the source, without the documents.
	given *platform.Snapshot
	// kinds of all documents.
	kinds map[schema.GroupKind]bool

	compiler *expression.Compiler
	policies []*expression.Policy
	profiles []*expression.Profile
	// reviews of policies run once all documents were added.
	reviews []func()
}

// namespaceAnswer is a namespace, or the error of the source.
type namespaceAnswer struct {
	policy *policy.NamespacePolicy
	err    error
}

type runtimeKey struct {
	kind            schema.GroupKind
	namespace, name string
}

type runtimeAnswer struct {
	object map[string]any
	err    error
	// posted means that it is among the documents.
	posted bool
}

// addDocument adds one document to the context of the others.
type addDocument func(ctx context.Context, w *world, document *Document)

// contextKinds are the kinds that are context of other objects, one in each file. They are added
// before any object is judged, so that the order of documents does not matter. Runtimes come last,
// because profiles say which kinds are runtimes.
var contextKinds = map[schema.GroupKind]addDocument{
	namespaceKind:  addNamespace,
	policyKind:     addPolicy,
	profileKind:    addProfile,
	tallyKind:      addTally,
	definitionKind: addDefinition,
}

// place identifies a document, which may be read more than once.
type place struct {
	file        string
	index, item int
}

func placeOf(document *Document) place { return place{document.File, document.Index, document.item} }

func newWorld(ctx context.Context, options *Options) (*world, error) {
	given, err := options.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &world{
		options: options, given: given, namespaces: map[string]namespaceAnswer{}, runtimes: map[runtimeKey]runtimeAnswer{},
		clusterScoped: map[schema.GroupKind]bool{}, ownRuntimes: map[schema.GroupKind]bool{}, about: map[place][]policy.Finding{},
		kinds: map[schema.GroupKind]bool{},
		// A separate cache: posted expressions must not evict those of the cluster's policies.
		compiler: expression.NewCompiler(expression.DefaultCacheSize),
	}, nil
}

func (w *world) add(ctx context.Context, document *Document) error {
	kind := document.Kind().GroupKind()
	w.kinds[kind] = true
	add, ok := contextKinds[kind]
	if !ok {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	add(ctx, w, document)
	if most := w.options.MaxPlatform; most > 0 && len(w.policies)+len(w.profiles) > most {
		return &LimitError{What: "policies and profiles", Have: len(w.policies) + len(w.profiles), Max: most}
	}
	return nil
}

// added completes the platform. It reports whether there are runtimes among the documents.
func (w *world) added() bool {
	for _, review := range w.reviews {
		review()
	}
	w.hide()
	w.platform = w.given.With(w.policies, w.profiles)
	for kind := range w.kinds {
		if w.isRuntime(kind) {
			return true
		}
	}
	return false
}

func (w *world) isRuntime(kind schema.GroupKind) bool {
	return w.platform.Profiles.For(kind.WithVersion("")).RuntimeOf != ""
}

// hide notes what the posted policies and profiles could disclose.
func (w *world) hide() {
	for _, profile := range w.profiles {
		w.ownRuntimes[profile.Kind.GroupKind()] = true
	}
	for _, said := range w.policies {
		w.hidesRuntimes = w.hidesRuntimes || said.ReadsRuntime()
		w.hidesNamespaces = w.hidesNamespaces || said.ReadsNamespace()
	}
}

// find records a finding about a document.
func (w *world) find(document *Document, finding policy.Finding) {
	at := placeOf(document)
	w.about[at] = append(w.about[at], finding)
}

// source is the [platform.Source] for objects of one kind.
type source struct {
	*world
	kind schema.GroupKind
}

// Snapshot implements [platform.Source].
func (s source) Snapshot(context.Context) (*platform.Snapshot, error) { return s.platform, nil }

// Namespace implements [platform.Source]. Why a namespace is not known is remembered, for
// [world.warnUnknown].
func (s source) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	answer, ok := s.namespaces[name]
	if !ok {
		if answer.err = platform.ErrUnknown; !s.hidesNamespaces {
			answer.policy, answer.err = s.options.Source.Namespace(ctx, name)
		}
		s.namespaces[name] = answer
	}
	if apierrors.IsNotFound(answer.err) {
		return nil, platform.ErrUnknown
	}
	return answer.policy, answer.err
}

// Runtime implements [platform.Source].
func (s source) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := runtimeKey{reference.Kind.GroupKind(), reference.Namespace, reference.Name}
	answer, ok := s.runtimes[key]
	switch {
	case (s.hidesRuntimes || s.ownRuntimes[s.kind]) && !answer.posted:
		return nil, platform.ErrUnknown
	case !ok:
		answer.object, answer.err = s.options.Source.Runtime(ctx, reference)
		s.runtimes[key] = answer
	}
	return answer.object, answer.err
}

// PodCounter implements [platform.Source].
func (s source) PodCounter(context.Context, *policy.Facts) (*policy.PodCounter, error) {
	return nil, platform.ErrUnknown
}
