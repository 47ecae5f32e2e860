package world

import (
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource that is served, in one version.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// Custom resources are stored as they are sent. Status: they have a status subresource.
	Custom, Status bool
	// Verbs are those that discovery shows.
	Verbs []string
}

// GroupVersionKind of the objects.
func (r *Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

var (
	allVerbs    = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	reviewVerbs = []string{"create"}
)

// builtin are the built-in resources that the world serves.
func builtin() []Resource {
	var out []Resource
	add := func(group, version string, namespaced bool, kinds map[string]string) {
		for resource, kind := range kinds {
			r := Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
				Kind: kind, Namespaced: namespaced, Verbs: allVerbs}
			r.Status = slices.Contains([]string{"Pod", "Job", "Namespace", "Node"}, kind)
			if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
				r.Verbs = reviewVerbs
			}
			out = append(out, r)
		}
	}
	add("", "v1", true, map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount", "events": "Event"})
	add("", "v1", false, map[string]string{"namespaces": "Namespace", "nodes": "Node"})
	add("batch", "v1", true, map[string]string{"jobs": "Job", "cronjobs": "CronJob"})
	add("events.k8s.io", "v1", true, map[string]string{"events": "Event"})
	add("coordination.k8s.io", "v1", true, map[string]string{"leases": "Lease"})
	add("rbac.authorization.k8s.io", "v1", true, map[string]string{"roles": "Role", "rolebindings": "RoleBinding"})
	add("rbac.authorization.k8s.io", "v1", false, map[string]string{
		"clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding"})
	add("apiregistration.k8s.io", "v1", false, map[string]string{"apiservices": "APIService"})
	add("apiextensions.k8s.io", "v1", false, map[string]string{"customresourcedefinitions": "CustomResourceDefinition"})
	add("admissionregistration.k8s.io", "v1", false, map[string]string{
		"mutatingwebhookconfigurations": "MutatingWebhookConfiguration", "validatingwebhookconfigurations": "ValidatingWebhookConfiguration"})
	add("authorization.k8s.io", "v1", false, map[string]string{
		"selfsubjectaccessreviews": "SelfSubjectAccessReview", "selfsubjectrulesreviews": "SelfSubjectRulesReview",
		"subjectaccessreviews": "SubjectAccessReview"})
	add("authentication.k8s.io", "v1", false, map[string]string{"selfsubjectreviews": "SelfSubjectReview"})
	slices.SortFunc(out, func(a, b Resource) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return out
}

// Define installs a CustomResourceDefinition and serves its kind.
func (w *World) Define(definition *apiextensionsv1.CustomResourceDefinition) {
	definition = definition.DeepCopy()
	version := &definition.Spec.Versions[0]
	w.Serve(Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural},
		Kind:                 definition.Spec.Names.Kind, Namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped, Verbs: allVerbs,
		Custom: true, Status: version.Subresources != nil && version.Subresources.Status != nil,
	})
	definition.Status.AcceptedNames, definition.Status.StoredVersions = definition.Spec.Names, []string{version.Name}
	for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		definition.Status.Conditions = append(definition.Status.Conditions,
			apiextensionsv1.CustomResourceDefinitionCondition{Type: condition, Status: apiextensionsv1.ConditionTrue})
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	if err == nil {
		_, err = w.Create("customresourcedefinitions.apiextensions.k8s.io", content)
	}
	if err != nil {
		w.t.Errorf("defining %s: %v", definition.Name, err)
	}
}

// groups is the discovery document of /apis.
func (w *World) groups() *metav1.APIGroupList {
	out := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, s := range w.order {
		if s.Group == "" || slices.ContainsFunc(out.Groups, func(g metav1.APIGroup) bool { return g.Name == s.Group }) {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: s.GroupVersion().String(), Version: s.Version}
		out.Groups = append(out.Groups, metav1.APIGroup{Name: s.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	return out
}

// resources is the discovery document of a group and version; nil if it is not served.
func (w *World) resources(groupVersion schema.GroupVersion) *metav1.APIResourceList {
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion.String()}
	for _, s := range w.order {
		if s.GroupVersion() != groupVersion {
			continue
		}
		out.APIResources = append(out.APIResources, metav1.APIResource{Name: s.Resource.Resource, Kind: s.Kind, Namespaced: s.Namespaced, Verbs: s.Verbs})
		if s.Status {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: s.Resource.Resource + "/status", Kind: s.Kind, Namespaced: s.Namespaced, Verbs: []string{"get", "patch", "update"}})
		}
	}
	if len(out.APIResources) == 0 {
		return nil
	}
	return out
}

// prepareCreate sets the fields that the API server sets, whatever is sent.
func prepareCreate(s *store, object *unstructured.Unstructured) {
	object.SetGeneration(0)
	if s.Status {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	fallback := func(value any, path ...string) {
		if _, ok, _ := unstructured.NestedFieldNoCopy(object.Object, path...); !ok {
			set(object, value, path...)
		}
	}
	switch s.Kind {
	case "Namespace":
		set(object, "Active", "status", "phase")
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = object.GetName()
		object.SetLabels(labels)
	case "Pod":
		set(object, "Pending", "status", "phase")
		fallback("Always", "spec", "restartPolicy")
		fallback(int64(30), "spec", "terminationGracePeriodSeconds")
	case "Job":
		set(object, map[string]any{}, "status")
		fallback(int64(1), "spec", "parallelism")
		fallback(int64(1), "spec", "completions")
		fallback(int64(6), "spec", "backoffLimit")
		fallback(false, "spec", "suspend")
		object.SetGeneration(1)
	}
	if s.Kind == "Lease" {
		fallback(map[string]any{}, "spec")
	}
	if s.Custom {
		object.SetGeneration(1)
	}
}

// prepareUpdate keeps what the endpoint does not change, and counts generations.
func prepareUpdate(s *store, subresource string, before, object *unstructured.Unstructured) {
	object.SetGeneration(before.GetGeneration())
	switch {
	case subresource == "status" && s.Custom:
		status, ok := object.Object["status"]
		object.Object = before.DeepCopy().Object
		delete(object.Object, "status")
		if ok {
			object.Object["status"] = status
		}
		return
	case subresource == "status":
		keep(before, object, "spec")
		if s.Kind == "Pod" {
			keep(before, object, "metadata", "ownerReferences")
		}
		return
	case s.Status:
		keep(before, object, "status")
	}
	if (s.Custom || s.Kind == "Job") && changed(s, before, object) {
		object.SetGeneration(before.GetGeneration() + 1)
	}
}

// changed reports whether anything but the metadata and, where it is a subresource, the status
// differs.
func changed(s *store, before, object *unstructured.Unstructured) bool {
	keys := []string{}
	for key := range before.Object {
		keys = append(keys, key)
	}
	for key := range object.Object {
		keys = append(keys, key)
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		return key != "metadata" && (key != "status" || !s.Status) && !reflect.DeepEqual(before.Object[key], object.Object[key])
	})
}
