package builders

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Patcher applies status patches to a source, with the preconditions of the API server.
type Patcher struct {
	*Source
	sync.Mutex
	Patches []string
}

// Patch implements a client.
func (p *Patcher) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	p.Lock()
	p.Patches = append(p.Patches, strings.Join(subresources, "/")+" "+string(data))
	p.Unlock()
	var patch struct {
		Metadata struct{ UID, ResourceVersion string }
		Status   map[string]any
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	object := p.Get(name)
	if string(object.GetUID()) != patch.Metadata.UID || object.GetResourceVersion() != patch.Metadata.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{}, name, nil)
	}
	object.Object["status"] = patch.Status
	p.Put(object)
	return object, nil
}
