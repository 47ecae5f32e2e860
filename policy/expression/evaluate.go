package expression

import (
	"context"
	"encoding/json"
	"errors"
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

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
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

// For evaluates the policy for one object and reports whether it matches. Variables hold the
// object, its namespace (only its metadata is used) and its runtime.
//
// For returns the errors of the evaluation, for the condition Ready and for metrics; each is also
// in the result. If the match cannot be evaluated, every setting of the policy becomes an error in
// the result: the object is kept (S6). The bounds of the policy apply all the same: the author of
// an object must not escape them by leaving out a field.
func (p *Policy) For(ctx context.Context, facts *policy.Facts, variables *Variables) (*resolution.PlatformPolicy, bool, []error) {
	if len(p.match.kinds) == 0 && facts.Profile.Unknown {
		// Every kind with a profile, and this has none: it is given nothing. The bounds apply to
		// labelled objects of all kinds.
		bounds, _, errs := LabelBounds(ctx, []*Policy{p}, facts, variables, true)
		if len(bounds) == 0 {
			return nil, false, nil
		}
		return bounds[0], true, errs
	}
	matched, err := p.match.holds(ctx, facts, variables)
	if err != nil {
		err = p.failure(err)
		said := p.unusable(err)
		said.NamesKind = p.match.names(facts.Profile.Kind.GroupKind())
		if !p.givesLabel(facts.Profile) {
			said.Label = nil
		}
		return said, true, []error{err}
	}
	if !matched {
		return nil, false, nil
	}
	out := &resolution.PlatformPolicy{
		Name: p.Name, Bounds: p.Bounds, Since: p.Since, Backfill: p.Backfill,
		Mode: p.Mode, WarnBelow: p.WarnBelow, NamesKind: p.match.names(facts.Profile.Kind.GroupKind()),
		LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable, Propagation: p.Propagation, Protect: p.protect,
		TTL: lifetime.TTLSet{
			All:       p.ttl.setting(ctx, p.source, variables),
			Succeeded: p.succeeded.setting(ctx, p.source, variables),
			Failed:    p.failed.setting(ctx, p.source, variables),
		},
		Deadline: p.deadline.setting(ctx, p.source, variables),
	}
	if p.givesLabel(facts.Profile) {
		out.Label = p.Label(ctx, variables)
	}
	var errs []error
	for _, setting := range append(out.TTL.Settings(), out.Deadline, out.Label) {
		if setting != nil && setting.Err != nil {
			errs = append(errs, p.failure(fmt.Errorf("%s: %w", setting.Path, setting.Err)))
		}
	}
	return out, true, errs
}

// givesLabel reports whether the policy may give objects of a kind its TTL label. Kinds that never
// finish must be named: a label for all kinds is not meant for the Deployments of the cluster.
func (p *Policy) givesLabel(profile *policy.Profile) bool {
	kind := profile.Kind.GroupKind()
	return profile.Finishable() || !profile.Unchanging() && !policy.EssentialKind(kind) && p.match.names(kind)
}

// Label is the TTL label that the policy gives to an object that it matches; nil where it gives
// none. The setting has Text and, if the label cannot be computed, Err.
func (p *Policy) Label(ctx context.Context, variables *Variables) *lifetime.Setting {
	if p.label == nil || p.label.constant != nil {
		if p.label == nil {
			return nil
		}
		return p.label.constant
	}
	text, err := p.label.program.Label(ctx, variables)
	if err == nil && text == "" {
		return nil
	}
	return &lifetime.Setting{Path: p.label.path, Source: p.source, Text: text, Err: err}
}

// PolicyError is an evaluation of a policy that failed for one object, which is kept for that
// reason.
type PolicyError struct {
	// Policy and Generation identify the policy.
	Policy     string
	Generation int64
	// Err names the field and the reason.
	Err error
}

// Error names the policy, the field and why.
func (e *PolicyError) Error() string { return fmt.Sprintf("policy %q: %v", e.Policy, e.Err) }

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.Err }

func (p *Policy) failure(err error) error {
	return &PolicyError{Policy: p.Name, Generation: p.Generation, Err: err}
}

// unusable has err in the place of everything that the policy sets.
func (p *Policy) unusable(err error) *resolution.PlatformPolicy {
	in := func(path string) *lifetime.Setting { return &lifetime.Setting{Path: path, Source: p.source, Err: err} }
	out := &resolution.PlatformPolicy{Name: p.Name, Since: p.Since, Backfill: p.Backfill, Mode: p.Mode}
	if p.ttl != nil || p.succeeded != nil || p.failed != nil {
		out.TTL.All = in("spec.match")
	}
	if p.deadline != nil {
		out.Deadline = in("spec.match")
	}
	if !p.LatestDate.IsZero() || p.latestUnreadable != nil {
		out.LatestUnreadable = in("spec.bounds.latestDate")
	}
	if p.label != nil {
		out.Label = in("spec.match")
	}
	if p.protect != nil {
		out.Protect = in(p.protect.Path)
	}
	if p.Propagation != "" {
		out.PropagationErr = err
	}
	// Bounds count as if the policy matched, and what lies within them is kept. Of an evaluation that
	// was stopped the answer is still to come.
	unknown := p.Bounds
	for _, r := range []*lifetime.Range{&unknown.TTL, &unknown.Label, &unknown.Deadline} {
		for _, bound := range []**lifetime.Setting{&r.Min, &r.Max} {
			if *bound != nil {
				*bound = in((*bound).Path)
			}
		}
	}
	if out.Bounds = unknown; !errors.As(err, new(*lifetime.UndecidedError)) {
		out.Bounds, out.LatestDate = p.Bounds.Narrow(unknown), p.LatestDate
	}
	return out
}

// Matching evaluates sorted policies for one object, for [resolution.Scope]. It skips a policy that
// can no longer make a difference, because the namespace or an earlier policy already decides.
func Matching(ctx context.Context, policies []*Policy, facts *policy.Facts, variables *Variables) ([]*resolution.PlatformPolicy, []error) {
	var out []*resolution.PlatformPolicy
	var errs []error
	open := questions{label: true, propagation: true}
	open.ttl, open.deadline = resolution.LeftToPolicies(facts, variables.NamespacePolicy)
	for _, p := range policies {
		if !p.answers(open) {
			continue
		}
		said, matched, failed := p.For(ctx, facts, variables)
		if matched {
			out = append(out, said)
		}
		if matched && said.Mode != resolution.ModeDryRun {
			open.ttl = open.ttl && said.TTL.Empty()
			open.deadline = open.deadline && said.Deadline == nil
			open.label = open.label && said.Label == nil
			open.propagation = open.propagation && said.Propagation == ""
		}
		errs = append(errs, failed...)
	}
	return out, errs
}

// questions are the defaults that only the first policy that sets one decides.
type questions struct{ ttl, deadline, label, propagation bool }

// answers reports whether the policy can make a difference. The bounds of all policies count.
func (p *Policy) answers(open questions) bool {
	return p.Bounds != (lifetime.Bounds{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil || p.protect != nil || p.WarnBelow > 0 ||
		open.ttl && p.GivesTTL() ||
		open.deadline && p.deadline != nil ||
		open.label && p.label != nil ||
		open.propagation && p.Propagation != ""
}
