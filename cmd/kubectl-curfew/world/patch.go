package world

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const fieldManager = "kubectl-curfew"

// Patch sends a JSON merge patch for an object in exactly the state that was read. A conflict means
// that somebody else changed it.
func (w *World) Patch(ctx context.Context, kind Kind, object, patch map[string]any, dryRun bool) error {
	u := unstructured.Unstructured{Object: object}
	metadata, _ := patch["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"], metadata["resourceVersion"] = string(u.GetUID()), u.GetResourceVersion()
	sent := maps.Clone(patch)
	sent["metadata"] = metadata
	body, err := json.Marshal(sent)
	if err != nil {
		return fmt.Errorf("writing the patch of %s: %w", kind.Name(u.GetName()), err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = w.clients.Objects.Resource(kind.At()).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, body, options)
	return err
}

// Same reports whether two states belong to one object, and not to two of the same name.
func Same(a, b map[string]any) bool { return UIDOf(a) == UIDOf(b) }

// NamesOf are names of objects of a kind in a namespace, at most one page.
func (w *World) NamesOf(ctx context.Context, text, namespace string) ([]string, error) {
	kind, err := w.KindOf(text)
	if err != nil {
		return nil, err
	}
	if kind.ClusterScoped {
		namespace = ""
	}
	list, err := w.clients.Metadata.Resource(kind.At()).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out, nil
}

// UIDOf is the UID of an object.
func UIDOf(object map[string]any) types.UID {
	return (&unstructured.Unstructured{Object: object}).GetUID()
}
