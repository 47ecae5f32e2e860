package expression

import (
	"time"

	"github.com/google/cel-go/cel"
)

// Variables are what an expression is evaluated over: objects as decoded JSON. A nil object is null.
type Variables struct {
	Object, Namespace, Runtime map[string]any
	// Now is the instant of the decision, for expressions of [ScopeCleanup].
	Now time.Time
}

// activation hands CEL the variables by name, without a map to build for each evaluation.
type activation struct{ *Variables }

// ResolveName implements cel.Activation.
func (a activation) ResolveName(name string) (any, bool) {
	switch name {
	case varObject:
		return orNull(a.Object), true
	case varNamespaceObject:
		return orNull(a.Namespace), true
	case varRuntime:
		return orNull(a.Runtime), true
	case varNow:
		return a.Now, true
	default:
		return nil, false
	}
}

// Parent implements cel.Activation.
func (a activation) Parent() cel.Activation { return nil }

func orNull(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}
