package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
)

// Linter judges documents one by one. Documents that are context for others, such as Namespaces,
// are added first, so that more documents than fit into memory can be read twice and forgotten each
// time.
type Linter struct{ world *world }

// NewLinter checks the options.
func NewLinter(ctx context.Context, options Options) (*Linter, error) {
	if options.Source == nil {
		return nil, errors.New("lint: Source is nil: use platform.Offline")
	}
	if options.Now.IsZero() {
		return nil, errors.New("lint: Now is zero: labels are compared with it")
	}
	options.Namespace = cmp.Or(options.Namespace, DefaultNamespace)
	world, err := newWorld(ctx, &options)
	return &Linter{world}, err
}

// Add makes a document context for the others, if its kind can be context. All documents are added
// before any is judged, so that their order does not matter.
func (l *Linter) Add(ctx context.Context, document *Document) error {
	return l.world.add(ctx, document)
}

// Added ends the adding. If it returns true, pass all documents to AddRuntime: only the complete
// platform knows which of them are runtimes.
func (l *Linter) Added() (runtimes bool) { return l.world.added() }

// AddRuntime makes a runtime context for the documents that use it.
func (l *Linter) AddRuntime(document *Document) {
	if l.world.isRuntime(document.Kind().GroupKind()) {
		addRuntime(l.world, document)
	}
}

// Judge judges a document as if it were created now. It fails where the cluster cannot be asked, or
// ctx ends.
func (l *Linter) Judge(ctx context.Context, document *Document) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	result, err := l.world.judge(ctx, document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document.ref("").String(), err)
	}
	return result, nil
}

// Lint judges documents that belong together, each as if it were created now.
func Lint(ctx context.Context, documents []*Document, options Options) ([]*Result, error) {
	linter, err := linterFor(ctx, documents, options)
	if err != nil {
		return nil, err
	}
	out := make([]*Result, 0, len(documents))
	for _, document := range documents {
		result, err := linter.Judge(ctx, document)
		if err != nil {
			return nil, err
		}
		out = append(out, result)
	}
	return out, nil
}

// linterFor has the documents as context.
func linterFor(ctx context.Context, documents []*Document, options Options) (*Linter, error) {
	linter, err := NewLinter(ctx, options)
	if err != nil {
		return nil, err
	}
	for _, document := range documents {
		if err := linter.Add(ctx, document); err != nil {
			return nil, err
		}
	}
	if linter.Added() {
		for _, document := range documents {
			linter.AddRuntime(document)
		}
	}
	return linter, nil
}

// NewResult is a result for a document that another judge, such as the API server, has judged.
func NewResult(document *Document, namespace string, defaults []resolution.Default, findings []rules.Finding) *Result {
	result := &Result{Document: document, Object: document.ref(namespace), Manifest: document.Object, Defaults: defaults}
	for _, finding := range findings {
		result.add(finding)
	}
	result.sort()
	return result
}
