package survey

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/fieldpath"
)

// workload is a kind with pod templates. Workloads that are scaled to zero, suspended or between
// two runs count: their next Pod wants its data back.
type workload struct {
	schema.GroupVersionResource
	namespaced bool
	templates  []fieldpath.FieldPath
}

// workloadsOf are the kinds of the profiles that have pod templates and are served. It is an error
// if one of them may be served by an API group that does not answer, or is served in other versions
// than the one whose fields its profile knows.
func workloadsOf(profiles policy.Profiles, served []cleanup.Resource, failed error) ([]workload, error) {
	silent := cleanup.SilentGroups(nil)
	if failed != nil && !errors.As(failed, &silent) {
		return nil, fmt.Errorf("looking up what mounts a volume: %w", failed)
	}
	for kind, profile := range profiles {
		if len(profile.PodTemplates) > 0 && slices.Contains(silent, kind.Group) {
			return nil, fmt.Errorf("looking up what mounts a volume: %w", silent)
		}
	}
	var out []workload
	for i := range served {
		profile := profiles[schema.GroupKind{Group: served[i].Group, Kind: served[i].Kind}]
		if profile == nil || len(profile.PodTemplates) == 0 {
			continue
		}
		version := profile.Kind.Version
		if !slices.Contains(served[i].Versions, version) {
			return nil, fmt.Errorf("looking up what mounts a volume: %s is not served in version %s, which its KindProfile describes", served[i].GroupResource, version)
		}
		out = append(out, workload{served[i].WithVersion(version), served[i].Namespaced, profile.PodTemplates})
	}
	return out, nil
}
