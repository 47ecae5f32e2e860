package expression

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

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
func (p *Profile) Served(has func(policy.FieldPath) bool) *Profile {
	out, inner := *p, *p.Profile
	out.Profile = &inner
	for _, path := range []*policy.FieldPath{&inner.TTL, &inner.Deadline, &inner.ManagedBy, &inner.TTLSucceeded, &inner.TTLFailed} {
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
func (p *Profile) Installed(fields *Schema, of func(schema.GroupKind) *Definition) *Profile {
	out := p.Served(fields.Has)
	if out.Enforcement == nil {
		return out
	}
	for _, step := range out.Enforcement.Stop {
		marked, kind := fields, p.Kind
		if step.Child != nil {
			marked, kind = nil, gvk(&step.Child.ProfiledKind)
			if definition := of(kind.GroupKind()); definition != nil {
				marked = definition.Schemas[kind.Version]
			}
		}
		if step.Action == v1alpha1.StopMarkFailed && !marked.HasStatus() {
			out.Unenforced = fmt.Sprintf("spec.deadline.enforcement: MarkFailed needs a status subresource, which %s has not in version %s: add subresources.status to its CustomResourceDefinition; until then Curfew enforces no deadline of a %s",
				kind.GroupKind(), kind.Version, p.Kind.Kind)
			out.setEnforcement(out.Enforcement.withoutStop())
			return out
		}
	}
	return out
}

// enforcement checks one way of enforcing a deadline, and compiles its expression acts.
func (c *Compiler) enforcement(at *field.Path, way *v1alpha1.Enforcement, errs *field.ErrorList) *Program {
	if way.IfServed != nil {
		parsePath(at.Child("ifServed"), *way.IfServed, errs)
	}
	if !stoppable(way.Stop) {
		*errs = append(*errs, field.Invalid(at.Child("stop").Index(0).Child("action"), way.Stop[0].Action,
			"must be MarkFailed or Suspend: nothing is deleted before the object was failed or suspended"))
	}
	if way.Acts == nil {
		if way.By == v1alpha1.EnforcedByController && len(way.Stop) > 0 && stoppable(way.Stop) { // A stored profile may be older than the schema.
			*errs = append(*errs, field.Required(at.Child("acts"), "says how an object shows that its controller enforces the deadline: until it is set, Curfew enforces the deadline itself, without a grace period"))
		}
		return nil
	}
	program, err := c.Compile(string(*way.Acts), ScopeProfile, ResultBool)
	if err != nil {
		*errs = append(*errs, invalidExpression(at.Child("acts"), string(*way.Acts), err))
		return nil
	}
	return program
}

func (p *Profile) setEnforcement(way *Enforcement) {
	p.Enforcement = way
	p.AnnotatedDeadline = way != nil && len(way.Stop) > 0
	p.DeadlineByCurfew = way.byCurfew()
}

func (p *Profile) enforcement(has func(policy.FieldPath) bool) *Enforcement {
	if p.spec.Deadline == nil {
		return nil
	}
	for i, way := range p.spec.Deadline.Enforcement {
		if way.IfServed != nil {
			path, err := policy.ParseFieldPath(string(*way.IfServed))
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
