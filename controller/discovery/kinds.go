package discovery

import (
	"context"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/cleanup"
)

// Kind is a kind that can be listed, watched and deleted, so that a TTL label on its objects can
// take effect.
type Kind struct {
	schema.GroupVersionKind
	Resource      string
	ClusterScoped bool
	// Aggregated means that another API server answers for the kind.
	Aggregated bool
}

// GroupResource is the resource in any version.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// VersionResource is what requests are sent to.
func (k Kind) VersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// requiredVerbs are what a kind has to support.
var requiredVerbs = []string{"list", "watch", "delete"}

// kindsOf returns the kinds that discovery shows, each in the version that its group prefers among
// the versions with the required verbs, and the kinds that have no such version. It leaves out
// groups and versions that skip rejects.
func kindsOf(
	groups []*metav1.APIGroup, lists []*metav1.APIResourceList, skip func(schema.GroupVersion) bool,
) (kinds map[schema.GroupResource]Kind, lacking []string) {
	kinds = map[schema.GroupResource]Kind{}
	without := map[string]bool{}
	cleanup.Each(groups, lists, func(version schema.GroupVersion, resource *metav1.APIResource) {
		groupResource := schema.GroupResource{Group: version.Group, Resource: resource.Name}
		if _, known := kinds[groupResource]; known || skip(version) {
			return
		}
		if lacksVerb(resource.Verbs) {
			without[groupResource.String()] = true
			return
		}
		delete(without, groupResource.String())
		kinds[groupResource] = Kind{GroupVersionKind: version.WithKind(resource.Kind), Resource: resource.Name, ClusterScoped: !resource.Namespaced}
	})
	return kinds, slices.Sorted(maps.Keys(without))
}

func lacksVerb(verbs metav1.Verbs) bool {
	return slices.ContainsFunc(requiredVerbs, func(verb string) bool { return !slices.Contains(verbs, verb) })
}

// service is the part of an APIService that is read: a version of a group that is served.
type service struct {
	schema.GroupVersion
	// custom means that CustomResourceDefinitions are behind it: the API server keeps the APIService
	// in step with them.
	custom bool
	// aggregated means that another API server answers.
	aggregated bool
	// available means that it does answer.
	available bool
}

const automanaged = "kube-aggregator.kubernetes.io/automanaged"

func readService(object *unstructured.Unstructured) service {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(object.Object, "spec", field)
		return value
	}
	out := service{GroupVersion: schema.GroupVersion{Group: text("group"), Version: text("version")}}
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

// followRoles follows the roles that are bound to Curfew, once it is known who it is. It returns
// false once ctx is done.
func (l *Labels) followRoles(ctx context.Context, group *sync.WaitGroup) bool {
	identity, ok := l.identity(ctx)
	if !ok {
		return false
	}
	l.bindings = permission.NewBindings(identity, l.Again)
	version := func(object *unstructured.Unstructured) string { return object.GetResourceVersion() }
	run := func(resource string, read func(*unstructured.Unstructured) string, changed func(key string, old, new *string)) {
		mirror := follow.NewMirror(l.options.RBAC(resource), read, l.options.Clock, l.log)
		mirror.OnChange(changed)
		group.Go(func() { mirror.Run(ctx) })
	}
	for _, scope := range []string{"", "cluster"} {
		run(scope+"roles", version, l.bindings.RoleChanged)
		run(scope+"rolebindings", l.bindings.Read, l.bindings.BindingChanged)
	}
	return true
}

// identity asks until there is an answer. An API server before Kubernetes 1.28 has none; then only
// the timer notices changed permissions.
func (l *Labels) identity(ctx context.Context) (permission.Identity, bool) {
	for backoff := loop.NewBackoff(); ; {
		identity, err := l.options.Identify(ctx)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return identity, ctx.Err() == nil
		}
		l.log.Info("could not ask who Curfew is, trying again", "reason", err.Error())
		loop.Pause(ctx, l.options.Clock, backoff.Next())
	}
}

// namespaces returns the namespaces in which more may be granted than everywhere.
func (l *Labels) namespaces() []string {
	out := append(l.bindings.Namespaces(), l.options.Namespaces...)
	slices.Sort(out)
	return slices.Compact(out)
}
