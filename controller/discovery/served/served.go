// Package served reads discovery: which resources an API server serves, in which versions.
package served

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"curfew.dev/curfew/policy/cleanup"
)

// Duplicates are kinds that show the objects of another kind, which is watched instead.
var Duplicates = map[schema.GroupResource]bool{
	{Group: "events.k8s.io", Resource: "events"}:          true, // the events of the core group
	{Group: "project.openshift.io", Resource: "projects"}: true, // Namespaces, which --protect and their own mode apply to
}

// Versions returns the versions of a group, the preferred one first.
func Versions(group *metav1.APIGroup) []string {
	out := []string{group.PreferredVersion.GroupVersion}
	for _, of := range group.Versions {
		if of.GroupVersion != group.PreferredVersion.GroupVersion {
			out = append(out, of.GroupVersion)
		}
	}
	return out
}

// Resources returns the resources that discovery shows, each with its versions, the preferred one
// first. A resource that can be listed, read and deleted in some versions has only these. Resources
// that cannot are kept: a workload that cannot be deleted still mounts its volumes.
func Resources(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []cleanup.Resource {
	var out []cleanup.Resource
	at := map[schema.GroupResource]int{}
	for _, group := range groups {
		for _, text := range Versions(group) {
			version, err := schema.ParseGroupVersion(text)
			list := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == text })
			if err != nil || list < 0 {
				continue
			}
			for i := range lists[list].APIResources {
				resource := &lists[list].APIResources[i]
				name := schema.GroupResource{Group: version.Group, Resource: resource.Name}
				if strings.Contains(resource.Name, "/") || Duplicates[name] {
					continue
				}
				one := cleanup.Resource{
					GroupResource: name, Kind: resource.Kind, Namespaced: resource.Namespaced, Versions: []string{version.Version}, Undeletable: !cleanable(resource.Verbs),
				}
				known, ok := at[name]
				switch {
				case !ok:
					at[name] = len(out)
					out = append(out, one)
				case out[known].Undeletable == one.Undeletable:
					out[known].Versions = append(out[known].Versions, version.Version)
				case out[known].Undeletable:
					out[known] = one
				}
			}
		}
	}
	return out
}

func cleanable(verbs metav1.Verbs) bool {
	return sets.New(verbs...).HasAll("list", "get", "delete")
}
