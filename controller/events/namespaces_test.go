package events

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// oneNamespace is an API server with one Namespace, which something may change after it was read.
type oneNamespace struct {
	typedcorev1.NamespaceInterface
	live    *corev1.Namespace
	changed func(*corev1.Namespace)
	patches int
}

func (n *oneNamespace) Get(context.Context, string, metav1.GetOptions) (*corev1.Namespace, error) {
	read := n.live.DeepCopy()
	if n.changed != nil {
		n.changed(n.live)
	}
	return read, nil
}

func (n *oneNamespace) List(context.Context, metav1.ListOptions) (*corev1.NamespaceList, error) {
	return &corev1.NamespaceList{Items: []corev1.Namespace{*n.live}}, nil
}

func (n *oneNamespace) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Namespace, error) {
	var patch corev1.Namespace
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	n.patches++
	if patch.UID != "" && patch.UID != n.live.UID || patch.ResourceVersion != "" && patch.ResourceVersion != n.live.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, name, errors.New("it was changed"))
	}
	n.live.Status.Conditions = patch.Status.Conditions
	return n.live, nil
}

// A condition is written into the state that was read, or not at all: a namespace that was created
// again, or written by another controller, is read first.
func TestConditionOfANamespace(t *testing.T) {
	for name, test := range map[string]struct {
		changed          func(*corev1.Namespace)
		before, to, want metav1.ConditionStatus
		patches          int
	}{
		"a pause begins":             {to: metav1.ConditionTrue, want: metav1.ConditionTrue, patches: 1},
		"it ends":                    {before: metav1.ConditionTrue, to: metav1.ConditionFalse, want: metav1.ConditionFalse, patches: 1},
		"it ends in a new namespace": {to: metav1.ConditionFalse},
		"created again meanwhile":    {to: metav1.ConditionTrue, patches: 1, changed: func(n *corev1.Namespace) { n.UID, n.ResourceVersion = "new", "9" }},
		"changed meanwhile":          {to: metav1.ConditionTrue, patches: 1, changed: func(n *corev1.Namespace) { n.ResourceVersion = "9" }},
	} {
		t.Run(name, func(t *testing.T) {
			api := &oneNamespace{live: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ci", UID: "old", ResourceVersion: "1"}}, changed: test.changed}
			if test.before != "" {
				api.live.Status.Conditions = []corev1.NamespaceCondition{{Type: ConditionPaused, Status: corev1.ConditionStatus(test.before)}}
			}
			err := Namespaces{Client: api}.Write(t.Context(), "ci", metav1.Condition{Status: test.to})
			if apierrors.IsConflict(err) != (test.changed != nil) {
				t.Errorf("error %v, want a conflict: %t", err, test.changed != nil)
			}
			got := metav1.ConditionStatus("")
			if conditions := api.live.Status.Conditions; len(conditions) > 0 {
				got = metav1.ConditionStatus(conditions[0].Status)
			}
			if got != test.want || api.patches != test.patches {
				t.Errorf("the condition is %q after %d patches, want %q after %d", got, api.patches, test.want, test.patches)
			}
		})
	}
}
