package e2e

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
)

// customSpace is a kind without a Go type here, in the namespace of a test, which writes what the
// kind's own controller would write. The observer follows it.
type customSpace struct {
	*space
	kind     string
	resource schema.GroupVersionResource
	// subresources by which the status is written.
	subresources []string
}

func (s *space) ofKind(kind string, resource schema.GroupVersionResource, hasStatus bool) customSpace {
	s.Helper()
	s.follow(kind, resource)
	c := customSpace{s, kind, resource, nil}
	if hasStatus {
		c.subresources = []string{"status"}
	}
	return c
}

// try creates an object with a spec in YAML.
func (c customSpace) try(name, spec string, changes ...func(trained)) (*unstructured.Unstructured, error) {
	object := trained{"apiVersion": c.resource.GroupVersion().String(), "kind": c.kind, "metadata": map[string]any{"name": name}}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		return nil, err
	}
	object["spec"] = fields
	for _, change := range changes {
		change(object)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	sent := &unstructured.Unstructured{}
	if err := sent.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return c.objects(c.resource).Namespace(c.name).Create(c.ctx, sent, metav1.CreateOptions{})
}

func (c customSpace) create(name, spec string, changes ...func(trained)) *unstructured.Unstructured {
	c.Helper()
	created, err := c.try(name, spec, changes...)
	c.ok(err)
	return created
}

// tryStatus writes the status of an object, in YAML, through the subresource if the kind has it.
func (c customSpace) tryStatus(name, status string) error {
	data, err := yaml.YAMLToJSON([]byte(status))
	if err != nil {
		return err
	}
	_, err = c.objects(c.resource).Namespace(c.name).Patch(c.ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"status": %s}`, data), metav1.PatchOptions{}, c.subresources...)
	return err
}

func (c customSpace) status(name, status string) {
	c.Helper()
	c.ok(c.tryStatus(name, status))
}

// byOutcome annotates an object with a TTL for each outcome.
func byOutcome(succeeded, failed string) func(trained) {
	return func(o trained) {
		noted(wellknown.AnnotationTTLSucceeded, succeeded)(o)
		noted(wellknown.AnnotationTTLFailed, failed)(o)
	}
}
