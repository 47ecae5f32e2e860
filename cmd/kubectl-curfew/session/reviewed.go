package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
)

// Canary finds out whether the API server calls Curfew's webhook.
type Canary struct {
	Objects dynamic.Interface
	// Said are the warnings to requests of objects.
	Said *CollectedWarnings
	// Left are namespaces that an installation may leave out on purpose: of --protect, and
	// Curfew's.
	Left []string
}

// Reviewed reports whether the API server calls Curfew's webhook for objects of a namespace; where
// the answer is not Yes, why says so. A dry run creates a suspended Job whose TTL cannot be read:
// every installation sends that to the webhook, which warns of it or denies it. Anything else that
// refuses the Job may have done so first: the answer is Unknown then.
func (c *Canary) Reviewed(ctx context.Context, namespace string) (answer rules.Answer, why string, err error) {
	pods := map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "canary"}}}
	job := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"suspend": true, "template": map[string]any{"spec": pods}},
	}}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	job.SetGenerateName("curfew-canary-")
	job.SetAnnotations(map[string]string{wellknown.AnnotationTTL: "unreadable"})
	c.Said.Texts = nil
	jobs := c.Objects.Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(namespace)
	_, err = jobs.Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	text := strings.Join(c.Said.Texts, " ")
	if err != nil {
		text += err.Error()
	}
	const unknown = "whether the API server calls Curfew's webhook is not known: "
	refusal := apierrors.APIStatus(nil)
	switch {
	case strings.Contains(text, policy.AnnotationPath(wellknown.AnnotationTTL)):
		return rules.Yes, "", nil
	case err == nil && judging.Protects(c.Left, namespace):
		return rules.Unknown, fmt.Sprintf("%snamespace %q is protected or Curfew's own, which may be left out", unknown, namespace), nil
	case err == nil:
		return rules.No, fmt.Sprintf("the API server does not call Curfew's webhook for namespace %q", namespace), nil
	case errors.As(err, &refusal) && refusal.Status().Code < http.StatusInternalServerError:
		return rules.Unknown, unknown + console.OneLine(err.Error()), nil
	default:
		return rules.Unknown, "", fmt.Errorf("asking whether the API server calls Curfew's webhook: %w", err)
	}
}
