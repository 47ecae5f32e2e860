package notice

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
)

// ConditionPaused is the type of the condition on a Namespace, which is not Curfew's own kind.
const ConditionPaused corev1.NamespaceConditionType = policy.Prefix + "Paused"

// NamespaceClient reads and patches Namespaces.
type NamespaceClient interface {
	List(ctx context.Context, options metav1.ListOptions) (*corev1.NamespaceList, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*corev1.Namespace, error)
}

// Namespaces writes conditions in the status of Namespaces. Only the namespace controller writes
// there, too, while a namespace terminates, and it keeps conditions that it does not know.
type Namespaces struct {
	Client NamespaceClient
	// InUse returns the namespaces that use Curfew.
	InUse func() []string
}

// Write implements [Conditions]. Conditions are merged by type, so that no other is touched.
func (n Namespaces) Write(ctx context.Context, name string, condition metav1.Condition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NamespaceCondition{{
		Type: ConditionPaused, Status: corev1.ConditionStatus(condition.Status), LastTransitionTime: condition.LastTransitionTime,
		Reason: condition.Reason, Message: condition.Message,
	}}}})
	if err != nil {
		return err
	}
	_, err = n.Client.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Left implements [Conditions].
func (n Namespaces) Left(ctx context.Context) ([]string, error) {
	options := metav1.ListOptions{Limit: 500}
	var out []string
	for {
		page, err := n.Client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			for _, condition := range page.Items[i].Status.Conditions {
				if condition.Type == ConditionPaused && condition.Status == corev1.ConditionTrue {
					out = append(out, page.Items[i].Name)
				}
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// All implements [Conditions].
func (n Namespaces) All() []string { return n.InUse() }
