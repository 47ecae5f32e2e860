package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// Subject is one object whose context is asked for.
type Subject struct {
	Facts *policy.Facts
	// JSON is the object as decoded JSON. It is called only if a policy or a runtime has to see it.
	JSON func() (map[string]any, error)
	// Runtime says how the object refers to its runtime, if that is known by another profile than the
	// snapshot's; else nil.
	Runtime *expression.Runtime
	// MetadataOnly means that JSON has no more than the metadata.
	MetadataOnly bool
	// Evaluating is how long the evaluation of policies may take, after everything is read; 0 means as
	// long as the context lasts.
	Evaluating time.Duration
	// Until ends evaluations as well, for several objects together; nil: nothing else does.
	Until context.Context
	// Giving asks for all policies of the object's kind, see [expression.Giving].
	Giving bool
	// LabelOnly asks only for the bounds of the TTL label: no defaults, no TTL of a runtime.
	LabelOnly bool
}

// Whole is an object that was read whole.
func Whole(facts *policy.Facts, object map[string]any) *Subject {
	return &Subject{Facts: facts, JSON: func() (map[string]any, error) { return object, nil }}
}

// Context holds everything that decides how Curfew treats one object.
type Context struct {
	resolution.Scope
	// Platform is the snapshot that the object is judged by.
	Platform *Snapshot
	// NamespaceUnknown means that the [Source] does not know the namespace. Only its name counts.
	NamespaceUnknown bool
	// Undecided means that a policy which may bound the label has to see more than the metadata.
	Undecided bool
	// Failures are policies that could not be evaluated. Each keeps the object (S6) and rejects
	// nothing.
	Failures []error
}

// ContextOf gathers the context of an object. Admission, the controller, the CLI, lint and the HTTP
// API all judge by it.
func ContextOf(ctx context.Context, source Source, object *Subject) (*Context, error) {
	snapshot, err := source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	facts, out := object.Facts, &Context{Platform: snapshot}
	if out.NoMultiKueue, err = snapshot.WithoutMultiKueue(ctx, facts); err != nil {
		return nil, err
	}
	if err := out.readNamespace(ctx, source, facts); err != nil {
		return nil, err
	}
	if facts.Counted() && !object.LabelOnly {
		if out.Counter, err = source.PodCounter(ctx, facts); err != nil && !errors.Is(err, ErrUnknown) {
			return nil, err
		}
	}
	variables := &expression.Variables{NamespacePolicy: out.Namespace}
	if facts.IsNamespace() {
		// Deleting a Namespace deletes all that is in it, so that its own mode applies to it.
		out.Namespace = &resolution.NamespacePolicy{Name: facts.Name, Mode: resolution.ParseNamespace(facts.Name, facts.Annotations, nil).Mode}
	}
	policies := snapshot.Concerning(facts.Profile.Kind.GroupKind())
	tried := stampedInDryRun(facts, policies)
	filled := tried || labelledBy(facts, policies) && snapshot.Incomplete() == nil
	if object.LabelOnly && !filled && !slices.ContainsFunc(policies, (*expression.Policy).ConcernsLabels) {
		return out, nil
	}
	asksRuntime := !object.LabelOnly || !object.MetadataOnly && slices.ContainsFunc(policies, byRuntime(filled))
	kind := cmp.Or(object.Runtime, snapshot.RuntimeOf(facts.Profile.Kind.GroupKind()))
	if object.LabelOnly && (asksRuntime || tried) && snapshot.Incomplete() != nil {
		return nil, snapshot.Incomplete() // A KindProfile may know the runtime, or how the object finishes.
	}
	if asksRuntime = asksRuntime && kind != nil; !asksRuntime && len(policies) == 0 {
		return out, nil
	}
	if variables.Object, err = object.JSON(); err != nil {
		return nil, err
	}
	if asksRuntime {
		whole := slices.ContainsFunc(policies, (*expression.Policy).ReadsRuntime)
		if variables.Runtime, err = out.readRuntime(ctx, source, kind, facts, variables.Object, whole); err != nil {
			return nil, err
		}
	}
	evaluating, cancel := object.limited(ctx)
	defer cancel()
	if object.Giving {
		out.Policies = expression.Giving(evaluating, policies, facts, variables)
	} else if object.LabelOnly {
		out.Policies, out.Undecided, out.Failures = expression.LabelBounds(evaluating, policies, facts, variables, !object.MetadataOnly)
	} else {
		out.Policies, out.Failures = expression.Matching(evaluating, policies, facts, variables)
	}
	if filled {
		out.readFilled(evaluating, object, policies, variables)
	}
	return out, ctx.Err() // An evaluation that was interrupted is no fault of the policy's.
}

// limited is the context of evaluations.
func (o *Subject) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Evaluating == 0 {
		return ctx, func() {}
	}
	limited, cancel := context.WithTimeout(ctx, o.Evaluating)
	switch {
	case o.Until == nil:
		return limited, cancel
	case o.Until.Err() != nil:
		cancel()
	}
	stop := context.AfterFunc(o.Until, cancel)
	return limited, func() { stop(); cancel() }
}

// byRuntime asks whether it takes an object's runtime to know if a policy bounds its label or, if a
// stamp names one, what policies give.
func byRuntime(filled bool) func(*expression.Policy) bool {
	return func(p *expression.Policy) bool {
		return p.ConcernsLabels() && p.MatchAsksRuntime() || filled && p.ReadsRuntime()
	}
}

