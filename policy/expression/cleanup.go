package expression

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/v1alpha1"
)

// Cleanup are the compiled expressions of a cleanup policy. It is safe for concurrent use.
type Cleanup struct {
	variables  []variable
	conditions []condition
	// groupBy and sortBy of keepNewest; nil where it has none.
	groupBy, sortBy *Program
	// NeedsObject reports whether an expression reads more than the metadata of an object.
	NeedsObject bool
	// ReadsNamespace reports whether an expression reads the namespace of an object.
	ReadsNamespace bool
	// Lookups are the lookups that the expressions use.
	Lookups []string
}

type variable struct {
	name    string
	program *Program
}

// Cleanup compiles the expressions of a cleanup policy. With errors the result must not be used:
// a policy that cannot be read deletes nothing (S6).
func (c *Compiler) Cleanup(spec *v1alpha1.CleanupSpec) (*Cleanup, field.ErrorList) {
	c = c.forObject()
	var errs field.ErrorList
	out, known := &Cleanup{}, []declared(nil)
	compile := func(path *field.Path, source v1alpha1.Expression, result Result) *Program {
		program, err := c.compileWith(string(source), ScopeCleanup, result, known)
		if err != nil {
			errs = append(errs, invalidExpression(path, string(source), err))
			return nil
		}
		out.asks(program)
		return program
	}
	path := field.NewPath("spec")
	for i := range spec.Variables {
		cleanupVariable := &spec.Variables[i]
		program := compile(path.Child("variables").Index(i).Child("expression"), cleanupVariable.Expression, ResultAny)
		if program == nil {
			return out, errs // Expressions that use it would fail for no other reason.
		}
		out.variables = append(out.variables, variable{cleanupVariable.Name, program})
		known = append(known, declared{cleanupVariable.Name, program.returns})
	}
	for i := range spec.Conditions {
		cleanupCondition := &spec.Conditions[i]
		program := compile(path.Child("conditions").Index(i).Child("expression"), cleanupCondition.Expression, ResultBool)
		out.conditions = append(out.conditions, condition{name: cleanupCondition.Name, program: program})
	}
	if newest := spec.KeepNewest; newest != nil {
		if newest.GroupBy != nil {
			out.groupBy = compile(path.Child("keepNewest", "groupBy"), *newest.GroupBy, ResultText)
		}
		if newest.SortBy != nil {
			out.sortBy = compile(path.Child("keepNewest", "sortBy"), *newest.SortBy, ResultTime)
		}
	}
	return out, errs
}

func (c *Cleanup) asks(program *Program) {
	c.NeedsObject = c.NeedsObject || program.whole
	c.ReadsNamespace = c.ReadsNamespace || slices.Contains(program.asks, varNamespaceObject)
	for _, name := range program.asks {
		if slices.Contains(Lookups, name) && !slices.Contains(c.Lookups, name) {
			c.Lookups = append(c.Lookups, name)
		}
	}
}

// Matches reports whether all conditions are true. As in the API server, one condition that is
// false decides, whatever the others return; an error counts only if no condition is false.
func (c *Cleanup) Matches(ctx context.Context, variables *Variables) (bool, error) {
	variables = c.with(ctx, variables)
	var errs []error
	for i := range c.conditions {
		condition := &c.conditions[i]
		holds, err := condition.program.Bool(ctx, variables)
		switch {
		case err != nil:
			if errs = append(errs, fmt.Errorf("spec.conditions[%d] (%s): %w", i, condition.name, err)); exhausted(err) {
				return false, errors.Join(errs...)
			}
		case !holds:
			return false, nil
		}
	}
	return len(errs) == 0, errors.Join(errs...)
}

// Group is the value that keepNewest groups an object by; "" without groupBy.
func (c *Cleanup) Group(ctx context.Context, variables *Variables) (string, error) {
	if c.groupBy == nil {
		return "", nil
	}
	text, err := c.groupBy.Text(ctx, c.with(ctx, variables))
	if err != nil {
		return "", fmt.Errorf("spec.keepNewest.groupBy: %w", err)
	}
	return text, nil
}

// Time is the instant that keepNewest sorts an object by; created without sortBy.
func (c *Cleanup) Time(ctx context.Context, variables *Variables, created time.Time) (time.Time, error) {
	if c.sortBy == nil {
		return created, nil
	}
	t, err := c.sortBy.Time(ctx, c.with(ctx, variables))
	if err == nil && t.IsZero() {
		err = errors.New("the result is null, and must be a timestamp")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("spec.keepNewest.sortBy: %w", err)
	}
	return t, nil
}

// with adds the variables of the policy, each computed once for an object and only if it is used.
func (c *Cleanup) with(ctx context.Context, variables *Variables) *Variables {
	if len(c.variables) == 0 || variables.computed != nil {
		return variables
	}
	type result struct {
		value ref.Val
		err   error
	}
	results := map[string]result{}
	variables.computed = func(name string) (ref.Val, error) {
		if known, ok := results[name]; ok {
			return known.value, known.err
		}
		i := slices.IndexFunc(c.variables, func(v variable) bool { return v.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s%s is not declared", variablesPrefix, name)
		}
		value, err := c.variables[i].program.evaluate(ctx, variables)
		if err != nil {
			err = fmt.Errorf("spec.variables[%d] (%s): %w", i, name, err)
		}
		results[name] = result{value, err}
		return value, err
	}
	return variables
}
