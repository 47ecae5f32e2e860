package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// NewLinter checks the options.
func NewLinter(ctx context.Context, options Options) (*Linter, error) {
	if options.Source == nil {
		return nil, errors.New("lint: Source is nil: use platform.Offline")
	}
	if options.Now.IsZero() {
		return nil, errors.New("lint: Now is zero: labels are compared with it")
	}
	options.Namespace = cmp.Or(options.Namespace, DefaultNamespace)
	return newLinter(ctx, &options)
}

// AddRuntime makes a runtime context for the documents that use it.
func (w *Linter) AddRuntime(document *Document) {
	if w.isRuntime(document.Kind().GroupKind()) {
		addRuntime(w, document)
	}
}

// Judge judges a document as if it were created now. It fails where the cluster cannot be asked, or
// ctx ends.
func (w *Linter) Judge(ctx context.Context, document *Document) (*Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	result, err := w.judge(ctx, document)
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

// DefaultNamespace is the namespace of objects that name none, unless Options set another.
const DefaultNamespace = "default"

// Options hold the profiles, policies and settings by which documents are judged.
type Options struct {
	// Source is the context besides the documents. With [platform.Offline] only the documents have
	// namespaces and runtimes.
	Source platform.Source
	// Schemas of Curfew's own kinds; nil means that no schema is checked.
	Schemas *Schemas
	// Namespace of documents that name none; empty means [DefaultNamespace].
	Namespace string
	// Now is the instant at which the documents would be created.
	Now time.Time
	// AnnotationsOnly is --native-ttl=off.
	AnnotationsOnly bool
	// CleanupInterval is --cleanup-min-interval; zero means that it is not checked.
	CleanupInterval time.Duration
	// Rules are the settings of the rules.
	Rules rules.Options
	// Access asks who may delete the object of a review; nil means that it is not asked.
	Access func(ctx context.Context, review *rules.Request) (rules.Access, error)
	// MaxPlatform is how many policies and profiles there may be among the documents; zero means no
	// bound. More of them is a [*LimitError].
	MaxPlatform int
}

// Result holds the findings about one document.
type Result struct {
	Document *Document
	Object   Ref
	// Manifest is the object with its defaults. It shares unchanged parts with the document.
	Manifest map[string]any
	Defaults []resolution.Default
	Findings []Finding

	assigned []resolution.Assignment
}

// Names of the rules that policy/rules does not have.
const (
	// RuleReadable is broken by a document that cannot be read.
	RuleReadable = "readable-document"
	// RuleSchema is broken by an object of a Curfew kind that does not fit its schema, and by a key
	// of Curfew's whose value is no string.
	RuleSchema = "schema"
	// RuleEvaluates is broken by a policy that cannot be evaluated for an object.
	RuleEvaluates = "policy-evaluates"
	// RuleNamespace is broken by an object whose namespace is not known and would matter.
	RuleNamespace = "known-namespace"
	// RuleFillable is broken by an object that takes no default because a parent field is no object.
	RuleFillable = "fillable"
)

// judge takes the steps of admission in order: it fills in defaults, and asks the rules about the
// result.
func (w *Linter) judge(ctx context.Context, document *Document) (*Result, error) {
	facts := w.factsOf(ctx, document, document.Object)
	result := &Result{Document: document, Object: document.ref(facts.Namespace), Manifest: document.Object}
	for _, finding := range slices.Concat(w.about[placeOf(document)], notStrings(document.Object)) {
		result.add(finding)
	}
	kind := document.Kind().GroupKind()
	if kind == policyKind || kind == profileKind {
		result.sort()
		return result, nil // Objects of Curfew's own kinds have no TTL.
	}
	found, err := platform.ContextOf(ctx, source{w, kind}, platform.Whole(facts, document.Object))
	if err != nil {
		return nil, err
	}
	request := rules.Request{Operation: rules.Create, Options: w.options.Rules, Now: w.options.Now, Scope: &found.Scope}
	if kind == namespaceKind {
		request.Outer = func(namespace *resolution.NamespacePolicy) []*resolution.PlatformPolicy {
			return w.platform.Bounding(asServed(namespace))
		}
	} else {
		if found.NamespaceUnknown {
			w.warnUnknown(result, facts)
		}
		found.Creating, found.AnnotationsOnly, found.Off = true, w.options.AnnotationsOnly, w.options.Rules.Controller.Off
		found.Protected = judging.Protects(w.options.Rules.Controller.Protect, facts.Namespace)
		result.fill(facts, request.Scope, w.options.Now)
		facts = w.factsOf(ctx, document, result.Manifest)
		effective := resolution.Resolve(facts, request.Scope)
		request.Effective, request.Outer, request.Below = &effective, w.platform.BoundingUsers(facts.Profile), w.platform.BoundingKind
	}
	request.Object, request.Facts = result.Manifest, facts
	if w.options.Access != nil {
		if request.Access, err = w.options.Access(ctx, &request); err != nil {
			return nil, err
		}
	}
	decision := rules.Review(&request)
	result.Defaults = decision.Defaults
	for _, finding := range decision.Findings {
		result.add(finding)
	}
	result.addFailures(found.Failures)
	result.sort()
	return result, nil
}

// warnUnknown warns about an unknown namespace if it matters: in a cluster, or to a policy that
// uses it.
func (w *Linter) warnUnknown(result *Result, facts *policy.Facts) {
	finding := rules.Finding{Rule: RuleNamespace, Field: "metadata.namespace", Severity: rules.Warn}
	why := ""
	switch err := w.namespaces[facts.Namespace].err; {
	case errors.Is(err, ErrNotReadable):
		why = "cannot be read with your permissions"
	case apierrors.IsNotFound(err):
		why = "does not exist yet"
	}
	if why != "" {
		finding.Message = fmt.Sprintf("namespace %q %s: its defaults and bounds are not known; send it along", facts.Namespace, why)
		result.add(finding)
		return
	}
	for _, asking := range w.platform.Concerning(facts.Profile.Kind.GroupKind()) {
		if asking.AsksNamespace() {
			finding.Message = fmt.Sprintf("namespace %q is not among the manifests, and policy %q asks about it: send it along", facts.Namespace,
				asking.Name)
			result.add(finding)
			return
		}
	}
}

// addFailures adds the policies that could not be evaluated, as far as no finding says so.
func (r *Result) addFailures(failures []error) {
	for _, err := range failures {
		if !slices.ContainsFunc(r.Findings, func(finding Finding) bool { return mentions(finding.Message, err) }) {
			r.add(rules.Finding{Rule: RuleEvaluates, Severity: rules.Warn,
				Message: err.Error() + "; the object gets nothing from it, and is kept"})
		}
	}
}

// mentions reports whether a message already names a failure: its policy, field and reason, in any
// order. Two fields of a policy can fail for the same reason, and both must be reported.
func mentions(message string, failure error) bool {
	policyError := (*expression.PolicyError)(nil)
	if !errors.As(failure, &policyError) {
		return strings.Contains(message, failure.Error())
	}
	parts := []string{fmt.Sprintf("policy %q", policyError.Policy)}
	if why := errors.Unwrap(policyError.Err); why != nil && strings.HasSuffix(policyError.Err.Error(), ": "+why.Error()) {
		parts = append(parts, strings.TrimSuffix(policyError.Err.Error(), ": "+why.Error()), why.Error())
	} else {
		parts = append(parts, policyError.Err.Error())
	}
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(message, part) })
}

