package expression

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"
)

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
