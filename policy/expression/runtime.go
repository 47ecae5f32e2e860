package expression

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Runtime finds the runtime of an object, and its settings.
type Runtime struct {
	name, apiGroup, kind, clusterScope fieldpath.FieldPath
	defaultAPIGroup, defaultKind       string
	kinds                              []runtimeKind
}

type runtimeKind struct {
	kind          schema.GroupVersionKind
	resource      string
	clusterScoped bool
	ttl, deadline []fieldpath.FieldPath
}

// Reference names the runtime of one object, as the API server looks it up.
type Reference struct {
	Kind     schema.GroupVersionKind
	Resource string
	// Namespace is empty for cluster-scoped runtimes.
	Namespace, Name string
	// Fields are what is read of the runtime beside its metadata, unless Whole is set: an expression
	// may read any field.
	Fields []fieldpath.FieldPath
	Whole  bool

	from *runtimeKind
	// path is the field of the object that names it.
	path string
}

// String names the runtime for messages.
func (r *Reference) String() string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s", r.Kind.Kind, r.Name)
	}
	return fmt.Sprintf("%s %s/%s", r.Kind.Kind, r.Namespace, r.Name)
}

func compileRuntime(path *field.Path, spec *v1alpha1.Runtime, errs *field.ErrorList) *Runtime {
	if spec == nil {
		return nil
	}
	child := path.Child("reference")
	out := &Runtime{
		name:         parseScalarPath(child.Child("name"), spec.Reference.Name, errs),
		apiGroup:     optionalPath(child.Child("apiGroup"), spec.Reference.APIGroup, errs),
		kind:         optionalPath(child.Child("kind"), spec.Reference.Kind, errs),
		clusterScope: optionalPath(child.Child("clusterScope"), spec.Reference.ClusterScope, errs),

		defaultAPIGroup: ptr.Deref(spec.Reference.DefaultAPIGroup, ""),
		defaultKind:     ptr.Deref(spec.Reference.DefaultKind, ""),
	}
	for i := range spec.Kinds {
		kind := &spec.Kinds[i]
		compiled := runtimeKind{kind: gvk(&kind.ProfiledKind), resource: kind.Resource, clusterScoped: kind.Scope == v1alpha1.ScopeCluster}
		compiled.ttl = parsePaths(path.Child("kinds").Index(i).Child("ttl"), kind.TTL, parseScalarPath, errs)
		compiled.deadline = parsePaths(path.Child("kinds").Index(i).Child("deadline"), kind.Deadline, parseScalarPath, errs)
		out.kinds = append(out.kinds, compiled)
	}
	return out
}

// Kinds are the kinds that objects may refer to.
func (r *Runtime) Kinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for i := range r.kinds {
		out = append(out, r.kinds[i].kind)
	}
	return out
}

// maxName is the longest name of an object.
const maxName = 253

// Reference is the runtime that an object in a namespace uses; nil if it uses none. If the
// reference cannot be read, the object is kept as if the runtime were missing (S6).
func (r *Runtime) Reference(namespace string, object map[string]any) (*Reference, error) {
	value, ok := r.name.Get(object)
	if !ok || len(r.name) == 0 {
		return nil, nil
	}
	name, ok := value.(string)
	// One with a slash leads to no object, and no client asks for it.
	if !ok || len(name) > maxName || len(content.IsPathSegmentName(name)) > 0 {
		return nil, fmt.Errorf("%s: %s is not a name", r.name, quote.Describe(value))
	}
	if name == "" {
		return nil, nil
	}
	group, kind := textAt(r.apiGroup, object, r.defaultAPIGroup), textAt(r.kind, object, r.defaultKind)
	wanted, pick := false, r.clusterScope != nil && kind == ""
	if pick {
		value, _ := r.clusterScope.Get(object)
		wanted, _ = value.(bool)
	}
	for i := range r.kinds {
		candidate := &r.kinds[i]
		switch {
		case group != "" && candidate.kind.Group != group, kind != "" && candidate.kind.Kind != kind, pick && candidate.clusterScoped != wanted:
			continue
		}
		out := &Reference{Kind: candidate.kind, Resource: candidate.resource, Name: name, from: candidate, path: r.name.String()}
		out.Fields = slices.Concat(candidate.ttl, candidate.deadline)
		if !candidate.clusterScoped {
			out.Namespace = namespace
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s: %q of group %q is not a kind of runtime that the profile knows",
		r.name, quote.Shorten(kind), quote.Shorten(group))
}

func textAt(path fieldpath.FieldPath, object map[string]any, otherwise string) string {
	if value, ok := path.Get(object); ok {
		if text, ok := value.(string); ok && text != "" {
			return text
		}
	}
	return otherwise
}

// Unreadable stands for a runtime whose reference cannot be read. The objects that use it are kept,
// as if it were missing (S6).
func (r *Runtime) Unreadable(err error) *resolution.RuntimePolicy {
	return &resolution.RuntimePolicy{Path: r.name.String(), Missing: true, Err: err}
}

// Policy has the settings of the runtime for the objects that use it. A nil runtime is missing.
// fields are the paths at which any kind that uses the runtime finds a TTL.
func (r *Reference) Policy(runtime map[string]any, fields []fieldpath.FieldPath) *resolution.RuntimePolicy {
	source := lifetime.Source{Level: lifetime.LevelRuntime, Name: r.Name}
	runtimePolicy := &resolution.RuntimePolicy{Name: r.Name, Path: r.path, Namespaced: r.Namespace != ""}
	if runtime == nil {
		runtimePolicy.Missing = true
		return runtimePolicy
	}
	// Admission does not review what is being deleted: its author could forge its stamp.
	if deleted, _, _ := unstructured.NestedFieldNoCopy(runtime, "metadata", "deletionTimestamp"); deleted != nil {
		runtimePolicy.Missing, runtimePolicy.Err = true, fmt.Errorf("%s %s is being deleted", r.Kind.Kind, quote.Shorten(r.Name))
		return runtimePolicy
	}
	facts := policy.FactsOfObject(&policy.Profile{
		Name: r.Kind.Kind, Kind: r.Kind,
		TTL: first(r.from.ttl, runtime), Deadline: first(r.from.deadline, runtime), AnnotatedDeadline: true,
	}, runtime)
	runtimePolicy.TTL = facts.TTLs()
	for _, setting := range runtimePolicy.TTL.Settings() {
		setting.Source = source
	}
	if runtimePolicy.Deadline = facts.Deadline(); runtimePolicy.Deadline != nil {
		runtimePolicy.Deadline.Source = source
	}
	// The hash must cover the fields read here, even if another profile is in effect by now.
	runtimePolicy.ReadSince(facts, runtime, slices.Concat(fields, r.from.ttl))
	return runtimePolicy
}

// first is the first path that leads to a value.
func first(paths []fieldpath.FieldPath, object map[string]any) fieldpath.FieldPath {
	for _, path := range paths {
		if _, ok := path.Get(object); ok {
			return path
		}
	}
	return nil
}

// Paths are the fields that may be read of any runtime.
func (r *Runtime) Paths() (out []fieldpath.FieldPath) {
	for i := range r.kinds {
		out = append(append(out, r.kinds[i].ttl...), r.kinds[i].deadline...)
	}
	return out
}

// Resources are the resources of the kinds that objects may refer to.
func (r *Runtime) Resources() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for i := range r.kinds {
		out = append(out, r.kinds[i].kind.GroupVersion().WithResource(r.kinds[i].resource))
	}
	return out
}

