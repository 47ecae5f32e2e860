package expression

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Profile is a compiled KindProfile: the [policy.Profile] for admission and judges, and what the
// webhook, the feeds and the deadlines need to know about the kind.
type Profile struct {
	*policy.Profile
	// UID and Generation of the object that was compiled; zero for built-in profiles.
	UID        types.UID
	Generation int64
	// Suspend is the field that suspends an object; nil where the kind has none.
	Suspend *Suspend
	// Runtime is what objects refer to; nil if the kind has no runtimes.
	Runtime *Runtime
	// Enforcement is how a deadline is enforced; nil if the kind has none.
	Enforcement *Enforcement
	// Unenforced says why Curfew enforces no deadline although the profile has steps; else "".
	Unenforced string
	// Propagation of deletions; "" where the profile sets none.
	Propagation metav1.DeletionPropagation

	spec *v1alpha1.KindProfileSpec
	// held reports whether the profile needs a newer Curfew.
	held bool
	// acts are the compiled expressions of that name in spec.deadline.enforcement; nil where there is
	// none, or it does not compile.
	acts []*Program
	// templates are linked to the profiles of their kinds by Link.
	templates []template
}

// Suspend is a field and the value that suspends, a bool or a string.
type Suspend struct {
	Path  fieldpath.FieldPath
	Value any
}

type template struct {
	path fieldpath.FieldPath
	kind schema.GroupKind
}

// UserProfile is [Compiler.Profile] for a KindProfile that does not come with Curfew. One for a
// kind with code of its own is an error, and applies nowhere.
func (c *Compiler) UserProfile(object *v1alpha1.KindProfile) (*Profile, field.ErrorList) {
	out, errs := c.Profile(object)
	if policy.HasOwnCode(out.Kind.GroupKind()) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "kind"),
			fmt.Sprintf("Curfew has code of its own for %ss, which no KindProfile replaces: remove this one", out.Kind.Kind)))
	}
	return out, errs
}

// ReadProfile is [Compiler.UserProfile] for a KindProfile in its JSON form. The state of an object
// cannot be read, which keeps the object, if the profile needs a newer Curfew.
func (c *Compiler) ReadProfile(object map[string]any) (*v1alpha1.KindProfile, *Profile, field.ErrorList) {
	typed := &v1alpha1.KindProfile{}
	held := readInto(typed, "KindProfile", object)
	out, errs := c.UserProfile(typed)
	if err := held.ToAggregate(); err != nil {
		out.held = true
		out.State = func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, err }
	}
	return typed, out, append(errs, held...)
}

// Profile compiles a KindProfile. The result is usable in spite of errors: an object whose state
// cannot be read is kept, and an unreadable path is a field that the kind does not have (S6). It
// assumes that the installed version of the kind has all fields; see [Profile.Served].
func (c *Compiler) Profile(object *v1alpha1.KindProfile) (*Profile, field.ErrorList) {
	c = c.forObject()
	var errs field.ErrorList
	spec, path := &object.Spec, field.NewPath("spec")
	out := &Profile{
		UID: object.UID, Generation: object.Generation, Propagation: spec.PropagationPolicy, spec: spec,
		Profile: &policy.Profile{
			Name:          object.Name,
			Kind:          gvk(&spec.Kind),
			Resource:      spec.Kind.Resource,
			ClusterScoped: spec.Kind.Scope == v1alpha1.ScopeCluster,
			State:         c.state(path.Child("state"), spec.State, &errs),

			ControllerAccounts: spec.ControllerAccounts,
		},
	}
	out.fields(path.Child("fields"), spec.Fields, &errs)
	out.PodTemplates = parsePaths(path.Child("podTemplates"), spec.PodTemplates, parsePath, &errs)
	out.InheritedMetadata = parsePaths(path.Child("inheritedMetadata"), spec.InheritedMetadata, parsePath, &errs)
	out.References = references(path.Child("references"), spec.References, &errs)
	for i, t := range spec.Templates {
		if parsed := parsePath(path.Child("templates").Index(i).Child("path"), t.Path, &errs); parsed != nil {
			out.templates = append(out.templates, template{parsed, schema.GroupKind{Group: t.Kind.Group, Kind: t.Kind.Kind}})
		}
	}
	for i, f := range spec.ForbiddenFields {
		if parsed := parsePath(path.Child("forbiddenFields").Index(i).Child("path"), f.Path, &errs); parsed != nil {
			out.Forbidden = append(out.Forbidden, policy.Forbidden{Path: parsed, Reason: f.Reason})
		}
	}
	out.Runtime = compileRuntime(path.Child("runtime"), spec.Runtime, &errs)
	if rules := spec.Deadline; rules != nil {
		out.DefaultDeadline, out.ImmutableDeadline = rules.AllowDefault, rules.Immutable
		for i := range rules.Enforcement {
			out.acts = append(out.acts, c.enforcement(path.Child("deadline", "enforcement").Index(i), &rules.Enforcement[i], &errs))
		}
	}
	return out.Served(func(fieldpath.FieldPath) bool { return true }), errs
}

