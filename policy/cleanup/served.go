package cleanup

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Duplicates are kinds that show the objects of another kind, which is watched instead.
var Duplicates = map[schema.GroupResource]bool{
	{Group: "events.k8s.io", Resource: "events"}:          true, // the events of the core group
	{Group: "project.openshift.io", Resource: "projects"}: true, // Namespaces, which --protect and their own mode apply to
}

// Each calls f for each resource that discovery shows in each of its versions, the preferred one
// first. It leaves out subresources and [Duplicates].
func Each(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, f func(schema.GroupVersion, *metav1.APIResource)) {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	for _, group := range groups {
		versions := append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...)
		for i, discovery := range versions {
			version, err := schema.ParseGroupVersion(discovery.GroupVersion)
			list := byVersion[discovery.GroupVersion]
			if err != nil || list == nil || i > 0 && discovery.GroupVersion == group.PreferredVersion.GroupVersion {
				continue
			}
			for i := range list.APIResources {
				resource := &list.APIResources[i]
				name := schema.GroupResource{Group: version.Group, Resource: resource.Name}
				if !strings.Contains(resource.Name, "/") && !Duplicates[name] {
					f(version, resource)
				}
			}
		}
	}
}

// Resources returns the resources that discovery shows, each with its versions, the preferred one
// first. A resource that can be listed, read and deleted in some versions has only these. Resources
// that cannot are kept: a workload that cannot be deleted still mounts its volumes. Each has
// in Listable all versions that can be listed: any may have a field that refers to an object.
func Resources(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []Resource {
	var out []Resource
	positions := map[schema.GroupResource]int{}
	Each(groups, lists, func(version schema.GroupVersion, resource *metav1.APIResource) {
		found := Resource{
			GroupResource: schema.GroupResource{Group: version.Group, Resource: resource.Name}, Kind: resource.Kind,
			Namespaced: resource.Namespaced, Versions: []string{version.Version}, Undeletable: !cleanable(resource.Verbs),
		}
		if slices.Contains(resource.Verbs, "list") {
			found.Listable = found.Versions
		}
		known, ok := positions[found.GroupResource]
		if !ok {
			positions[found.GroupResource] = len(out)
			out = append(out, found)
			return
		}
		all := &out[known]
		listable := append(all.Listable, found.Listable...)
		switch {
		case all.Undeletable == found.Undeletable:
			all.Versions = append(all.Versions, version.Version)
		case all.Undeletable:
			*all = found
		}
		all.Listable = listable
	})
	return out
}

func cleanable(verbs metav1.Verbs) bool {
	return sets.New(verbs...).HasAll("list", "get", "delete")
}
