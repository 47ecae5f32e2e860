package lint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
)

// ruleServer is the rule of what the API server says; lint.RuleNamespace that of what it cannot.
const ruleServer = "server"

// lintServer asks the API server about documents, by a server-side dry run.
type lintServer struct {
	session.Canary
	served    func() ([]*metav1.APIResourceList, error)
	namespace string
	// unreviewed are findings about namespaces whose objects Curfew may not see. They are asked for
	// once.
	unreviewed map[string][]rules.Finding
}

// asServer judges by the answers of the API server.
func (o *lintOptions) asServer(ctx context.Context) (judge, error) {
	namespace := o.namespace
	if namespace == "" {
		var err error
		if namespace, err = o.Connection.Namespace(); err != nil {
			return nil, err
		}
	}
	warnings := &session.CollectedWarnings{}
	clients, err := o.Connect(o.Config, warnings)
	if err != nil {
		return nil, err
	}
	settings, _ := world.Settings(ctx, clients, o.CurfewNamespace) // The defaults are known without an answer.
	server := &lintServer{namespace: namespace, unreviewed: map[string][]rules.Finding{}, Canary: session.Canary{
		Objects: clients.Objects, Said: warnings, Left: settings.Protect,
	}}
	server.served = sync.OnceValues(func() ([]*metav1.APIResourceList, error) {
		_, lists, err := clients.Discovery.ServerGroupsAndResources()
		return lists, err
	})
	return server.judge, nil
}

// notReviewed are findings about an object whose namespace the API server does not send to Curfew's
// webhook, so that no finding means nothing. For Namespaces and other cluster-scoped objects the
// namespace of the context is asked about: a Namespace of the manifests may not exist yet.
func (l *lintServer) notReviewed(ctx context.Context, namespace string) ([]rules.Finding, error) {
	if known, ok := l.unreviewed[namespace]; ok {
		return known, nil
	}
	answer, why, err := l.Reviewed(ctx, namespace)
	if err != nil {
		return nil, err
	}
	finding := rules.Finding{Rule: ruleServer, Severity: rules.Warn, Message: why}
	switch answer {
	case rules.Yes:
		l.unreviewed[namespace] = nil
		return nil, nil
	case rules.No:
		finding.Severity, finding.Message = rules.Deny, why+": not checked; kubectl curfew status shows why"
	}
	l.unreviewed[namespace] = []rules.Finding{finding}
	return l.unreviewed[namespace], nil
}

func (l *lintServer) judge(ctx context.Context, document *lint.Document) (*lint.Result, error) {
	kind := document.Kind()
	resource, err := l.resource(kind)
	if err != nil {
		return nil, fmt.Errorf("asking the API server which kinds it serves: %w", err)
	}
	if resource == nil {
		message := fmt.Sprintf("the cluster does not serve %s of %s: not checked; install its CustomResourceDefinition first",
			kind.Kind, kind.GroupVersion())
		return lint.NewResult(document, "", nil, []rules.Finding{{Rule: ruleServer, Field: "kind", Severity: rules.Warn, Message: message}}), nil
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(document.Object)}
	namespace := ""
	if resource.Namespaced {
		namespace = cmp.Or(object.GetNamespace(), l.namespace)
		object.SetNamespace(namespace)
	}
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	l.Said.Texts = nil
	err = l.dryRun(ctx, l.Objects.Resource(kind.GroupVersion().WithResource(resource.Name)).Namespace(namespace), object)
	findings, err := refusalBy(err)
	if err != nil {
		return nil, fmt.Errorf("asking the API server about %s %s: %w", kind.Kind, object.GetName(), err)
	}
	defaults, warnings := announced(l.Said.Texts)
	findings = append(findings, warnings...)
	if !slices.ContainsFunc(findings, func(f rules.Finding) bool { return f.Rule == lint.RuleNamespace }) {
		unreviewed, err := l.notReviewed(ctx, cmp.Or(namespace, l.namespace))
		if err != nil {
			return nil, err
		}
		findings = append(findings, unreviewed...)
	}
	return lint.NewResult(document, namespace, defaults, findings), nil
}

