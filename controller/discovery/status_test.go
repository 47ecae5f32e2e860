package discovery

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/test/builders"
)

// patcher applies status patches to a source, with the precondition of the API server.
type patcher struct{ *builders.Source }

func (p *patcher) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	object, patch := p.Get(name), &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &patch.Object); err != nil {
		return nil, err
	}
	if object.GetResourceVersion() != patch.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, name, nil)
	}
	object.Object["status"] = patch.Object["status"]
	p.Put(object)
	return object, nil
}

// A KindProfile says whether its kind is there, as it says it, and notices when that changes.
func TestProfileStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *patcher
		c, _ := begin(t, func(c *profiled, _ *Profiles) {
			p = &patcher{c.profiles}
			c.platform.Profiles.WriteStatus(p, nil, nil)
			go func() { _ = c.platform.Profiles.WriteStatuses(t.Context()) }()
		})
		profile := func(name, group, finished string) *unstructured.Unstructured {
			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"kind":  map[string]any{"group": group, "version": "v1", "kind": "Render", "resource": "renders"},
				"state": map[string]any{"finished": finished, "finishTime": "null", "outcome": `"Failed"`},
			}}}
			object.SetName(name)
			object.SetGeneration(1)
			return object
		}
		expect := func(name, reason, message string) {
			t.Helper()
			after(2 * time.Second)
			data, err := json.Marshal(c.profiles.Get(name).Object["status"])
			must(t, err)
			if !strings.Contains(string(data), `"reason":"`+reason+`"`) || !strings.Contains(string(data), message) {
				t.Errorf("%s: the status is %s\nwant %s: %s", name, data, reason, message)
			}
		}
		c.profiles.Put(profile("renders", "example.com", "true"))
		c.profiles.Put(profile("builtin", "apps", "true"))
		c.profiles.Put(profile("broken", "other.example.com", "objekt"))
		expect("renders", "KindNotServed", "spec.kind: no CustomResourceDefinition serves Render.example.com: install it, or correct group and kind")
		expect("builtin", "Accepted", "everything can be used")
		expect("broken", "InvalidExpression", "spec.state.finished: line 1, column 1: undeclared reference")
		c.definitions.Put(definition("example.com", "v1beta1", "Render", "renders", 1))
		expect("renders", "KindNotServed", "spec.kind: Render.example.com is served, and not as resource renders of version v1 in scope Namespaced: correct these")
		c.definitions.Put(definition("example.com", "v1", "Render", "renders", 2))
		expect("renders", "Accepted", "everything can be used")
		// A profile that has Curfew mark objects needs a status subresource.
		marking, without := profile("renders", "example.com", "true"), definition("example.com", "v1", "Render", "renders", 3)
		marking.SetGeneration(2)
		marking.Object["spec"].(map[string]any)["deadline"] = map[string]any{"enforcement": []any{map[string]any{"by": "Curfew", "stop": []any{map[string]any{"action": "MarkFailed"}}}}}
		delete(without.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any), "subresources")
		c.profiles.Put(marking)
		expect("renders", "Accepted", "everything can be used")
		c.definitions.Put(without)
		expect("renders", "NoStatusSubresource", "MarkFailed needs a status subresource, which Render.example.com has not in version v1")
		c.definitions.Put(definition("example.com", "v1", "Render", "renders", 4))
		expect("renders", "Accepted", "everything can be used")
		c.definitions.Remove("renders.example.com")
		expect("renders", "KindNotServed", "no CustomResourceDefinition")
	})
}
