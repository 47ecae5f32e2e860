package lint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// ErrNotReadable is the answer of a [platform.Source] for a namespace that the user may not read.
var ErrNotReadable = fmt.Errorf("the user may not read it: %w", platform.ErrUnknown)

// Linter judges documents one by one. Documents that are context for others, such as Namespaces,
// are added first, so that more documents than fit into memory can be read twice and forgotten each
// time. A document takes precedence over the cluster's object
// of that name, since applying it would replace that.
type Linter struct {
	options  *Options
	platform *platform.Snapshot
	// namespaces and runtimes that are among the documents, or that the source was asked about.
	namespaces map[string]namespaceAnswer
	runtimes   map[runtimeKey]runtimeAnswer
	// clusterScoped holds the kinds whose CustomResourceDefinition is among the documents, and whether
	// it makes them cluster-scoped.
	clusterScoped map[schema.GroupKind]bool
	// The source is not asked for objects that a document selects, because its author may not be
	// allowed to read them: the runtimes of kinds with a posted profile, by kind, and the objects that
	// expressions of a posted policy can read.
	ownRuntimes                    map[schema.GroupKind]bool
	hidesRuntimes, hidesNamespaces bool
	// about has the findings about documents of the context.
	about map[place][]rules.Finding
	// given is the platform of the source, without the documents.
	given *platform.Snapshot
	// kinds of all documents.
	kinds map[schema.GroupKind]bool

	compiler *expression.Compiler
	policies []*expression.Policy
	profiles []*expression.Profile
	// cleanups counts the cleanup policies among the documents.
	cleanups int
	// reviews of policies run once all documents were added.
	reviews []func()
}

// namespaceAnswer is a namespace, or the error of the source.
type namespaceAnswer struct {
	policy *resolution.NamespacePolicy
	err    error
}

type runtimeKey struct {
	kind            schema.GroupKind
	namespace, name string
}

type runtimeAnswer struct {
	object map[string]any
	err    error
	// posted means that the namespace is among the documents.
	posted bool
}

// addDocument adds one document to the context of the others.
type addDocument func(ctx context.Context, w *Linter, document *Document)

// contextKinds are the kinds that are context of other objects, and Curfew's own. They are added
// before any object is judged, so that the order of documents does not matter. Runtimes come last,
// because profiles say which kinds are runtimes.
var contextKinds = map[schema.GroupKind]addDocument{
	namespaceKind:  addNamespace,
	policyKind:     addPolicy,
	profileKind:    addProfile,
	tallyKind:      addTally,
	definitionKind: addDefinition,

	ownKind("ClusterCleanupPolicy"):   checkCleanup(cleanup.Compile),
	ownKind("CleanupPolicy"):          checkCleanup(cleanup.CompileNamespaced),
	ownKind("ClusterCleanupApproval"): addRead[v1alpha1.ClusterCleanupApproval],
	ownKind("CleanupApproval"):        addRead[v1alpha1.CleanupApproval],
	ownKind("DeletionPause"):          addRead[v1alpha1.DeletionPause],
}

func ownKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: wellknown.Group, Kind: kind}
}

// place identifies a document, which may be read more than once.
type place struct {
	file        string
	index, item int
}

func placeOf(document *Document) place { return place{document.File, document.Index, document.item} }

func newLinter(ctx context.Context, options *Options) (*Linter, error) {
	given, err := options.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &Linter{
		options: options, given: given, namespaces: map[string]namespaceAnswer{}, runtimes: map[runtimeKey]runtimeAnswer{},
		clusterScoped: map[schema.GroupKind]bool{}, ownRuntimes: map[schema.GroupKind]bool{}, about: map[place][]rules.Finding{},
		kinds: map[schema.GroupKind]bool{},
		// A separate cache: posted expressions must not evict expressions of the cluster's policies.
		compiler: expression.NewLintCompiler(expression.DefaultCacheSize),
	}, nil
}

// Add makes a document context for the others, if its kind can be context. All documents are added
// before any is judged, so that their order does not matter.
func (w *Linter) Add(ctx context.Context, document *Document) error {
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
	have := len(w.policies) + len(w.profiles) + w.cleanups
	if most := w.options.MaxPlatform; most > 0 && have > most {
		return &LimitError{What: "policies and profiles", Have: have, Max: most}
	}
	return nil
}

