package expression

import (
	"k8s.io/utils/lru"
)

// DefaultCacheSize is how many expressions a [Compiler] remembers: some hundred policies and profiles of a few expressions
// each.
const DefaultCacheSize = 1024

// Compiler compiles expressions and remembers what came of it, failures included: a policy that cannot be compiled would
// otherwise be compiled again by every request. Expressions are found by their text, so that a new generation of an object
// compiles only what changed. It is safe for concurrent use; two callers may compile the same expression at once.
type Compiler struct {
	cache     *lru.Cache
	costLimit uint64
}

// NewCompiler returns a compiler that remembers so many expressions, and forgets the one that was not asked for the longest
// first.
func NewCompiler(size int) *Compiler {
	return &Compiler{cache: lru.New(max(size, 1)), costLimit: CostLimit}
}

type cacheKey struct {
	source string
	scope  Scope
	result Result
}

type cached struct {
	program *Program
	err     error
}

// Compile compiles an expression, or remembers that it did. An error of the expression is a [*CompileError].
func (c *Compiler) Compile(source string, scope Scope, result Result) (*Program, error) {
	key := cacheKey{source, scope, result}
	if value, ok := c.cache.Get(key); ok {
		if known, ok := value.(cached); ok {
			return known.program, known.err
		}
	}
	program, err := compile(source, scope, result, c.costLimit)
	c.cache.Add(key, cached{program, err})
	return program, err
}

// Len is how many expressions are remembered.
func (c *Compiler) Len() int { return c.cache.Len() }