func (p *Profile) fields(path *field.Path, spec *v1alpha1.NativeFields, errs *field.ErrorList) {
	if spec == nil {
		return
	}
	p.TTL = optionalPath(path.Child("ttl"), spec.TTL, errs)
	p.TTLSucceeded = optionalPath(path.Child("ttlSucceeded"), spec.TTLSucceeded, errs)
	p.TTLFailed = optionalPath(path.Child("ttlFailed"), spec.TTLFailed, errs)
	p.Profile.Deadline = optionalPath(path.Child("deadline"), spec.Deadline, errs)
	p.DurationDeadline = spec.DeadlineFormat == v1alpha1.FormatDuration
	if spec.Suspend != nil {
		if parsed := parseScalarPath(path.Child("suspend", "path"), spec.Suspend.Path, errs); parsed != nil {
			p.Suspend = &Suspend{parsed, suspendValue(spec.Suspend.Value)}
		}
	}
	if spec.ManagedBy != nil {
		p.ManagedBy = parseScalarPath(path.Child("managedBy", "path"), spec.ManagedBy.Path, errs)
		p.DefaultManager = spec.ManagedBy.Default
	}
}

func suspendValue(text string) any {
	switch text {
	case "", "true":
		return true
	case "false":
		return false
	default:
		return text
	}
}

// Link connects the templates inside profiles with the profiles of their kinds, and returns all by
// kind. Of two for the same kind, the later wins.
func Link(profiles ...*Profile) map[schema.GroupKind]*Profile {
	index := make(map[schema.GroupKind]*Profile, len(profiles))
	for _, p := range profiles {
		index[p.Kind.GroupKind()] = p
	}
	for _, p := range index {
		p.Templates = nil
		for _, t := range p.templates {
			if inner, ok := index[t.kind]; ok {
				p.Templates = append(p.Templates, policy.Template{Path: t.path, Profile: inner.Profile})
			}
		}
	}
	return index
}

// Same reports whether two profiles are the same generation of the same object, or both built in,
// so that they judge alike. Nil is no profile.
func (p *Profile) Same(other *Profile) bool {
	return p != nil && other != nil && p.UID == other.UID && p.Generation == other.Generation && p.held == other.held
}

// String names the profile for logs.
func (p *Profile) String() string { return fmt.Sprintf("%s (%s)", p.Name, p.Kind) }

// Enforcement is the first way of enforcing a deadline that the installed version of the kind
// allows.
type Enforcement struct {
	// By is who enforces. Curfew is the backstop of a controller only if Stop is not empty.
	By v1alpha1.Enforcer
	// Grace is how long Curfew waits after the deadline for a controller that acts.
	Grace time.Duration
	// Stop are the steps, in their order.
	Stop []v1alpha1.StopStep

	// acts reports whether an object shows that its controller enforces the deadline; nil if
	// nothing does.
	acts *Program
}

// byCurfew reports whether Curfew enforces the deadline of an object because nothing shows that the
// kind's own controller does. It is nil where Curfew never does.
func (e *Enforcement) byCurfew() func(ctx context.Context, object map[string]any) bool {
	if e == nil || len(e.Stop) == 0 {
		return nil
	}
	return func(ctx context.Context, object map[string]any) bool {
		if e.acts == nil {
			return true
		}
		acts, err := e.acts.Bool(ctx, &Variables{Object: object})
		return err != nil || !acts
	}
}

// Served is the profile for the installed version of the kind. It leaves out native fields that the
// schema does not have, since the API server would drop a value in them, and picks the first way of
// enforcing the deadline that fits. has reports whether the schema has a field.
func (p *Profile) Served(has func(fieldpath.FieldPath) bool) *Profile {
	out, inner := *p, *p.Profile
	out.Profile = &inner
	for _, path := range []*fieldpath.FieldPath{&inner.TTL, &inner.Deadline, &inner.ManagedBy, &inner.TTLSucceeded, &inner.TTLFailed} {
		if *path != nil && !has(*path) {
			*path = nil
		}
	}
	if out.Suspend != nil && !has(out.Suspend.Path) {
		out.Suspend = nil
	}
	out.setEnforcement(p.enforcement(has))
	return &out
}

// Installed is the profile for the installed version of the kind and of the children that its steps
// mark. A condition needs a status subresource. Without one Curfew stops nothing: it would act
// without having failed the object.
func (p *Profile) Installed(fields *Schema, definitionOf func(schema.GroupKind) *Definition) *Profile {
	out := p.Served(fields.Has)
	if out.Enforcement == nil {
		return out
	}
	for _, step := range out.Enforcement.Stop {
		marked, kind := fields, p.Kind
		if step.Child != nil {
			marked, kind = nil, gvk(&step.Child.ProfiledKind)
			if definition := definitionOf(kind.GroupKind()); definition != nil {
				marked = definition.Schemas[kind.Version]
			}
		}
		if step.Action == v1alpha1.StopMarkFailed && !marked.HasStatus() {
			out.Unenforced = fmt.Sprintf("spec.deadline.enforcement: MarkFailed needs a status subresource, which %s has not in version %s: "+
				"add subresources.status to its CustomResourceDefinition; until then Curfew enforces no deadline of a %s",
				kind.GroupKind(), kind.Version, p.Kind.Kind)
			out.setEnforcement(out.Enforcement.withoutStop())
			return out
		}
	}
	return out
}

