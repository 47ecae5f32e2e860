package platform

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// stampedInDryRun reports whether a stamp of an existing object names a policy in dry-run.
func stampedInDryRun(facts *policy.Facts, policies []*expression.Policy) bool {
	return !facts.Created.IsZero() && facts.StampedBy(func(name string) bool {
		return slices.ContainsFunc(policies, func(p *expression.Policy) bool { return p.Name == name && p.Mode == policy.ModeDryRun })
	})
}

// labelledBy reports whether the stamp of an existing object's TTL label names a policy that gives
// labels. Whether it gave this one takes the scope in which admission filled it in.
func labelledBy(facts *policy.Facts, policies []*expression.Policy) bool {
	name := facts.LabelPolicy()
	return name != "" && !facts.Created.IsZero() && slices.ContainsFunc(policies, func(p *expression.Policy) bool { return p.Name == name && p.HasLabel() })
}

// errUnread is why it is not known whether a policy gave an object its TTL label.
var errUnread = errors.New("it takes more than the metadata")

// readFilled gathers the scope in which admission filled in what the stamps claim. A policy may
// match by the absence of what it fills in, so the policies judge the object without that.
func (c *Context) readFilled(ctx context.Context, object *Object, policies []*expression.Policy, variables *expression.Variables) {
	if object.MetadataOnly && expression.NeedsWhole(policies) {
		// Until the object is read whole, right before it is deleted, its stamp is believed.
		c.Undecided = true
		source := policy.Source{Level: policy.LevelPolicy, Name: object.Facts.LabelPolicy()}
		c.Filled = &policy.Scope{Policies: []*policy.PlatformPolicy{{Name: source.Name, Label: &policy.Setting{Source: source, Err: errUnread}}}}
		return
	}
	before := *variables
	before.Object = runtime.DeepCopyJSON(variables.Object)
	for _, path := range policy.WithoutDefaults(object.Facts) {
		remove(before.Object, path)
	}
	// The feed of a labelled kind knows no more of its profile than the name.
	facts := policy.FactsOfObjectContext(ctx, c.Platform.Profiles.For(object.Facts.Profile.Kind), before.Object)
	matching, _ := expression.Matching(ctx, policies, facts, &before)
	c.Filled = &policy.Scope{Namespace: c.Namespace, Runtime: c.Runtime, Policies: matching}
}

// remove removes a field, and the maps in the metadata that are empty then.
func remove(object map[string]any, path policy.FieldPath) {
	unstructured.RemoveNestedField(object, path...)
	if parent, ok := policy.FieldPath(path[:len(path)-1]).Get(object); ok && path[0] == "metadata" {
		if fields, ok := parent.(map[string]any); ok && len(fields) == 0 {
			unstructured.RemoveNestedField(object, path[:len(path)-1]...)
		}
	}
}
