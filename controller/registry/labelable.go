package registry

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labelable is a kind whose objects can go by a TTL label: it can be listed, watched and deleted.
type Labelable struct {
	Kind          schema.GroupVersionKind
	Resource      string
	ClusterScoped bool
	// Aggregated tells that another API server answers for the kind.
	Aggregated bool
}

func (l Labelable) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: l.Kind.Group, Resource: l.Resource}
}

// versionResource is what requests are sent to.
func (l Labelable) versionResource() schema.GroupVersionResource {
	return l.Kind.GroupVersion().WithResource(l.Resource)
}

// doubles are kinds that show the objects of another one. A deletion in one is a deletion in the other, so that one is watched.
var doubles = map[schema.GroupResource]bool{
	{Group: "events.k8s.io", Resource: "events"}:          true, // the events of the core group
	{Group: "project.openshift.io", Resource: "projects"}: true, // Namespaces, of which --protect and their own mode say which may go
}

// verbsOfALabel are what a kind has to have for its objects to go by a label.
var verbsOfALabel = []string{"list", "watch", "delete"}

// labelable are the kinds that discovery shows, each in the version that its group prefers among those that have what it takes,
// and those that lack it. Groups and versions for which skip is true are left out.
func labelable(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, skip func(schema.GroupVersion) bool) (kinds map[schema.GroupResource]Labelable, lacking []string) {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	kinds = map[schema.GroupResource]Labelable{}
	without := map[schema.GroupResource]bool{}
	for _, group := range groups {
		for _, text := range inOrder(group) {
			of, err := schema.ParseGroupVersion(text)
			list := byVersion[text]
			if err != nil || list == nil || skip(of) {
				continue
			}
			for i := range list.APIResources {
				resource := &list.APIResources[i]
				at := schema.GroupResource{Group: of.Group, Resource: resource.Name}
				if strings.Contains(resource.Name, "/") || doubles[at] {
					continue
				}
				if _, known := kinds[at]; known {
					continue
				}
				if lacks(resource.Verbs) {
					without[at] = true
					continue
				}
				delete(without, at)
				kinds[at] = Labelable{Kind: of.WithKind(resource.Kind), Resource: resource.Name, ClusterScoped: !resource.Namespaced}
			}
		}
	}
	for at := range without {
		lacking = append(lacking, at.String())
	}
	slices.Sort(lacking)
	return kinds, lacking
}

func lacks(verbs metav1.Verbs) bool {
	return slices.ContainsFunc(verbsOfALabel, func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// inOrder are the versions of a group, the preferred one first.
func inOrder(group *metav1.APIGroup) []string {
	out := []string{group.PreferredVersion.GroupVersion}
	for _, of := range group.Versions {
		if of.GroupVersion != group.PreferredVersion.GroupVersion {
			out = append(out, of.GroupVersion)
		}
	}
	return out
}

// Definitions are the kinds that CustomResourceDefinitions define, each in the version in which it is stored where that is served:
// reading it asks no conversion webhook, which may be broken.
func (r *Registry) Definitions() (map[schema.GroupResource]Labelable, error) {
	all, err := r.definitions.All()
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinitions: %w", err)
	}
	out := map[schema.GroupResource]Labelable{}
	for _, definition := range all {
		if of := definition.Preferred(); of != "" {
			kind := Labelable{Kind: definition.Kind.WithVersion(of), Resource: definition.Resource, ClusterScoped: definition.ClusterScoped}
			out[kind.groupResource()] = kind
		}
	}
	return out, nil
}

// group is what is read off an APIService: a version of a group that is served.
type group struct {
	schema.GroupVersion
	// custom tells that CustomResourceDefinitions are behind it: the API server keeps the APIService in step with them.
	custom bool
	// aggregated tells that requests are passed on to a Service, behind which is another API server.
	aggregated bool
	// available tells that it answers.
	available bool
}

const automanaged = "kube-aggregator.kubernetes.io/automanaged"

func readAPIService(object *unstructured.Unstructured) group {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(object.Object, "spec", field)
		return value
	}
	out := group{GroupVersion: schema.GroupVersion{Group: text("group"), Version: text("version")}}
	_, out.aggregated, _ = unstructured.NestedMap(object.Object, "spec", "service")
	out.custom = object.GetLabels()[automanaged] == "true"
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, _ := item.(map[string]any); condition["type"] == "Available" {
			out.available = condition["status"] == "True"
		}
	}
	return out
}
