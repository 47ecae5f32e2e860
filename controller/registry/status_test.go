package registry

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
)

// patcher applies status patches to a source, with the precondition of the API server.
type patcher struct {
	*source
	mu      sync.Mutex
	patches []string
}

func (p *patcher) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	p.mu.Lock()
	p.patches = append(p.patches, strings.Join(subresources, "/")+" "+string(data))
	p.mu.Unlock()
	var patch struct {
		Metadata struct{ ResourceVersion string }
		Status   map[string]any
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	p.source.mu.Lock()
	object := p.objects[name].DeepCopy()
	p.source.mu.Unlock()
	if object.GetResourceVersion() != patch.Metadata.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{}, name, nil)
	}
	object.Object["status"] = patch.Status
	p.put(object)
	return object, nil
}

func lifecyclePolicy(ttl string, generation int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"defaults": map[string]any{"ttl": map[string]any{"expression": ttl}},
	}}}
	object.SetName("platform")
	object.SetUID("uid-1")
	object.SetGeneration(generation)
	return object
}

func TestPolicyStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patcher{source: newSource()}
		policies := NewPolicies(p.source, expression.NewCompiler(10), clock.RealClock{}, logr.Discard())
		policies.WriteStatus(p, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { policies.Run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		p.put(lifecyclePolicy(`"30s"`, 1))
		after(2 * time.Second)
		p.put(lifecyclePolicy(`objekt.name`, 2))
		after(2 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.patches) != 2 {
			t.Fatalf("%d patches, want one a generation:\n%s", len(p.patches), strings.Join(p.patches, "\n"))
		}
		for i, want := range []string{`"reason":"Accepted"`, `"reason":"InvalidExpression"`} {
			if patch := p.patches[i]; !strings.HasPrefix(patch, "status ") || !strings.Contains(patch, want) ||
				!strings.Contains(patch, `"defaultSince":"`) || !strings.Contains(patch, `"uid":"uid-1"`) {
				t.Errorf("patch %s\nwant %s, a default-since and the UID", patch, want)
			}
		}
	})
}