// Added ends the adding. If it returns true, pass all documents to AddRuntime: only the complete
// platform knows which of them are runtimes.
func (w *Linter) Added() bool {
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

func (w *Linter) isRuntime(kind schema.GroupKind) bool {
	return w.platform.Profiles.For(kind.WithVersion("")).RuntimeOf != ""
}

// hide records which objects the posted policies and profiles could disclose.
func (w *Linter) hide() {
	for _, profile := range w.profiles {
		w.ownRuntimes[profile.Kind.GroupKind()] = true
	}
	for _, declared := range w.policies {
		w.hidesRuntimes = w.hidesRuntimes || declared.ReadsRuntime()
		w.hidesNamespaces = w.hidesNamespaces || declared.ReadsNamespace()
	}
}

// find records a finding about a document.
func (w *Linter) find(document *Document, finding rules.Finding) {
	place := placeOf(document)
	w.about[place] = append(w.about[place], finding)
}

// source is the [platform.Source] for objects of one kind.
type source struct {
	*Linter
	kind schema.GroupKind
}

// Snapshot implements [platform.Source].
func (s source) Snapshot(context.Context) (*platform.Snapshot, error) { return s.platform, nil }

// Namespace implements [platform.Source]. Why a namespace is not known is remembered, for
// [world.warnUnknown].
func (s source) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
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
func (s source) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// addDefinition records whether a custom kind is namespaced.
func addDefinition(_ context.Context, w *Linter, document *Document) {
	group, _, _ := unstructured.NestedString(document.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(document.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(document.Object, "spec", "scope")
	w.clusterScoped[schema.GroupKind{Group: group, Kind: kind}] = scope == "Cluster"
}

// outsideOfNamespaces reports whether objects of a kind are cluster-scoped: by the documents, by
// the profile of the kind, or because it is built in. Unknown custom kinds are treated as
// namespaced, as most are.
func (w *Linter) outsideOfNamespaces(profile *policy.Profile) bool {
	kind := profile.Kind.GroupKind()
	if scoped, ok := w.clusterScoped[kind]; ok {
		return scoped
	}
	return profile.ClusterScoped || clusterScopedKinds[kind]
}

// clusterScopedKinds are the cluster-scoped kinds of Kubernetes and of Curfew.
var clusterScopedKinds = kindSet(map[string][]string{
	"": {"Namespace", "Node", "PersistentVolume", "ComponentStatus"},
	"admissionregistration.k8s.io": {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "VolumeAttributesClass"},
	"storagemigration.k8s.io":      {"StorageVersionMigration"},
	wellknown.Group:                {"LifecyclePolicy", "KindProfile", "ClusterCleanupPolicy", "ClusterCleanupApproval", "DeletionPause"},
})

func kindSet(byGroup map[string][]string) map[schema.GroupKind]bool {
	out := map[schema.GroupKind]bool{}
	for group, kinds := range byGroup {
		for _, kind := range kinds {
			out[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return out
}

// ClusterScoped reports whether a built-in kind is cluster-scoped.
func ClusterScoped(kind schema.GroupKind) bool { return clusterScopedKinds[kind] }

var (
	policyKind  = ownKind("LifecyclePolicy")
	profileKind = ownKind("KindProfile")
)

// addPolicy checks a LifecyclePolicy and applies the usable part of it to the other documents.
func addPolicy(ctx context.Context, w *Linter, document *Document) {
	object := &v1alpha1.LifecyclePolicy{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := w.compiler.Policy(object)
	w.policies = append(w.policies, compiled)
	w.compiled(document, errs)
	w.reviews = append(w.reviews, func() { w.review(document, compiled) })
}

// review runs the rules on a policy, once all Namespaces among the documents have been read.
func (w *Linter) review(document *Document, compiled *expression.Policy) {
	request := &rules.PlatformRequest{Policy: compiled, Options: w.options.Rules, Now: w.options.Now}
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		if known := w.namespaces[name].policy; known.Bounds != (lifetime.Bounds{}) {
			request.Namespaces = append(request.Namespaces, known)
		}
	}
	for _, finding := range rules.ReviewPlatform(request).Findings {
		w.find(document, finding)
	}
}

// addProfile does the same for a KindProfile.
func addProfile(ctx context.Context, w *Linter, document *Document) {
	object := &v1alpha1.KindProfile{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := w.compiler.UserProfile(object)
	w.profiles = append(w.profiles, compiled)
	w.compiled(document, errs)
}

// read validates a document by the schema of its kind and decodes it. It reports false if that
// fails.
func (w *Linter) read(ctx context.Context, document *Document, into any) bool {
	object := document.Object
	if obj := (&unstructured.Unstructured{Object: object}); obj.GetNamespace() == "" && !clusterScopedKinds[document.Kind().GroupKind()] {
		obj = obj.DeepCopy()
		obj.SetNamespace(w.options.Namespace)
		object = obj.Object
	}
	stored, unknown, refused := w.options.Schemas.check(ctx, object)
	for _, path := range unknown {
		w.find(document, rules.Finding{Rule: RuleSchema, Field: path, Severity: rules.Deny,
			Message: unknownField(path)})
	}
	for _, err := range refused {
		w.find(document, rules.Finding{Rule: RuleSchema, Field: err.Field, Value: fmt.Sprint(err.BadValue), Severity: rules.Deny,
			Message: err.ErrorBody()})
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into); err != nil {
		if len(refused) == 0 {
			w.find(document, rules.Finding{Rule: RuleSchema, Severity: rules.Deny, Message: "not of the shape of its kind: " + err.Error()})
		}
		return false
	}
	return true
}

// compiled records the errors of compiling an object. An error on a field that the schema rejects
// too is one finding with it.
func (w *Linter) compiled(document *Document, errs field.ErrorList) {
	for _, err := range errs {
		finding := rules.Finding{Rule: rules.PolicyCompiles, Field: err.Field, Value: fmt.Sprint(err.BadValue), Severity: rules.Deny,
			Message: err.Detail}
		about := w.about[placeOf(document)]
		i := slices.IndexFunc(about, func(other rules.Finding) bool { return other.Rule == RuleSchema && other.Field == err.Field })
		switch {
		case i < 0:
			w.find(document, finding)
		case !strings.Contains(about[i].Message, finding.Message):
			about[i].Message += "; " + finding.Message
		}
	}
}