func (c *Context) readNamespace(ctx context.Context, source Source, facts *policy.Facts) (err error) {
	if facts.Namespace == "" {
		return nil
	}
	c.Namespace, err = source.Namespace(ctx, facts.Namespace)
	if errors.Is(err, ErrUnknown) {
		c.Namespace, c.NamespaceUnknown = UnknownNamespace(facts.Namespace), true
		return nil
	}
	return err
}

// UnknownNamespace is a namespace that Curfew knows by name alone, with the label that the API
// server derives from the name.
func UnknownNamespace(name string) *resolution.NamespacePolicy {
	return resolution.ParseNamespace(name, nil, map[string]string{corev1.LabelMetadataName: name})
}

// readRuntime reads the runtime that an object uses and adds what it says. It returns nil for an
// object that uses none.
func (c *Context) readRuntime(ctx context.Context, source Source, kind *expression.Runtime, facts *policy.Facts,
	object map[string]any, whole bool) (map[string]any, error) {
	reference, err := kind.Reference(facts.Namespace, object)
	if err != nil { // It uses a runtime, but not one that can be found: kept, as if that were gone (S6).
		c.Runtime = kind.Unreadable(err)
		return nil, nil
	}
	if reference == nil {
		return nil, nil
	}
	fields := c.Platform.Profiles.For(reference.Kind).RuntimeTTLs
	reference.Fields, reference.Whole = append(reference.Fields, fields...), whole
	runtime, err := source.Runtime(ctx, reference)
	unreadable := (*UnreadableError)(nil)
	switch {
	case err == nil:
		c.Runtime = reference.Policy(runtime, fields)
		return runtime, nil
	case apierrors.IsRequestEntityTooLargeError(err):
		c.Runtime = kind.Unreadable(fmt.Errorf("%s cannot be read: %w", reference, err))
		c.Runtime.Name = reference.Name
		return nil, nil
	case errors.Is(err, ErrUnknown):
		return nil, nil
	case errors.As(err, &unreadable) && ctx.Err() == nil:
		c.Runtime = kind.Unreadable(fmt.Errorf("%s cannot be read", reference))
		c.Runtime.Name = reference.Name
		return nil, nil
	default:
		return nil, fmt.Errorf("reading %s: %w", reference, err)
	}
}

// stampedInDryRun reports whether a stamp of an existing object names a policy in dry-run.
func stampedInDryRun(facts *policy.Facts, policies []*expression.Policy) bool {
	return !facts.Created.IsZero() && facts.StampedBy(func(name string) bool {
		return slices.ContainsFunc(policies, func(p *expression.Policy) bool { return p.Name == name && p.Mode == resolution.ModeDryRun })
	})
}

// labelledBy reports whether the stamp of an existing object's TTL label names a policy that gives
// labels. Whether it gave this one takes the scope in which admission filled it in.
func labelledBy(facts *policy.Facts, policies []*expression.Policy) bool {
	name := facts.LabelPolicy()
	gives := func(p *expression.Policy) bool { return p.Name == name && p.HasLabel() }
	return name != "" && !facts.Created.IsZero() && slices.ContainsFunc(policies, gives)
}

// errUnread is why it is not known whether a policy gave an object its TTL label.
var errUnread = errors.New("it takes more than the metadata")

// readFilled gathers the scope in which admission filled in what the stamps claim. A policy may
// match by the absence of what it fills in, so the policies judge the object without that.
func (c *Context) readFilled(ctx context.Context, object *Subject, policies []*expression.Policy, variables *expression.Variables) {
	if object.MetadataOnly && expression.NeedsWhole(policies) {
		// Until the object is read whole, right before it is deleted, its stamp is believed.
		c.Undecided = true
		stamped := &resolution.PlatformPolicy{Name: object.Facts.LabelPolicy()}
		stamped.Label = &lifetime.Setting{Source: stamped.Source(), Err: errUnread}
		c.Filled = &resolution.Scope{Policies: []*resolution.PlatformPolicy{stamped}}
		return
	}
	before := *variables
	before.Object = Without(variables.Object, resolution.WithoutDefaults(object.Facts))
	// The feed of a labelled kind knows no more of its profile than the name.
	facts := policy.FactsOfObjectContext(ctx, c.Platform.Profiles.For(object.Facts.Profile.Kind), before.Object)
	matching, _ := expression.Matching(ctx, policies, facts, &before)
	c.Filled = &resolution.Scope{Namespace: c.Namespace, Runtime: c.Runtime, Policies: matching, NoMultiKueue: c.NoMultiKueue}
}

// Without returns a copy of an object that lacks some fields, and the maps in the metadata that are
// empty then.
func Without(object map[string]any, paths []fieldpath.FieldPath) map[string]any {
	out := runtime.DeepCopyJSON(object)
	for _, path := range paths {
		unstructured.RemoveNestedField(out, path...)
		if parent, ok := fieldpath.FieldPath(path[:len(path)-1]).Get(out); ok && path[0] == "metadata" {
			if fields, ok := parent.(map[string]any); ok && len(fields) == 0 {
				unstructured.RemoveNestedField(out, path[:len(path)-1]...)
			}
		}
	}
	return out
}
