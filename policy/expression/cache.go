package expression

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"k8s.io/utils/lru"
)

// DefaultCacheSize is how many expressions a [Compiler] keeps, enough for some hundred policies and
// profiles.
const DefaultCacheSize = 1024

// Compiler compiles expressions and caches the results, including errors: otherwise every request
// would compile a bad policy again. Expressions are looked up by their text, so that a new
// generation of an object compiles only what changed. It is safe for concurrent use; two callers
// may compile the same expression at once.
type Compiler struct {
	cache     *lru.Cache
	costLimit uint64
	// object has the expressions of one object so far; nil outside of objects.
	object *objectSources
}

// NewCompiler returns a compiler that keeps the size expressions that were used last.
func NewCompiler(size int) *Compiler {
	return &Compiler{cache: lru.New(max(size, 1)), costLimit: CostLimit}
}

// forObject returns a compiler for one object, whose expressions also share a limit.
func (c *Compiler) forObject() *Compiler {
	out := *c
	out.object = &objectSources{}
	return &out
}

type objectSources struct {
	characters int
	all        []string
}

// reads reports whether an expression of the object uses a variable, judging by its text.
func (c *Compiler) reads(variable string) bool {
	return slices.ContainsFunc(c.object.all, func(source string) bool { return strings.Contains(source, variable) })
}

type cacheKey struct {
	source string
	scope  Scope
	result Result
	// declared are the names and types of the variables of the object that the expression is in.
	declared string
}

type cached struct {
	program *Program
	err     error
}

// Compile compiles an expression, or returns the cached result. An error in the expression is a
// [*CompileError].
func (c *Compiler) Compile(source string, scope Scope, result Result) (*Program, error) {
	return c.compileWith(source, scope, result, nil)
}

// declared is a variable that an object declares itself.
type declared struct {
	name    string
	returns *cel.Type
}

// compileWith compiles an expression that also knows variables of its object.
func (c *Compiler) compileWith(source string, scope Scope, result Result, variables []declared) (*Program, error) {
	// Before anything is looked up, or kept: the cache counts expressions and not their length.
	if err := c.admit(source); err != nil {
		return nil, err
	}
	key := cacheKey{source: source, scope: scope, result: result}
	options := make([]cel.EnvOption, 0, len(variables))
	for _, variable := range variables {
		key.declared += variable.name + " " + variable.returns.String() + "\n"
		options = append(options, cel.Variable(variablesPrefix+variable.name, variable.returns))
	}
	if value, ok := c.cache.Get(key); ok {
		if known, ok := value.(cached); ok {
			return known.program, known.err
		}
	}
	program, err := compile(source, scope, result, c.costLimit, options...)
	c.cache.Add(key, cached{program, err})
	return program, err
}

func (c *Compiler) admit(source string) error {
	characters := utf8.RuneCountInString(source)
	if characters > MaxSource {
		return &CompileError{Line: 1, Column: 1, Message: fmt.Sprintf("the expression has %d characters, and may have %d", characters, MaxSource)}
	}
	if c.object == nil {
		return nil
	}
	c.object.all = append(c.object.all, source)
	if c.object.characters += characters; c.object.characters > maxObjectSource {
		return &CompileError{Line: 1, Column: 1, Message: fmt.Sprintf("the expressions of one object may have %d characters together: use fewer, or several objects", maxObjectSource)}
	}
	return nil
}

// Len is the number of cached expressions.
func (c *Compiler) Len() int { return c.cache.Len() }