// factsOf reads an object. A namespaced object without a namespace gets that of the options.
func (w *Linter) factsOf(ctx context.Context, document *Document, object map[string]any) *policy.Facts {
	profile := w.platform.Profiles.For(document.Kind())
	facts := policy.FactsOfObjectContext(ctx, profile, object)
	switch {
	case w.outsideOfNamespaces(profile):
		facts.Namespace = ""
	case facts.Namespace == "":
		facts.Namespace = w.options.Namespace
	}
	return facts
}

// fill makes the defaults hold in a copy of the manifest, all or none.
func (r *Result) fill(facts *policy.Facts, scope *resolution.Scope, now time.Time) {
	assignments, _ := resolution.FillIn(facts, scope, now)
	if len(assignments) == 0 {
		return
	}
	manifest := runtime.DeepCopyJSON(r.Document.Object)
	for _, assignment := range assignments {
		if err := assign(manifest, assignment); err != nil {
			// Admission, too, lets such an object through as it is; the API server refuses it for its shape.
			r.add(rules.Finding{Rule: RuleFillable, Field: assignment.Path[:1].String(), Severity: rules.Warn,
				Message: "takes no default: " + err.Error()})
			return
		}
	}
	r.Manifest, r.assigned = manifest, assignments
}

func (r *Result) add(finding rules.Finding) {
	r.Findings = append(r.Findings, Finding{
		Object: r.Object, Finding: finding, File: r.Document.File, Line: r.Document.lineOfFinding(finding.Field, finding.Message),
	})
}

