package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
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
)

// Lookups are all of them, in the order of the docs.
var Lookups = []string{LookupMounted, LookupBound, LookupOwned, LookupService}

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
		EnvOptions:        append(append(scope.variables(), cel.CustomTypeAdapter(adapter{})), limits()...),
	})
	if err != nil {
		return nil, fmt.Errorf("building the CEL environment: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
}
