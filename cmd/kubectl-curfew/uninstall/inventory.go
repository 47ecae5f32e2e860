package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
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
	everywhere
)

// resource is a kind that an installation has objects of.
type resource struct {
	schema.GroupVersionResource
	stage stage
	place place
	// names are those of objects without Curfew's label.
	names []string
}

func at(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

const (
	admission = "admissionregistration.k8s.io"
	rbac      = "rbac.authorization.k8s.io"
	// static and controllers are the webhook configurations of manifests/webhook and of the
	// controller.
	static, controllers = "curfew", "curfew-kinds"
	webhookService      = "curfew-webhook"
	// tlsSecret has the CA of the webhooks or their certificate, and caSecret the CA that cert-manager
	// makes by manifests/components/cert-manager.
	tlsSecret, caSecret = "curfew-webhook-tls", "curfew-webhook-ca"
	// lease is the controller's, unless --lease-name names another. One that is left has no effect.
	lease = "curfew-controller"
)

var (
	crds         = at("apiextensions.k8s.io", "v1", "customresourcedefinitions")
	namespaces   = at("", "v1", "namespaces")
	roleBindings = at(rbac, "v1", "rolebindings")
	clusterRoles = at(rbac, "v1", "clusterroles")
)

// resources are in the order in which their objects are deleted. cert-manager would issue a Secret
// again whose Certificate is still there.
var resources = []resource{
	{at(admission, "v1", "mutatingwebhookconfigurations"), webhooks, cluster, []string{static, controllers}},
	{at(admission, "v1", "validatingwebhookconfigurations"), webhooks, cluster, []string{static, controllers}},
	{at("apps", "v1", "deployments"), workloads, own, nil},
	{at(rbac, "v1", "clusterrolebindings"), permissions, cluster, nil},
	{roleBindings, permissions, everywhere, nil},
	{clusterRoles, permissions, cluster, nil},
	{at(rbac, "v1", "roles"), permissions, everywhere, nil},
	{at("", "v1", "serviceaccounts"), permissions, own, nil},
	{at(admission, "v1", "validatingadmissionpolicybindings"), permissions, cluster, nil},
	{at(admission, "v1", "validatingadmissionpolicies"), permissions, cluster, nil},
	{at("flowcontrol.apiserver.k8s.io", "v1", "flowschemas"), rest, cluster, nil},
	{at("policy", "v1", "poddisruptionbudgets"), rest, own, nil},
	{at("", "v1", "services"), rest, own, nil},
	{at("cert-manager.io", "v1", "certificates"), rest, own, nil},
	{at("cert-manager.io", "v1", "issuers"), rest, own, nil},
	{at("", "v1", "secrets"), rest, own, []string{tlsSecret, caSecret}},
	{at("", "v1", "configmaps"), rest, own, []string{settings.Name}},
	{at("coordination.k8s.io", "v1", "leases"), rest, own, []string{lease}},
	{at("monitoring.coreos.com", "v1", "prometheusrules"), rest, own, nil},
	{at("monitoring.coreos.com", "v1", "podmonitors"), rest, own, nil},
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
		err := i.list(ctx, crds, "", "", func(found *unstructured.Unstructured) {
			if _, group, _ := strings.Cut(found.GetName(), "."); group == policy.Group {
				i.add(found, crds, kinds)
			}
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(i.Objects, func(a, b *Object) int { return int(a.stage) - int(b.stage) })
	return nil
}

// findResource finds the objects of one kind: those with Curfew's label, and those with a fixed
// name.
func (i *Installation) findResource(ctx context.Context, of *resource) error {
	in, selector := "", policy.LabelPartOf+"="+policy.PartOfCurfew
	if of.place == own {
		in = i.Namespace
	}
	seen := map[string]bool{}
	take := func(found *unstructured.Unstructured) {
		if !seen[found.GetName()] || of.place == everywhere {
			i.add(found, of.GroupVersionResource, of.stage)
		}
		seen[found.GetName()] = true
	}
	if of.stage == webhooks {
		// One of any name that calls Curfew's Service blocks requests as well.
		return i.list(ctx, of.GroupVersionResource, in, "", func(found *unstructured.Unstructured) {
			if slices.Contains(of.names, found.GetName()) || found.GetLabels()[policy.LabelPartOf] == policy.PartOfCurfew || i.calls(found) {
				take(found)
			}
		})
	}
	if err := i.list(ctx, of.GroupVersionResource, in, selector, take); err != nil {
		return err
	}
	for _, name := range of.names {
		found, err := i.clients.Objects.Resource(of.GroupVersionResource).Namespace(in).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", of.GroupResource(), name, err)
		default:
			take(found)
		}
	}
	return nil
}

// calls reports whether a webhook configuration calls Curfew's Service.
func (i *Installation) calls(configuration *unstructured.Unstructured) bool {
	hooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	return slices.ContainsFunc(hooks, func(one any) bool {
		hook, _ := one.(map[string]any)
		in, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "name")
		return in == i.Namespace && name == webhookService
	})
}

func (i *Installation) add(found *unstructured.Unstructured, of schema.GroupVersionResource, when stage) {
	i.Objects = append(i.Objects, &Object{Unstructured: found, at: of, stage: when})
}

// list passes the objects of a kind to take. That the kind is not served is no error.
func (i *Installation) list(ctx context.Context, of schema.GroupVersionResource, in, selector string, take func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := i.clients.Objects.Resource(of).Namespace(in).List(ctx, options)
		if next, ok := paging.Resume(err); ok {
			options.Continue = next
			continue
		}
		switch {
		case world.Gone(err):
			return nil
		case err != nil:
			return fmt.Errorf("listing %s: %w", of.GroupResource(), err)
		}
		for j := range page.Items {
			take(&page.Items[j])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// pageSize is how many objects are read at once.
const pageSize = 500
