package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/webhook/lint"
)

// readOverlay reads the policies and profiles of --with. What else is in the files is refused: it would not count.
func readOverlay(files []string) (overlay, error) {
	var out overlay
	if len(files) == 0 {
		return out, nil
	}
	sources, err := readSources(files, false, strings.NewReader(""))
	if err != nil {
		return out, fmt.Errorf("--with: %w", err)
	}
	for _, source := range sources {
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return out, fmt.Errorf("--with: %w", errs[0])
		}
		for _, document := range documents {
			object := unstructured.Unstructured{Object: document.Object}
			if err := out.take(&object); err != nil {
				return out, fmt.Errorf("--with=%s: document %d: %w", source.Name, document.Index, err)
			}
		}
	}
	return out, nil
}

func (o *overlay) take(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind().GroupKind()
	switch {
	case kind.Group == policy.Group && kind.Kind == "LifecyclePolicy":
		into := &v1alpha1.LifecyclePolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			return err
		}
		o.policies = append(o.policies, into)
	case kind.Group == policy.Group && kind.Kind == "KindProfile":
		into := &v1alpha1.KindProfile{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			return err
		}
		o.profiles = append(o.profiles, into)
	default:
		return fmt.Errorf("a %s does not count here: give LifecyclePolicies and KindProfiles", object.GetKind())
	}
	return nil
}
