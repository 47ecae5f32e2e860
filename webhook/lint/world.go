package lint

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// Cluster knows what the documents do not say.
type Cluster interface {
	// Namespace fails with an error that apierrors.IsNotFound knows where there is none, and with [ErrNotReadable] where the
	// user may not read it.
	Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error)
	// Runtime is nil where there is none, its kind included.
	Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error)
}

// ErrNotReadable means that the user may not read a namespace.
var ErrNotReadable = errors.New("the user may not read it")

// world is what objects are judged by: what the options bring, and over it what the documents say. Whatever is among the documents
// holds before the cluster's own of that name, since applying them would change that.
type world struct {
	options  *Options
	platform *platform.Snapshot
	// namespaces and runtimes that the documents bring, or that the cluster was asked about.
	namespaces map[string]namespaceAnswer
	runtimes   map[runtimeKey]runtimeAnswer
	// clusterScoped are kinds whose CustomResourceDefinition is among the documents, by what it says.
	clusterScoped map[schema.GroupKind]bool
	// The cluster is asked for nothing that a document chose to look at: whoever posts it may not be allowed to read that. Such are the
	// runtimes of kinds with a posted profile, by kind, and what the expressions of a posted policy can see.
	ownRuntimes                    map[schema.GroupKind]bool
	hidesRuntimes, hidesNamespaces bool
	// about is what was found out about documents while learning from them.
	about map[*Document][]policy.Finding

	compiler *expression.Compiler
	policies []*expression.Policy
	profiles []*expression.Profile
	// reviews of policies, for when all documents have been learned from.
	reviews []func()
}

type namespaceAnswer struct {
	policy *policy.NamespacePolicy
	known  bool
	// hidden means that the user may not read it.
	hidden bool
}

type runtimeKey struct {
	kind            schema.GroupKind
	namespace, name string
}

type runtimeAnswer struct {
	object map[string]any
	err    error
	// posted is whether it is among the documents.
	posted bool
}

// lesson lets the world learn from one document that speaks about others.
type lesson func(ctx context.Context, w *world, document *Document)

// lessons are those kinds that speak about others, one a file. They are taught before any object is judged, so that the order
// of documents does not matter. Runtimes are learned last, as profiles say which kinds they are.
var lessons = map[schema.GroupKind]lesson{
	namespaceKind:  learnNamespace,
	policyKind:     learnPolicy,
	profileKind:    learnProfile,
	definitionKind: learnDefinition,
}

func learn(ctx context.Context, options *Options, documents []*Document) (*world, error) {
	w := &world{
		options: options, namespaces: map[string]namespaceAnswer{}, runtimes: map[runtimeKey]runtimeAnswer{},
		clusterScoped: map[schema.GroupKind]bool{}, ownRuntimes: map[schema.GroupKind]bool{}, about: map[*Document][]policy.Finding{},
		// One of its own: what anybody posts must not push out what the cluster's policies need.
		compiler: expression.NewCompiler(expression.DefaultCacheSize),
	}
	for _, document := range documents {
		teach, ok := lessons[document.Kind().GroupKind()]
		if !ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		teach(ctx, w, document)
		if most := options.MaxPlatform; most > 0 && len(w.policies)+len(w.profiles) > most {
			return nil, &LimitError{What: "policies and profiles", Have: len(w.policies) + len(w.profiles), Max: most}
		}
	}
	for _, review := range w.reviews {
		review()
	}
	w.hide()
	w.platform = options.Platform.With(w.policies, w.profiles)
	for _, document := range documents {
		if w.platform.Profiles.For(document.Kind()).RuntimeOf != "" {
			learnRuntime(w, document)
		}
	}
	return w, nil
}

// hide notes what the posted policies and profiles could bring to light.
func (w *world) hide() {
	for _, profile := range w.profiles {
		w.ownRuntimes[profile.Kind.GroupKind()] = true
	}
	for _, said := range w.policies {
		w.hidesRuntimes = w.hidesRuntimes || said.ReadsRuntime()
		w.hidesNamespaces = w.hidesNamespaces || said.ReadsNamespace()
	}
}

// find notes something about a document.
func (w *world) find(document *Document, finding policy.Finding) {
	w.about[document] = append(w.about[document], finding)
}

// namespaceOf is the namespace in which an object would be created. One that nobody knows says nothing; known is false then.
func (w *world) namespaceOf(ctx context.Context, name string) (namespace *policy.NamespacePolicy, known bool, err error) {
	if name == "" {
		return nil, true, nil
	}
	if answer, ok := w.namespaces[name]; ok {
		return answer.policy, answer.known, nil
	}
	answer := namespaceAnswer{policy: policy.ParseNamespace(name, nil, map[string]string{corev1.LabelMetadataName: name})}
	if w.options.Cluster != nil && !w.hidesNamespaces {
		found, err := w.options.Cluster.Namespace(ctx, name)
		switch {
		case err == nil:
			answer.policy, answer.known = found, true
		case errors.Is(err, ErrNotReadable):
			answer.hidden = true
		case !apierrors.IsNotFound(err):
			return nil, false, err
		}
	}
	w.namespaces[name] = answer
	return answer.policy, answer.known, nil
}

// runtimeOf reads the runtimes of objects of a kind.
func (w *world) runtimeOf(kind schema.GroupKind) platform.RuntimeReader {
	if !w.hidesRuntimes && !w.ownRuntimes[kind] {
		return w.runtime
	}
	return func(_ context.Context, reference *expression.Reference) (map[string]any, error) {
		if answer := w.runtimes[keyOf(reference)]; answer.posted {
			return answer.object, nil
		}
		return nil, platform.ErrRuntimeNotKnown
	}
}

func keyOf(reference *expression.Reference) runtimeKey {
	return runtimeKey{reference.Kind.GroupKind(), reference.Namespace, reference.Name}
}

// runtime implements [platform.RuntimeReader].
func (w *world) runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := keyOf(reference)
	answer, ok := w.runtimes[key]
	if !ok {
		answer.err = platform.ErrRuntimeNotKnown
		if w.options.Cluster != nil {
			answer.object, answer.err = w.options.Cluster.Runtime(ctx, reference)
		}
		w.runtimes[key] = answer
	}
	return answer.object, answer.err
}
