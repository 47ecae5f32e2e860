package harness

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// WaitForWebhook returns when the API server asks Curfew: a default is filled in and a bad value
// refused, in dry runs. The failure policy is Ignore, so nothing else shows it. The API server does
// not report when it has read a changed webhook configuration, so only repeated requests show it.
func (c *Cluster) WaitForWebhook(ctx context.Context) error {
	var missing string
	err := Poll(ctx, "the webhook to be asked", func(ctx context.Context) (bool, error) {
		var err error
		missing, err = c.probe(ctx)
		return missing == "", err
	})
	if err != nil {
		return fmt.Errorf("wait for the webhook to be asked (%s): %w", missing, err)
	}
	return nil
}

// probe says what does not work yet.
func (c *Cluster) probe(ctx context.Context) (missing string, err error) {
	filled, err := c.dryRunNamespace(ctx, "1h")
	if err != nil {
		return "", fmt.Errorf("create a namespace in a dry run: %w", err)
	}
	if filled.Labels[wellknown.LabelInUse] == "" {
		return "the mutating side does not answer", nil
	}
	switch _, err := c.dryRunNamespace(ctx, "soon"); {
	case err == nil:
		return "the validating side does not answer", nil
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		return "", fmt.Errorf("create a namespace with a bad value in a dry run: %w", err)
	}
	return "", nil
}

func (c *Cluster) dryRunNamespace(ctx context.Context, ttl string) (*corev1.Namespace, error) {
	return c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "curfew-probe", Annotations: map[string]string{wellknown.AnnotationDefaultTTL: ttl},
	}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
