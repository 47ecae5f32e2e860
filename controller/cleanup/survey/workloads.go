package survey

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
)

// workload is a kind with pod templates, or with fields that name claims. Workloads that are
// scaled to zero, suspended or between two runs count: their next Pod wants its data back.
type workload struct {
	schema.GroupVersionResource
	namespaced bool
	templates  []fieldpath.FieldPath
	claims     []policy.Reference
	// anywhere: the installed kind lacks one of the templates, so that each string may name a claim.
	anywhere bool
}

// claimsOf are the fields of a kind that name claims.
func claimsOf(profile *policy.Profile) (out []policy.Reference) {
	for _, reference := range profile.References {
		if reference.Kind == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
			out = append(out, reference)
		}
	}
	return out
}

// workloadsOf are the served kinds whose profiles have pod templates or name claims. It is an error
// if one of them may be served by an API group that does not answer, or is served in other versions
// than the one whose fields its profile knows, or without a field that names a claim. It is none if
// the kind lacks a pod template: profiles that come with Curfew name some of newer versions.
func workloadsOf(snapshot *platform.Snapshot, served []cleanup.Resource, failed error) ([]workload, error) {
	silent := cleanup.SilentGroups(nil)
	if failed != nil && !errors.As(failed, &silent) {
		return nil, fmt.Errorf("looking up what mounts a volume: %w", failed)
	}
	for kind, profile := range snapshot.Profiles {
		if len(profile.PodTemplates)+len(claimsOf(profile)) > 0 && slices.Contains(silent, kind.Group) {
			return nil, fmt.Errorf("looking up what mounts a volume: %w", silent)
		}
	}
	var out []workload
	for i := range served {
		kind := schema.GroupKind{Group: served[i].Group, Kind: served[i].Kind}
		profile := snapshot.Profiles[kind]
		if profile == nil || len(profile.PodTemplates)+len(claimsOf(profile)) == 0 {
			continue
		}
		version := profile.Kind.Version
		if !slices.Contains(served[i].Versions, version) {
			return nil, fmt.Errorf("looking up what mounts a volume: %s is not served in version %s, which its KindProfile describes",
				served[i].GroupResource, version)
		}
		compiled, definition := snapshot.Compiled(kind), snapshot.Definition(kind)
		if missing := compiled.Missing(definition).ToAggregate(); missing != nil {
			return nil, fmt.Errorf("looking up what mounts a volume: KindProfile %s: %w", profile.Name, missing)
		}
		out = append(out, workload{
			served[i].WithVersion(version), served[i].Namespaced, profile.PodTemplates, claimsOf(profile), compiled.LacksTemplates(definition),
		})
	}
	return out, nil
}
