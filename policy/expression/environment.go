package expression

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Scope is the set of variables of an expression.
type Scope uint8

// The scopes.
const (
	// ScopeProfile knows object.
	ScopeProfile Scope = iota
	// ScopePolicy knows object, namespaceObject and runtime.
	ScopePolicy
	// ScopeCleanup knows object, namespaceObject, now, the lookups and the policy's own variables.
	ScopeCleanup
)

// Names of the variables. An object that is not there is null.
const (
	varObject          = "object"
	varNamespaceObject = "namespaceObject"
	varRuntime         = "runtime"
	varNow             = "now"
)

// Lookups of cleanup policies: facts about an object that other objects tell. See [Lookups].
const (
	// LookupMounted: a Pod or a pod template uses the volume.
	LookupMounted = "lookup.mounted"
	// LookupBound: a PersistentVolumeClaim or PersistentVolume is bound.
	LookupBound = "lookup.bound"
	// LookupOwned: the object has an owner reference.
	LookupOwned = "lookup.owned"
	// LookupService: a Service selects the Pod, or an EndpointSlice has it as an endpoint.
	LookupService = "lookup.selectedByService"
	// LookupReferenced: another object names the ConfigMap, Secret, ServiceAccount, claim or class.
	LookupReferenced = "lookup.referenced"
	// LookupSelects: the Service selects a Pod or a pod template, or has endpoints.
	LookupSelects = "lookup.selects"
	// LookupDangling: the HorizontalPodAutoscaler or Ingress refers to nothing that exists.
	LookupDangling = "lookup.dangling"
	// LookupInstances: the Namespace has objects, or the Node has Pods.
	LookupInstances = "lookup.instances"
)

// Lookups are all of them, in the order of the docs.
var Lookups = []string{
	LookupMounted, LookupBound, LookupOwned, LookupService, LookupReferenced, LookupSelects, LookupDangling, LookupInstances,
}

// variablesPrefix begins the names of a cleanup policy's own variables.
const variablesPrefix = "variables."

func (s Scope) variables() []cel.EnvOption {
	object := cel.Variable(varObject, cel.DynType)
	namespaceObject := cel.Variable(varNamespaceObject, cel.DynType)
	switch s {
	case ScopePolicy:
		return []cel.EnvOption{object, namespaceObject, cel.Variable(varRuntime, cel.DynType)}
	case ScopeCleanup:
		out := []cel.EnvOption{object, namespaceObject, cel.Variable(varNow, cel.TimestampType)}
		for _, name := range Lookups {
			out = append(out, cel.Variable(name, cel.BoolType))
		}
		return out
	default:
		return []cel.EnvOption{object}
	}
}

// CostLimit is the cost limit of one evaluation in CEL's units: the API server's limit for an
// admission expression, roughly a tenth of a second.
const CostLimit = celconfig.PerCallLimit

// environments are built once for each scope, because declaring the libraries takes milliseconds.
var environments = [...]func() (*cel.Env, error){
	ScopeProfile: sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(ScopeProfile) }),
	ScopePolicy:  sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(ScopePolicy) }),
	ScopeCleanup: sync.OnceValues(func() (*cel.Env, error) { return newEnvironment(ScopeCleanup) }),
}

// newEnvironment extends the API server's environment by the variables of a scope. It is the
// environment for stored expressions, the most permissive one: an expression that one version of
// Curfew accepted must mean the same in the next.
func newEnvironment(scope Scope) (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: append(scope.variables(), cel.CustomTypeAdapter(adapter{}),
			// The parser counts while it expands macros.
			cel.ParserExpressionSizeLimit(MaxSource), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNodeLimit(maxNodes)),
	})
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
}

// adapter converts decoded JSON to CEL values. Unlike CEL's own adapter it treats a json.Number as
// a number, and not as a string, so that an expression means the same however its object was
// decoded.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		return number(v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(value)
	}
}

func number(n json.Number) ref.Val {
	if whole, err := n.Int64(); err == nil {
		return types.Int(whole)
	}
	real, err := n.Float64()
	if err != nil {
		return types.NewErr("%q is not a number", string(n))
	}
	return types.Double(real)
}

// linear keeps the time of a loop proportional to its cost. CEL's cost tracker pushes the values of
// each iteration on a stack, removes them when the loop ends, and searches all of it several times
// an iteration: the time of a loop grows with the square of its items, and its cost does not. The
// option makes the tracker drop the last iteration when the next one begins. The cost stays the
// same, give or take one for each iteration.
func linear(compiled *cel.Ast) cel.ProgramOption {
	conditions := map[int64]bool{}
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(expr ast.Expr) {
		if expr.Kind() == ast.ComprehensionKind {
			conditions[expr.AsComprehension().LoopCondition().ID()] = true
		}
	}))
	return cel.CustomDecoratorV2(func(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if conditions[node.ID()] {
			return &iteration{node}, nil
		}
		return node, nil
	})
}

// iteration is the condition of a loop, which begins each iteration. To the cost tracker it is a
// call whose argument is its own last value: the tracker drops what lies above an argument, counts
// a call (1, as the condition does otherwise), and pushes the result.
type iteration struct{ interpreter.InterpretableV2 }

var _ interpreter.InterpretableCall = (*iteration)(nil)

// Function implements interpreter.InterpretableCall.
func (i *iteration) Function() string { return "iteration" }

// OverloadID implements interpreter.InterpretableCall.
func (i *iteration) OverloadID() string { return "iteration" }

// Args implements interpreter.InterpretableCall.
func (i *iteration) Args() []interpreter.InterpretableV2 {
	return []interpreter.InterpretableV2{i.InterpretableV2}
}
