package lint

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// DefaultNamespace is where an object goes that names no namespace, if nobody says otherwise.
const DefaultNamespace = "default"

// Options say by what documents are judged.
type Options struct {
	// Profiles of the kinds; kinds without one get a bare profile.
	Profiles policy.Profiles
	// Scopes knows the cluster; nil means without one, so that only the documents themselves speak.
	Scopes Scopes
	// Namespace of documents that name none; empty means [DefaultNamespace].
	Namespace string
	// AnnotationsOnly is --native-ttl=off, where Scopes does not say it.
	AnnotationsOnly bool
	// Rules are the settings of the rules.
	Rules rules.Options
	// Access asks who may delete the object of a review; nil means that nobody is asked.
	Access func(ctx context.Context, review *rules.Request) (rules.Access, error)
}

// Result is what is to be said about one document.
type Result struct {
	Document *Document
	Object   Ref
	// Manifest is the object with what admission would fill in. It shares with the document what it has not changed.
	Manifest map[string]any
	Defaults []policy.Default
	Findings []Finding

	assigned []policy.Assignment
}

// Names of the rules that only this package has; the others are those of policy/rules.
const (
	// RuleReadable is broken by a document that cannot be read.
	RuleReadable = "readable-document"
	// RuleNamespace is broken by an object whose namespace neither the cluster nor the documents have.
	RuleNamespace = "known-namespace"
	// RuleFillable is broken by an object that takes no default because a parent field is no object.
	RuleFillable = "fillable"
)

// Lint judges documents that belong together, each as if it were created now. It fails where the cluster cannot be asked, or
// ctx ends.
func Lint(ctx context.Context, documents []*Document, options Options) ([]*Result, error) {
	if options.Profiles == nil {
		return nil, errors.New("lint: Profiles is nil: use policy.NewProfiles(policy.BuiltinProfiles()...)")
	}
	if options.Namespace == "" {
		options.Namespace = DefaultNamespace
	}
	world := learn(&options, documents)
	out := make([]*Result, 0, len(documents))
	for _, document := range documents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		result, err := world.judge(ctx, document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document.ref("").String(), err)
		}
		out = append(out, result)
	}
	return out, nil
}

// judge takes the steps of admission in their order: the defaults are filled in, and the rules look at what came of it.
func (w *world) judge(ctx context.Context, document *Document) (*Result, error) {
	facts := w.factsOf(document, document.Object)
	result := &Result{Document: document, Object: document.ref(facts.Namespace), Manifest: document.Object}
	request := rules.Request{Operation: rules.Create, Options: w.options.Rules}
	if document.Kind().GroupKind() == namespaceKind {
		request.Scope = &policy.Scope{}
	} else {
		scope, known, err := w.scopeOf(ctx, facts, document.Object)
		if err != nil {
			return nil, err
		}
		if !known {
			result.add(policy.Finding{Rule: RuleNamespace, Field: "metadata.namespace", Severity: policy.Warn,
				Message: fmt.Sprintf("namespace %q does not exist yet: its defaults and bounds are not known; send it along", facts.Namespace)})
		}
		result.fill(policy.Unfilled(facts, scope), scope)
		facts = w.factsOf(document, result.Manifest)
		effective := policy.Resolve(facts, scope)
		request.Scope, request.Effective = scope, &effective
	}
	request.Object, request.Facts = result.Manifest, facts
	if w.options.Access != nil {
		var err error
		if request.Access, err = w.options.Access(ctx, &request); err != nil {
			return nil, err
		}
	}
	decision := rules.Review(&request)
	result.Defaults = decision.Defaults
	for _, finding := range decision.Findings {
		result.add(finding)
	}
	return result, nil
}

// factsOf reads an object. One that may have a namespace and names none is created in that of the options.
func (w *world) factsOf(document *Document, object map[string]any) *policy.Facts {
	profile := w.profiles.For(document.Kind())
	facts := policy.FactsOfObject(profile, object)
	switch {
	case profile.ClusterScoped, document.Kind().GroupKind() == namespaceKind:
		facts.Namespace = ""
	case facts.Namespace == "":
		facts.Namespace = w.options.Namespace
	}
	return facts
}

// fill makes the defaults hold in a copy of the manifest, all or none.
func (r *Result) fill(facts *policy.Facts, scope *policy.Scope) {
	effective := policy.Resolve(facts, scope)
	assignments := policy.Defaults(facts, &effective, scope)
	if len(assignments) == 0 {
		return
	}
	manifest := runtime.DeepCopyJSON(r.Document.Object)
	for _, assignment := range assignments {
		if err := assign(manifest, assignment); err != nil {
			// Admission, too, lets such an object through as it is; the API server refuses it for its shape.
			r.add(policy.Finding{Rule: RuleFillable, Field: assignment.Path[:1].String(), Severity: policy.Warn,
				Message: "takes no default: " + err.Error()})
			return
		}
	}
	r.Manifest, r.assigned = manifest, assignments
}

func (r *Result) add(finding policy.Finding) {
	r.Findings = append(r.Findings, Finding{
		Object: r.Object, Finding: finding, File: r.Document.File, Line: r.Document.lineOf(finding.Field),
	})
}
