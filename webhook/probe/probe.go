// Package probe finds out whether the API server calls Curfew's webhooks.
package probe

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/wellknown"
)

// Result is what two dry runs found that create a Namespace. Each webhook answers in its own way.
type Result struct {
	// Defaults and Validates report whether the API server called the webhook.
	Defaults, Validates bool
	// Refused is the API server's message if it refuses requests because it cannot call the webhook.
	Refused string
}

// Try asks the API server. Nothing is stored. It takes the verb create on namespaces.
func Try(ctx context.Context, namespaces dynamic.ResourceInterface) (Result, error) {
	filled, err := create(ctx, namespaces, "1h")
	switch {
	case uncalled(err):
		return Result{Refused: err.Error()}, nil
	case err != nil:
		return Result{}, fmt.Errorf("creating a namespace in a dry run: %w", err)
	}
	_, defaults := filled.GetLabels()[wellknown.LabelInUse]
	_, err = create(ctx, namespaces, "soon")
	if uncalled(err) { // Another replica may have been asked.
		return Result{Refused: err.Error()}, nil
	}
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if err != nil && !(refused && strings.Contains(err.Error(), wellknown.AnnotationDefaultTTL)) {
		return Result{}, fmt.Errorf("creating a namespace with a bad default in a dry run: %w", err)
	}
	return Result{Defaults: defaults, Validates: err != nil}, nil
}

// uncalled reports whether an error says that the API server cannot call a webhook of Curfew.
func uncalled(err error) bool {
	return err != nil && uncallable.MatchString(err.Error())
}

var uncallable = regexp.MustCompile(`failed calling webhook "[^"]*\.` + regexp.QuoteMeta(wellknown.Group) + `"`)

func create(ctx context.Context, namespaces dynamic.ResourceInterface, ttl string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetGenerateName("curfew-status-")
	object.SetAnnotations(map[string]string{wellknown.AnnotationDefaultTTL: ttl})
	return namespaces.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