// NamePath is the field of an object that names its runtime; nil if the path cannot be read.
func (r *Runtime) NamePath() fieldpath.FieldPath { return r.name }

// Sets reports whether an object of one of the kinds sets a deadline or a TTL.
func (r *Runtime) Sets(runtime map[string]any) bool {
	for i := range r.kinds {
		group, kind := r.kinds[i].kind.ToAPIVersionAndKind()
		if runtime["apiVersion"] == group && runtime["kind"] == kind {
			runtimePolicy := (&Reference{Kind: r.kinds[i].kind, from: &r.kinds[i]}).Policy(runtime, nil)
			return runtimePolicy.Deadline != nil || !runtimePolicy.TTL.Empty()
		}
	}
	return false
}

// Fields are the native fields of a runtime kind for a TTL and a deadline, in order of precedence.
func (r *Runtime) Fields(kind schema.GroupKind) (ttl, deadline []fieldpath.FieldPath) {
	runtimeKind := r.of(kind)
	return runtimeKind.ttl, runtimeKind.deadline
}

// of is empty for a kind that is no runtime.
func (r *Runtime) of(kind schema.GroupKind) runtimeKind {
	i := slices.IndexFunc(r.kinds, func(k runtimeKind) bool { return k.kind.GroupKind() == kind })
	if i < 0 {
		return runtimeKind{}
	}
	return r.kinds[i]
}

// ClusterScoped reports whether runtimes of a kind are cluster-scoped.
func (r *Runtime) ClusterScoped(kind schema.GroupKind) bool {
	return r.of(kind).clusterScoped
}

// Profiles are bare profiles of the kinds that objects may refer to, for kinds without a
// KindProfile.
func (r *Runtime) Profiles() []*Profile {
	var out []*Profile
	for i := range r.kinds {
		runtimeKind := &r.kinds[i]
		out = append(out, &Profile{spec: &v1alpha1.KindProfileSpec{}, Profile: &policy.Profile{
			Name: runtimeKind.kind.Kind, Kind: runtimeKind.kind, Resource: runtimeKind.resource, ClusterScoped: runtimeKind.clusterScoped,
		}})
	}
	return out
}

func gvk(kind *v1alpha1.ProfiledKind) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
}

func parsePath(path *field.Path, text v1alpha1.FieldPath, errs *field.ErrorList) fieldpath.FieldPath {
	parsed, err := fieldpath.ParseFieldPath(string(text))
	if err != nil {
		*errs = append(*errs, field.Invalid(path, string(text), err.Error()))
		return nil
	}
	return parsed
}

// parseScalarPath is for paths that lead to one field, and not through a list.
func optionalPath(path *field.Path, text *v1alpha1.FieldPath, errs *field.ErrorList) fieldpath.FieldPath {
	if text == nil {
		return nil
	}
	return parseScalarPath(path, *text, errs)
}

// parsePaths leaves out paths that cannot be read.
func parsePaths(path *field.Path, texts []v1alpha1.FieldPath,
	parse func(*field.Path, v1alpha1.FieldPath, *field.ErrorList) fieldpath.FieldPath, errs *field.ErrorList) []fieldpath.FieldPath {
	var out []fieldpath.FieldPath
	for i, text := range texts {
		if parsed := parse(path.Index(i), text, errs); parsed != nil {
			out = append(out, parsed)
		}
	}
	return out
}

func parseScalarPath(path *field.Path, text v1alpha1.FieldPath, errs *field.ErrorList) fieldpath.FieldPath {
	parsed := parsePath(path, text, errs)
	for _, part := range parsed {
		if part == "*" {
			*errs = append(*errs, field.Invalid(path, string(text), "leads to many fields: leave out [*]"))
			return nil
		}
	}
	return parsed
}
