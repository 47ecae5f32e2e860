package notice

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
)

// ConditionPaused is the type of the condition on a Namespace, which is not Curfew's own kind.
const ConditionPaused corev1.NamespaceConditionType = policy.Prefix + "Paused"

// NamespaceClient reads and patches Namespaces.
type NamespaceClient interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Namespace, error)
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

// Write implements [Conditions]. Conditions are merged by type, so that no other is touched, into
// the state that was read: the namespace may be created again meanwhile. That a pause is over is
// written only where a condition says that there is one.
func (n Namespaces) Write(ctx context.Context, name string, condition metav1.Condition) error {
	live, err := n.Client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if condition.Status == metav1.ConditionFalse && !paused(live) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.NamespaceCondition{{
			Type: ConditionPaused, Status: corev1.ConditionStatus(condition.Status), LastTransitionTime: condition.LastTransitionTime,
			Reason: condition.Reason, Message: condition.Message,
		}}},
	})
	if err != nil {
		return err
	}
	_, err = n.Client.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return client.IgnoreNotFound(err)
}

// paused reports whether a namespace has the condition.
func paused(namespace *corev1.Namespace) bool {
	return slices.ContainsFunc(namespace.Status.Conditions, func(condition corev1.NamespaceCondition) bool {
		return condition.Type == ConditionPaused && condition.Status == corev1.ConditionTrue
	})
}

// Left implements [Conditions].
func (n Namespaces) Left(ctx context.Context) ([]string, error) {
	var out []string
	_, err := paging.Each(ctx, metav1.ListOptions{}, n.Client.List, func(page *corev1.NamespaceList) error {
		for i := range page.Items {
			if paused(&page.Items[i]) {
				out = append(out, page.Items[i].Name)
			}
		}
		return nil
	})
	return out, err
}

// All implements [Conditions].
func (n Namespaces) All() []string { return n.InUse() }
