package discovery

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
)

// Resources returns the resources that discovery shows and that can be listed, read and deleted,
// each with its versions, the preferred one first.
func Resources(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []cleanup.Resource {
	var out []cleanup.Resource
	at := map[schema.GroupResource]int{}
	for _, group := range groups {
		for _, text := range versionsOf(group) {
			version, err := schema.ParseGroupVersion(text)
			list := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == text })
			if err != nil || list < 0 {
				continue
			}
			for i := range lists[list].APIResources {
				resource := &lists[list].APIResources[i]
				name := schema.GroupResource{Group: version.Group, Resource: resource.Name}
				if strings.Contains(resource.Name, "/") || duplicates[name] || !cleanable(resource.Verbs) {
					continue
				}
				if known, ok := at[name]; ok {
					out[known].Versions = append(out[known].Versions, version.Version)
					continue
				}
				at[name] = len(out)
				out = append(out, cleanup.Resource{GroupResource: name, Kind: resource.Kind, Namespaced: resource.Namespaced, Versions: []string{version.Version}})
			}
		}
	}
	return out
}

func cleanable(verbs metav1.Verbs) bool {
	for _, verb := range []string{"list", "get", "delete"} {
		if !slices.Contains(verbs, verb) {
			return false
		}
	}
	return true
}
