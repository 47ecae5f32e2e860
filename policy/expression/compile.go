package expression

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/utils/lru"
)

// CompileError is an error with its place in the expression.
type CompileError struct {
	// Line and Column begin at 1.
	Line, Column int
	Message      string
}

// Error is one line: line 1, column 12: undeclared reference to 'objekt'.
func (e *CompileError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// compiling limits how many compilations run at once, so that slow ones leave processors to
// reviews. Texts that are only linted have slots of their own: a flood of them must not make
// admission wait.
var (
	compiling = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	linting   = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/4))
)

// maxErrorMessage is the longest error message in bytes. The checker writes out types of any size.
const maxErrorMessage = 512

// compile parses, checks and plans an expression. costLimit is the limit of one evaluation.
func compile(source string, scope Scope, result Result, costLimit uint64, declared ...cel.EnvOption) (*Program, error) {
	env, err := environments[scope]()
	if err != nil {
		return nil, err
	}
	if len(declared) > 0 {
		if env, err = env.Extend(declared...); err != nil {
			return nil, fmt.Errorf("declaring variables: %w", err)
		}
	}
	// Issues.Err writes out all errors, each with its source line: a hundred megabytes of text for
	// a hostile expression.
	ast, issues := env.Parse(source)
	if len(issues.Errors()) > 0 {
		return nil, compileError(issues)
	}
	if err := checkSize(ast); err != nil {
		return nil, &CompileError{Line: 1, Column: 1, Message: err.Error()}
	}
	ast, issues = env.Check(ast)
	if len(issues.Errors()) > 0 {
		return nil, compileError(issues)
	}
	if !result.accepts(ast.OutputType()) {
		return nil, &CompileError{Line: 1, Column: 1, Message: fmt.Sprintf("the result is of type %s, and must be %s", ast.OutputType(), result)}
	}
	program, err := env.Program(ast,
		cel.CostLimit(costLimit),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
		linear(ast),
	)
	if err != nil {
		return nil, &CompileError{Line: 1, Column: 1, Message: err.Error()}
	}
	asks, whole := asksFor(ast)
	return &Program{
		source: source, result: result, program: program, costLimit: costLimit, loops: loops(ast), constant: !loops(ast) && len(asks) == 0,
		asks: asks, whole: whole, returns: ast.OutputType(),
	}, nil
}

// compileError keeps the first issue, since the others are mostly consequences. CEL counts columns
// from 0.
func compileError(issues *cel.Issues) *CompileError {
	first := issues.Errors()[0]
	message, _, _ := strings.Cut(first.Message, "\n")
	if len(message) > maxErrorMessage {
		message = strings.ToValidUTF8(message[:maxErrorMessage], "") + "…"
	}
	return &CompileError{
		Line:    max(first.Location.Line(), 1),
		Column:  max(first.Location.Column(), 0) + 1,
		Message: strings.TrimSuffix(message, " (in container '')"),
	}
}

// loops reports whether an expression has a comprehension, such as exists or map.
func loops(compiled *cel.Ast) bool {
	found := false
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(expr ast.Expr) {
		found = found || expr.Kind() == ast.ComprehensionKind
	}))
	return found
}

// asksFor returns the variables that an expression uses, and whether it reads more of the object
// than its metadata.
func asksFor(compiled *cel.Ast) (names []string, whole bool) {
	metadata := map[int64]bool{} // uses of object that read no more than its metadata
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(expr ast.Expr) {
		switch expr.Kind() {
		case ast.SelectKind:
			if operand := expr.AsSelect(); isMetadata(operand.FieldName()) {
				metadata[operand.Operand().ID()] = true
			}
		case ast.CallKind: // object.?metadata
			call := expr.AsCall()
			if args := call.Args(); call.FunctionName() == operators.OptSelect && len(args) == 2 && args[1].Kind() == ast.LiteralKind {
				if name, ok := args[1].AsLiteral().(types.String); ok && isMetadata(string(name)) {
					metadata[args[0].ID()] = true
				}
			}
		case ast.IdentKind:
			name := expr.AsIdent()
			known := slices.Contains([]string{varObject, varNamespaceObject, varRuntime, varNow}, name) ||
				slices.Contains(Lookups, name) || strings.HasPrefix(name, variablesPrefix)
			if known && !slices.Contains(names, name) {
				names = append(names, name)
			}
			whole = whole || name == varObject && !metadata[expr.ID()]
		default:
		}
	}))
	return names, whole
}

func isMetadata(field string) bool {
	return field == "metadata" || field == "apiVersion" || field == "kind"
}

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
	// slots limits the compilations that run at once. Compilers share it.
	slots chan struct{}
	// object has the expressions of one object so far; nil outside of objects.
	object *objectSources
}

// NewCompiler returns a compiler that keeps the size expressions that were used last.
func NewCompiler(size int) *Compiler {
	return &Compiler{cache: lru.New(max(size, 1)), costLimit: CostLimit, slots: compiling}
}

// NewLintCompiler is [NewCompiler] for texts that are only linted. Others never wait for them.
func NewLintCompiler(size int) *Compiler {
	out := NewCompiler(size)
	out.slots = linting
	return out
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
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
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
		return &CompileError{Line: 1, Column: 1, Message: fmt.Sprintf(
			"the expressions of one object may have %d characters together: use fewer, or several objects", maxObjectSource)}
	}
	return nil
}

// Len is the number of cached expressions.
func (c *Compiler) Len() int { return c.cache.Len() }