// resource returns the resource of a kind; nil where the API server does not serve it.
func (l *lintServer) resource(kind schema.GroupVersionKind) (*metav1.APIResource, error) {
	lists, err := l.served()
	for _, list := range lists {
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			if list.GroupVersion == kind.GroupVersion().String() && resource.Kind == kind.Kind && !strings.Contains(resource.Name, "/") {
				return resource, nil
			}
		}
	}
	return nil, err // A group that does not answer may serve it.
}

// dryRun applies an object, as if the manifest were the only owner of its fields. Nothing is
// stored.
func (l *lintServer) dryRun(ctx context.Context, resourceInterface dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	const manager = "kubectl-curfew-lint"
	if object.GetName() == "" {
		_, err := resourceInterface.Create(ctx, object, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: manager, FieldValidation: metav1.FieldValidationWarn,
		})
		return err
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	_, err = resourceInterface.Patch(ctx, object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: manager, Force: new(true), FieldValidation: metav1.FieldValidationWarn,
	})
	return err
}

// refusalBy turns the refusal of an object into findings. An error that is no answer about the
// object stays one.
func refusalBy(err error) ([]rules.Finding, error) {
	status := apierrors.APIStatus(nil)
	if err == nil || !errors.As(err, &status) {
		return nil, err
	}
	answer := status.Status()
	details := answer.Details
	switch {
	case strings.Contains(answer.Message, "failed to create typed patch object"):
		return untyped(answer.Message), nil
	case answer.Code >= http.StatusInternalServerError || answer.Code == http.StatusTooManyRequests || apierrors.IsUnauthorized(err):
		return nil, err
	case apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces":
		return []rules.Finding{{Rule: lint.RuleNamespace, Field: "metadata.namespace", Severity: rules.Warn,
			Message: fmt.Sprintf("namespace %q does not exist yet: not checked; create it first", details.Name)}}, nil
	}
	var out []rules.Finding
	if details != nil {
		for _, cause := range details.Causes {
			out = append(out, rules.Finding{Rule: ruleServer, Field: cause.Field, Severity: rules.Deny, Message: cause.Message})
		}
	}
	if len(out) == 0 {
		out = append(out, rules.Finding{Rule: ruleServer, Severity: rules.Deny, Message: answer.Message})
	}
	return out, nil
}

// untyped are findings about fields that are unknown, or not of their type. A server-side apply
// reports them as an internal error, one on each line if there are several.
func untyped(message string) (out []rules.Finding) {
	for _, found := range untypedField.FindAllStringSubmatch(message, -1) {
		finding := rules.Finding{Rule: ruleServer, Field: found[1], Severity: rules.Deny, Message: found[2]}
		if found[2] == "field not declared in schema" {
			finding.Message = "unknown field: remove it, or correct its name"
		}
		out = append(out, finding)
	}
	if len(out) == 0 {
		out = append(out, rules.Finding{Rule: ruleServer, Severity: rules.Deny, Message: message})
	}
	return out
}

var (
	untypedField   = regexp.MustCompile(`(?m)(?:^\s*|: )\.(\S+): (.+)$`)
	fieldInWarning = regexp.MustCompile(`^((?:metadata|spec)[.\[][^ ]*): (.*)$`)
	defaultWarning = regexp.MustCompile(`^(\S+) (defaulted|would be defaulted) to (.+) from (\w+) "([^"]+)"( \(dry-run\))?$`)
)

// announced tells the defaults that Curfew announces from the warnings of the API server.
func announced(texts []string) (defaults []resolution.Default, warnings []rules.Finding) {
	for _, text := range texts {
		text, ours := strings.CutPrefix(text, "curfew: ")
		if found := defaultWarning.FindStringSubmatch(text); ours && found != nil {
			source := lifetime.ParseSource(found[4] + "/" + found[5])
			defaults = append(defaults, resolution.Default{Field: found[1], Value: found[3], Source: source, DryRun: found[6] != ""})
			continue
		}
		if ours && strings.HasPrefix(text, rules.SeeHelp) {
			continue
		}
		finding := rules.Finding{Rule: ruleServer, Severity: rules.Warn, Message: text}
		if found := fieldInWarning.FindStringSubmatch(text); found != nil {
			finding.Field, finding.Message = found[1], found[2]
		}
		warnings = append(warnings, finding)
	}
	return defaults, warnings
}