// sort puts findings in the order in which an author meets them.
func (r *Result) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
}

// Explain explains a document as if it were created now: which level decides each value, and which
// defaults the object would get. The label comes from the document, or is a default. It returns
// false if the namespace is not known, so that its settings may change the answer.
func (w *Linter) Explain(ctx context.Context, document *Document) (*judging.Explanation, bool, error) {
	options := w.options
	object := maps.Clone(document.Object)
	delete(object, "status") // A create takes none.
	facts := w.factsOf(ctx, document, object)
	facts.Created, facts.Deleting = options.Now, false
	found, err := platform.ContextOf(ctx, source{w, document.Kind().GroupKind()}, platform.Whole(facts, object))
	if err != nil {
		return nil, false, err
	}
	scope := &found.Scope
	scope.Creating, scope.AnnotationsOnly, scope.Off = true, options.AnnotationsOnly, options.Rules.Controller.Off
	scope.Protected = judging.Protects(options.Rules.Controller.Protect, facts.Namespace)
	out := judging.Explain(facts, scope, judging.Question{Now: options.Now, Alias: options.Rules.KyvernoLabel})
	if label, setting := resolution.DefaultLabel(facts, scope, options.Now); label != "" {
		labelled := *facts
		labelled.Labels = map[string]string{wellknown.LabelTTL: label}
		maps.Copy(labelled.Labels, facts.Labels)
		explanation := judging.Explain(&labelled, scope, judging.Question{Now: options.Now})
		out.Facts, out.LabelKey, out.ByLabel = &labelled, explanation.LabelKey, explanation.ByLabel
		out.ByLabel.Source = setting.Source
	}
	return out, !found.NamespaceUnknown, nil
}

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// addNamespace applies a Namespace to the objects of the other documents. Of two with the same name
// the later one counts, as after applying both.
func addNamespace(_ context.Context, w *Linter, document *Document) {
	facts := policy.FactsOfObject(&policy.Profile{Kind: document.Kind()}, document.Object)
	w.namespaces[facts.Name] = namespaceAnswer{policy: asServed(resolution.ParseNamespace(facts.Name, facts.Annotations, facts.Labels))}
}

// asServed adds the label with the name, as the API server does.
func asServed(namespace *resolution.NamespacePolicy) *resolution.NamespacePolicy {
	out := *namespace
	out.Labels = map[string]string{}
	maps.Copy(out.Labels, namespace.Labels)
	out.Labels[corev1.LabelMetadataName] = namespace.Name
	return &out
}

// addRuntime applies a runtime to the objects that use it.
func addRuntime(w *Linter, document *Document) {
	facts := w.factsOf(context.Background(), document, document.Object)
	w.runtimes[runtimeKey{document.Kind().GroupKind(), facts.Namespace, facts.Name}] = runtimeAnswer{object: document.Object, posted: true}
}

var tallyKind = schema.GroupKind{Group: wellknown.Group, Kind: "PodTally"}

// addTally checks a PodTally by itself, without the bounds and the PodTallies of its namespace.
func addTally(ctx context.Context, w *Linter, document *Document) {
	object := &v1alpha1.PodTally{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := tally.Compile(object)
	w.compiled(document, errs)
	for _, finding := range rules.ReviewTally(&rules.TallyRequest{Tally: compiled, Options: w.options.Rules}).Findings {
		w.find(document, finding)
	}
}
