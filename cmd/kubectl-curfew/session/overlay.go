package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Builtin returns the built-in profiles, and the schemas of Curfew's own kinds.
func Builtin() (*platform.Snapshot, *lint.Schemas, error) {
	all, err := profiles.All()
	if err != nil {
		return nil, nil, err
	}
	platform, err := platform.New(all)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := crd.All()
	if err != nil {
		return nil, nil, err
	}
	schemas, err := lint.NewSchemas(definitions)
	return platform.Snapshot(), schemas, err
}

// AddAll makes all manifests context for each other.
func AddAll(ctx context.Context, linter *lint.Linter, from *folders.Manifests, progress *console.Progress) error {
	err := from.Each(ctx, progress, func(document *lint.Document) error { return linter.Add(ctx, document) })
	if err != nil || !linter.Added() {
		return err
	}
	return from.Each(ctx, progress, func(document *lint.Document) error {
		linter.AddRuntime(document)
		return nil
	})
}

// ReadOverlay reads the policies and profiles of --with as the API server would store them, and
// rejects what it would reject. Other kinds are an error, because they would have no effect.
func ReadOverlay(ctx context.Context, files []string) (Overlay, error) {
	var out Overlay
	if len(files) == 0 {
		return out, nil
	}
	if slices.Contains(files, "-") {
		return out, errors.New("--with=-: standard input cannot be used here: name a file or a directory")
	}
	sources, err := folders.ReadSources(files, strings.NewReader(""))
	if err != nil {
		return out, fmt.Errorf("--with=%s", strings.TrimPrefix(err.Error(), "-f ")) // as lint's flag is named
	}
	_, schemas, err := Builtin()
	if err != nil {
		return out, err
	}
	for _, source := range sources {
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return out, fmt.Errorf("--with: %w", errs[0])
		}
		for _, document := range documents {
			if err := out.take(ctx, schemas, &unstructured.Unstructured{Object: document.Object}); err != nil {
				return out, fmt.Errorf("--with=%s: document %d: %w", source.Name, document.Index, err)
			}
		}
	}
	return out, nil
}

func (o *Overlay) take(ctx context.Context, schemas *lint.Schemas, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	counts := kind.Group == wellknown.Group && (kind.Kind == "LifecyclePolicy" || kind.Kind == "KindProfile")
	if !counts {
		return fmt.Errorf("a %s of %s has no effect here: give LifecyclePolicies and KindProfiles of %s", kind.Kind, object.GetAPIVersion(), v1alpha1.GroupVersion)
	}
	stored, err := schemas.Stored(ctx, object.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	if kind.Kind == "KindProfile" {
		into := &v1alpha1.KindProfile{}
		o.profiles = append(o.profiles, into)
		return runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into)
	}
	into := &v1alpha1.LifecyclePolicy{}
	o.policies = append(o.policies, into)
	return runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into)
}
