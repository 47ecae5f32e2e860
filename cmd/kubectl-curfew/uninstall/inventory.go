package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// stage is when an object is deleted.
type stage int

const (
	webhooks stage = iota
	workloads
	permissions
	kinds // the CRDs; the Pods are released right before
	rest
	namespace
)

// place is where objects of a kind belong to Curfew.
type place int

const (
	cluster place = iota
	own           // in Curfew's namespace
)

// resource is a kind that an installation has objects of.
type resource struct {
	schema.GroupVersionResource
	stage stage
	place place
	// names are the names of objects in Curfew's namespace, and of webhook configurations. Package
	// policy knows the others.
	names []string
}

func at(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

const (
	admission = "admissionregistration.k8s.io"
	rbac      = "rbac.authorization.k8s.io"
	// static and controllers are the webhook configurations of manifests/webhook and of the
	// controller.
	static, controllers = "curfew", "curfew-kinds"
	// webhook is the name of the webhook's objects, its Service included.
	webhook = "curfew-webhook"
	// tlsSecret has the CA of the webhooks or their certificate, and caSecret the CA that
	// cert-manager makes by manifests/components/cert-manager.
	tlsSecret, caSecret = "curfew-webhook-tls", "curfew-webhook-ca"
	// lease is the controller's, unless --lease-name names another. One that is left has no effect.
	lease = "curfew-controller"
	// controller is the name of the controller's objects.
	controller = "curfew-controller"

	cleanupRole, certificatesRole = "curfew-controller-cleanup", "curfew-webhook-certificates"
)

var (
	crds         = at("apiextensions.k8s.io", "customresourcedefinitions")
	namespaces   = at("", "namespaces")
	roleBindings = at(rbac, "rolebindings")
	clusterRoles = at(rbac, "clusterroles")
)

// resources are in the order in which their objects are deleted. cert-manager would issue a Secret
// again whose Certificate is still there.
var resources = []resource{
	{at(admission, "mutatingwebhookconfigurations"), webhooks, cluster, []string{static, controllers}},
	{at(admission, "validatingwebhookconfigurations"), webhooks, cluster, []string{static, controllers}},
	{at("apps", "deployments"), workloads, own, []string{controller, webhook}},
	{at(rbac, "clusterrolebindings"), permissions, cluster, nil},
	{roleBindings, permissions, own, []string{controller, cleanupRole, "curfew-tenant-view", certificatesRole}},
	{clusterRoles, permissions, cluster, nil},
	{at(rbac, "roles"), permissions, own, []string{controller, cleanupRole, "curfew-status", "curfew-view", certificatesRole}},
	{at("", "serviceaccounts"), permissions, own, []string{"curfew-cleanup", "curfew-metrics", controller, webhook}},
	{at(admission, "validatingadmissionpolicybindings"), permissions, cluster, nil},
	{at(admission, "validatingadmissionpolicies"), permissions, cluster, nil},
	{at("flowcontrol.apiserver.k8s.io", "flowschemas"), rest, cluster, nil},
	{at("policy", "poddisruptionbudgets"), rest, own, []string{controller, webhook}},
	{at("networking.k8s.io", "networkpolicies"), rest, own, []string{controller, webhook}},
	{at("", "resourcequotas"), rest, own, []string{"curfew-critical-pods"}},
	{at("", "services"), rest, own, []string{webhook, "curfew-metrics"}},
	{at("cert-manager.io", "certificates"), rest, own, []string{webhook, caSecret}},
	{at("cert-manager.io", "issuers"), rest, own, []string{"curfew-self-signed", caSecret}},
	{at("", "secrets"), rest, own, []string{tlsSecret, caSecret, "curfew-metrics-token"}},
	{at("", "configmaps"), rest, own, []string{settings.Name, "curfew-dashboard"}},
	{at("coordination.k8s.io", "leases"), rest, own, []string{lease}},
	{at("monitoring.coreos.com", "prometheusrules"), rest, own, []string{"curfew"}},
	{at("monitoring.coreos.com", "podmonitors"), rest, own, []string{controller, webhook}},
	{at("monitoring.coreos.com", "servicemonitors"), rest, own, []string{"curfew"}},
}

// Object is one object of an installation.
type Object struct {
	*unstructured.Unstructured
	at    schema.GroupVersionResource
	stage stage
}

// String is the object as kubectl prints it, with its namespace unless that is Curfew's own.
func (o *Object) String() string {
	name := strings.ToLower(o.GetKind())
	if o.at.Group != "" {
		name += "." + o.at.Group
	}
	return name + "/" + o.GetName()
}

// inventory finds the objects, in the order in which they are deleted.
func (i *Installation) inventory(ctx context.Context) error {
	for _, each := range resources {
		if err := i.findResource(ctx, &each); err != nil {
			return err
		}
	}
	if !i.KeepCRDs {
		err := i.list(ctx, crds, "", func(found *unstructured.Unstructured) {
			if _, group, _ := strings.Cut(found.GetName(), "."); group == wellknown.Group {
				i.add(found, crds, kinds)
			}
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(i.Objects, func(a, b *Object) int { return int(a.stage - b.stage) })
	return nil
}

// findResource finds the objects of one kind, by the names that they are installed under. A label
// that says to be part of Curfew proves nothing, since anyone may write it.
func (i *Installation) findResource(ctx context.Context, of *resource) error {
	if of.place != own {
		return i.list(ctx, of.GroupVersionResource, "", func(found *unstructured.Unstructured) {
			if i.installed(of, found) {
				i.add(found, of.GroupVersionResource, of.stage)
			}
		})
	}
	for _, name := range of.names {
		found, err := i.clients.Objects.Resource(of.GroupVersionResource).Namespace(i.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case world.Gone(err):
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", of.GroupResource(), name, err)
		default:
			i.add(found, of.GroupVersionResource, of.stage)
		}
	}
	return nil
}

// installed reports whether a listed object is part of Curfew.
func (i *Installation) installed(of *resource, found *unstructured.Unstructured) bool {
	if of.stage == webhooks {
		// One of any name that calls Curfew's Service blocks requests as well.
		return slices.Contains(of.names, found.GetName()) || i.calls(found)
	}
	return policy.Installed(found.GroupVersionKind().GroupKind(), found.GetName())
}

// calls reports whether a webhook configuration calls Curfew's Service.
func (i *Installation) calls(configuration *unstructured.Unstructured) bool {
	hooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	return slices.ContainsFunc(hooks, func(one any) bool {
		hook, _ := one.(map[string]any)
		in, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name")
		return in == i.Namespace && name == webhook
	})
}

func (i *Installation) add(found *unstructured.Unstructured, of schema.GroupVersionResource, when stage) {
	i.Objects = append(i.Objects, &Object{Unstructured: found, at: of, stage: when})
}

// list passes the objects of a kind to take. That the kind is not served is no error.
func (i *Installation) list(ctx context.Context, of schema.GroupVersionResource, selector string,
	take func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{LabelSelector: selector}
	err := world.Pages(ctx, i.clients.Objects.Resource(of).List, options, func(item runtime.Object) error {
		if object, ok := item.(*unstructured.Unstructured); ok {
			take(object)
		}
		return nil
	})
	if err != nil && !world.Gone(err) {
		return fmt.Errorf("listing %s: %w", of.GroupResource(), err)
	}
	return nil
}

// remains finds the permissions that users gave to Curfew besides: roles that are aggregated to
// the controller's, and bindings of its accounts in namespaces.
func (i *Installation) remains(ctx context.Context) error {
	note := func(of schema.GroupVersionResource, found *unstructured.Unstructured) {
		if !slices.ContainsFunc(i.Objects, func(one *Object) bool { return one.GetUID() == found.GetUID() }) {
			i.Remains = append(i.Remains, i.named(&Object{Unstructured: found, at: of}))
		}
	}
	err := i.list(ctx, clusterRoles, wellknown.LabelAggregate, func(found *unstructured.Unstructured) { note(clusterRoles, found) })
	if err != nil {
		return err
	}
	for _, of := range []schema.GroupVersionResource{roleBindings, at(rbac, "clusterrolebindings")} {
		err := i.list(ctx, of, "", func(found *unstructured.Unstructured) {
			subjects, _, _ := unstructured.NestedSlice(found.Object, "subjects")
			if slices.ContainsFunc(subjects, i.isOurs) {
				note(of, found)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isOurs reports whether a subject is one of Curfew's accounts.
func (i *Installation) isOurs(subject any) bool {
	fields, _ := subject.(map[string]any)
	return fields["kind"] == "ServiceAccount" && fields["namespace"] == i.Namespace && slices.ContainsFunc(i.Objects, func(one *Object) bool {
		return one.at.Resource == "serviceaccounts" && one.GetName() == fields["name"]
	})
}

// ownNamespace adds the Namespace, if it is part of the manifests and nothing else is in it.
func (i *Installation) ownNamespace(ctx context.Context) error {
	found, err := i.clients.Objects.Resource(namespaces).Get(ctx, i.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", i.Namespace, err)
	}
	if i.Others, err = i.others(ctx); err != nil {
		return err
	}
	i.Unlabelled = found.GetLabels()[wellknown.LabelPartOf] != wellknown.PartOfCurfew
	if !i.Unlabelled && len(i.Others) == 0 {
		i.add(found, namespaces, namespace)
	}
	return nil
}

// ephemeral are kinds whose objects no user misses.
var ephemeral = map[string]bool{"events": true, "leases": true, "endpoints": true, "endpointslices": true, "controllerrevisions": true}

// everyNamespace are the objects that every namespace has.
var everyNamespace = []string{"configmaps/kube-root-ca.crt", "configmaps/openshift-service-ca.crt", "serviceaccounts/default"}

// others are the objects in the namespace that are not part of the installation, and that nothing
// in it owns.
func (i *Installation) others(ctx context.Context) (out []string, err error) {
	_, lists, err := i.clients.Discovery.ServerGroupsAndResources()
	if err != nil {
		out = append(out, fmt.Sprintf("what cannot be listed: %v", err))
	}
	seen := map[string]*metav1.ObjectMeta{} // a kind can be served in several versions and groups
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced || !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || ephemeral[kind.Name] {
				continue
			}
			if version.Group == wellknown.Group && !i.KeepCRDs {
				continue
			}
			resource := i.clients.Metadata.Resource(version.WithResource(kind.Name)).Namespace(i.Namespace)
			page, err := resource.List(ctx, metav1.ListOptions{Limit: watch.Limit})
			switch {
			case world.Gone(err):
				continue
			case err != nil:
				return nil, fmt.Errorf("listing %s in namespace %s: %w", kind.Name, i.Namespace, err)
			}
			for j := range page.Items {
				one := &page.Items[j].ObjectMeta
				seen[kind.Name+"/"+one.Name] = one
			}
		}
	}
	inside := map[types.UID]bool{}
	for _, one := range i.Objects {
		inside[one.GetUID()] = true
	}
	for _, one := range seen {
		inside[one.UID] = true
	}
	for name, one := range seen {
		// The owner may be cluster-scoped, and not part of Curfew.
		owned := slices.ContainsFunc(one.OwnerReferences, func(by metav1.OwnerReference) bool { return inside[by.UID] && by.UID != one.UID })
		if !owned && !i.has(one) && !slices.Contains(everyNamespace, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// has reports whether an object is part of the installation.
func (i *Installation) has(object *metav1.ObjectMeta) bool {
	return slices.ContainsFunc(i.Objects, func(one *Object) bool { return one.GetUID() == object.UID })
}
