package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/labels"

	"curfew.dev/curfew/policy"
)

// Variables are the inputs of an expression: objects as decoded JSON. A nil object is null. No
// expression sees metadata.managedFields: some evaluators do not have them, and the result must be
// the same everywhere.
type Variables struct {
	Object, Namespace, Runtime map[string]any
	// NamespacePolicy is the parsed namespace. If Namespace is nil, expressions see its metadata,
	// which is assembled when one reads it.
	NamespacePolicy *policy.NamespacePolicy
	// Now is the instant of the decision, for expressions of [ScopeCleanup].
	Now time.Time
	// Lookup answers one of [Lookups] for the object; nil if nothing can be looked up.
	Lookup func(name string) (bool, error)
	// computed holds the variables of the object's cleanup policy; nil without any.
	computed func(name string) (ref.Val, error)
}

// activation passes the variables to CEL without building a map for each evaluation.
type activation struct{ *Variables }

// ResolveName implements cel.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return orNull(withoutManagedFields(&a.Object)), true
	case varNamespaceObject:
		return orNull(a.namespace()), true
	case varRuntime:
		return orNull(withoutManagedFields(&a.Runtime)), true
	case varNow:
		return a.Now, true
	default:
		return a.resolveLate(name)
	}
}

// resolveLate looks up the values that cost something, only where an expression uses them.
func (a activation) resolveLate(name string) (any, bool) {
	var value any
	err := fmt.Errorf("%s is not known here", name)
	switch {
	case strings.HasPrefix(name, variablesPrefix) && a.computed != nil:
		value, err = a.computed(strings.TrimPrefix(name, variablesPrefix))
	case slices.Contains(Lookups, name) && a.Lookup != nil:
		value, err = a.Lookup(name)
	case !strings.HasPrefix(name, variablesPrefix) && !slices.Contains(Lookups, name):
		return nil, false
	}
	if err != nil {
		return types.WrapErr(err), true
	}
	return value, true
}

// Parent implements cel.Activation.
func (a activation) Parent() cel.Activation { return nil }

// withoutManagedFields replaces a map that has them by a copy. The original, which may be in a
// cache, is not changed.
func withoutManagedFields(object *map[string]any) map[string]any {
	metadata, _ := (*object)["metadata"].(map[string]any)
	if _, ok := metadata["managedFields"]; !ok {
		return *object
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	*object = maps.Clone(*object)
	(*object)["metadata"] = metadata
	return *object
}

// namespace is the namespace as expressions see it, made once for all that look at it.
func (v *Variables) namespace() map[string]any {
	if v.Namespace != nil || v.NamespacePolicy == nil {
		return v.Namespace
	}
	v.Namespace = namespaceObject(v.NamespacePolicy)
	return v.Namespace
}

// namespaceObject shows the fields that the API server's own policies show.
func namespaceObject(of *policy.NamespacePolicy) map[string]any {
	metadata := map[string]any{"name": of.Name}
	if !of.Created.IsZero() {
		metadata["uid"], metadata["resourceVersion"] = string(of.UID), of.ResourceVersion
		metadata["creationTimestamp"] = of.Created.UTC().Format(time.RFC3339)
	}
	for name, pairs := range map[string]map[string]string{"labels": of.Labels, "annotations": of.Annotations} {
		if len(pairs) > 0 {
			metadata[name] = anyMap(pairs)
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
}

func anyMap(pairs map[string]string) map[string]any {
	out := make(map[string]any, len(pairs))
	for key, value := range pairs {
		out[key] = value
	}
	return out
}

// namespaceLabels are the labels that policies select by; known is false if the namespace is not
// known.
func (v *Variables) namespaceLabels() (of labels.Labels, known bool) {
	switch {
	case v.Namespace != nil:
		return labelsOf(v.Namespace), true
	case v.NamespacePolicy != nil:
		return labels.Set(v.NamespacePolicy.Labels), true
	default:
		return nil, false
	}
}

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
