package profiles

import (
	"embed"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

//go:generate go run ./generate

//go:embed *.yaml
var files embed.FS

const kustomization = "kustomization.yaml"

// Typed returns the profiles of kinds that are built into Kubernetes.
func Typed(all []*v1alpha1.KindProfile) []*v1alpha1.KindProfile {
	return slices.DeleteFunc(slices.Clone(all), func(profile *v1alpha1.KindProfile) bool {
		return !slices.ContainsFunc(policy.BuiltinProfiles(), func(builtin *policy.Profile) bool {
			return builtin.Kind.Group == profile.Spec.Kind.Group && builtin.Kind.Kind == profile.Spec.Kind.Kind
		})
	})
}

// All decodes every profile, strictly and in the order of the file names.
func All() ([]*v1alpha1.KindProfile, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("listing built-in profiles: %w", err)
	}
	var out []*v1alpha1.KindProfile
	for _, entry := range entries {
		if entry.Name() == kustomization {
			continue
		}
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading built-in profile %s: %w", entry.Name(), err)
		}
		profile := &v1alpha1.KindProfile{}
		if err := yaml.UnmarshalStrict(text, profile); err != nil {
			return nil, fmt.Errorf("reading built-in profile %s: %w", entry.Name(), err)
		}
		out = append(out, profile)
	}
	return out, nil
}