// enforcement checks one way of enforcing a deadline, and compiles its expression acts.
func (c *Compiler) enforcement(path *field.Path, way *v1alpha1.Enforcement, errs *field.ErrorList) *Program {
	if way.IfServed != nil {
		parsePath(path.Child("ifServed"), *way.IfServed, errs)
	}
	if !stoppable(way.Stop) {
		*errs = append(*errs, field.Invalid(path.Child("stop").Index(0).Child("action"), way.Stop[0].Action,
			"must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended"))
	}
	if way.Acts == nil {
		if way.By == v1alpha1.EnforcedByController && len(way.Stop) > 0 && stoppable(way.Stop) { // A stored profile may be older than the schema.
			*errs = append(*errs, field.Required(path.Child("acts"), "says how an object shows that its controller enforces the deadline: "+
				"until it is set, Curfew enforces the deadline itself, without a grace period"))
		}
		return nil
	}
	program, err := c.Compile(string(*way.Acts), ScopeProfile, ResultBool)
	if err != nil {
		*errs = append(*errs, invalidExpression(path.Child("acts"), string(*way.Acts), err))
		return nil
	}
	return program
}

func (p *Profile) setEnforcement(way *Enforcement) {
	p.Enforcement = way
	p.AnnotatedDeadline = way != nil && len(way.Stop) > 0
	p.DeadlineByCurfew = way.byCurfew()
}

func (p *Profile) enforcement(has func(fieldpath.FieldPath) bool) *Enforcement {
	if p.spec.Deadline == nil {
		return nil
	}
	for i, way := range p.spec.Deadline.Enforcement {
		if way.IfServed != nil {
			path, err := fieldpath.ParseFieldPath(string(*way.IfServed))
			if err != nil || !has(path) {
				continue
			}
		}
		out := &Enforcement{By: way.By, Grace: time.Duration(way.GraceSeconds) * time.Second, Stop: way.Stop}
		if way.By == v1alpha1.EnforcedByController {
			out.acts = p.acts[i]
		}
		if !stoppable(way.Stop) {
			return out.withoutStop()
		}
		return out
	}
	return nil
}

// stoppable reports whether the steps begin with one that fails or suspends the object itself. The
// schema demands the same, but a stored profile may be older.
func stoppable(steps []v1alpha1.StopStep) bool {
	return len(steps) == 0 || steps[0].Action == v1alpha1.StopMarkFailed || steps[0].Action == v1alpha1.StopSuspend
}

// withoutStop is the profile if Curfew cannot stop an object: the kind's own controller, or
// nothing.
func (e *Enforcement) withoutStop() *Enforcement {
	if e.By == v1alpha1.EnforcedByCurfew {
		return nil
	}
	return &Enforcement{By: e.By, Grace: e.Grace}
}

// references are the fields that name objects, without those that cannot be used.
func references(path *field.Path, namedObjects []v1alpha1.NamedObject, errs *field.ErrorList) []policy.Reference {
	var out []policy.Reference
	for i := range namedObjects {
		element, reference := path.Index(i), policy.Reference{Kind: schema.GroupKind{Group: namedObjects[i].Kind.Group, Kind: namedObjects[i].Kind.Kind}}
		before := len(*errs)
		reference.Path = parsePath(element.Child("path"), namedObjects[i].Path, errs)
		if reference.Kind.Group == "*" || reference.Kind.Kind == "*" {
			*errs = append(*errs, field.Invalid(element.Child("kind"), reference.Kind.String(), "name one group and one kind"))
		}
		if fieldPath := namedObjects[i].NamespacePath; fieldPath != nil {
			reference.Namespace = parsePath(element.Child("namespacePath"), *fieldPath, errs)
			if list := throughLists(reference.Namespace); !strings.HasPrefix(reference.Path.String(), list) {
				*errs = append(*errs, field.Invalid(element.Child("namespacePath"), string(*fieldPath),
					fmt.Sprintf("goes through %s, and path does not: name a field beside the one that path leads to", list)))
			}
		}
		if len(*errs) == before {
			out = append(out, reference)
		}
	}
	return out
}

// throughLists is the part of a path that ends with its last list.
func throughLists(path fieldpath.FieldPath) string {
	for i, part := range slices.Backward(path) {
		if part == "*" {
			return path[:i+1].String()
		}
	}
	return ""
}
