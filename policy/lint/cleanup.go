package lint

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/rules"
)

// checkCleanup checks a cleanup policy as admission does, but for the permissions of its author and
// of its service account. It is no context for other documents.
func checkCleanup[T any](compile func(*expression.Compiler, *T) (*cleanup.Policy, field.ErrorList)) addDocument {
	return func(ctx context.Context, w *Linter, document *Document) {
		w.cleanups++
		object := new(T)
		if !w.read(ctx, document, object) {
			return
		}
		compiled, errs := compile(w.compiler, object)
		if err := compiled.CheckInterval(w.options.CleanupInterval); err != nil {
			errs = append(errs, err)
		}
		if _, err := rules.CleanupAccessOf(compiled); err != nil {
			errs = append(errs, err)
		}
		w.compiled(document, errs)
		for _, finding := range rules.ReviewCleanup(&rules.CleanupRequest{Policy: compiled}).Findings {
			w.find(document, finding)
		}
	}
}

// addRead checks an object that only its schema restricts.
func addRead[T any](ctx context.Context, w *Linter, document *Document) {
	w.read(ctx, document, new(T))
}
