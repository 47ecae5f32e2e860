package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// stage is when, and by whom, an object is deleted.
type stage int

const (
	webhooks stage = iota
	workloads
	permissions
	installed // left to the tool that installed them
	inside    // as installed, in Curfew's namespace
	kinds     // left: the CRDs
)

// resources are the kinds that an installation has objects of, by stage.
var resources = [...]string{
	webhooks:    "mutatingwebhookconfigurations.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io",
	workloads:   "deployments.apps",
	permissions: "clusterrolebindings.rbac.authorization.k8s.io",
	installed: `clusterroles.rbac.authorization.k8s.io flowschemas.flowcontrol.apiserver.k8s.io
		validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io`,
	inside: `configmaps resourcequotas secrets serviceaccounts services poddisruptionbudgets.policy networkpolicies.networking.k8s.io
		roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io certificates.cert-manager.io issuers.cert-manager.io
		podmonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com servicemonitors.monitoring.coreos.com`,
	kinds: "customresourcedefinitions.apiextensions.k8s.io",
}

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// object is one object of an installation.
type object struct {
	*unstructured.Unstructured
	kind  schema.GroupVersionResource
	stage stage
}

// String is the object as kubectl prints and takes it.
func (o *object) String() string {
	return schema.GroupKind{Group: o.kind.Group, Kind: strings.ToLower(o.GetKind())}.String() + "/" + o.GetName()
}

// installation has the objects that were found, in the order of their stages.
type installation struct {
	namespace string
	clients   world.Clients
	objects   []*object
	// held are the Pods with the finalizer of PodTallies. counted has the PodTally of those that its
	// status lists: they are as good as counted.
	held    []*metav1.PartialObjectMetadata
	counted map[types.UID]types.UID
	// next is the command that removes what a tool installed. loses: helm uninstall deletes the CRDs.
	next  string
	loses bool
}

// find finds the installation. It changes nothing.
func find(ctx context.Context, clients world.Clients, namespace string) (*installation, error) {
	i := &installation{namespace: namespace, clients: clients}
	for when, names := range resources {
		for _, name := range strings.Fields(names) {
			kind, scope := schema.ParseGroupResource(name).WithVersion("v1"), ""
			if stage(when) == workloads || stage(when) == inside {
				scope = namespace
			}
			err := list(ctx, kind, clients.Objects.Resource(kind).Namespace(scope).List, func(item *unstructured.Unstructured) error {
				return i.add(&object{item, kind, stage(when)})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return i, i.holds(ctx)
}

// ours reports whether an object is Curfew's. Labels decide nothing about an object that is removed,
// since anyone may write them. The command that removes the rest selects by label as well.
func (i *installation) ours(found *object, services []map[string]any) bool {
	name := found.GetName()
	switch found.stage {
	case workloads:
		return name == "curfew-controller" || name == "curfew-webhook"
	case inside:
		return found.GetLabels()["app.kubernetes.io/name"] == "curfew" && name != settings.Name // which Curfew wrote
	case kinds:
		return name[strings.Index(name, ".")+1:] == wellknown.Group
	}
	// A configuration of any name that calls Curfew's Service blocks requests as well.
	return policy.Installed(found.GroupVersionKind().GroupKind(), name) || slices.ContainsFunc(services, func(s map[string]any) bool {
		return s["namespace"] == i.namespace && s["name"] == "curfew-webhook"
	})
}

// add adds an object, if it is Curfew's, and finds out which tool installed it. Only what can be the
// name of a Helm release gets into a command that people copy. An error means that Curfew may run in
// another namespace: a removal would overlook the objects there.
func (i *installation) add(found *object) error {
	services := entries(found, "webhooks", "clientConfig", "service")
	if !i.ours(found, services) {
		return nil
	}
	for _, each := range slices.Concat(entries(found, "subjects"), services) {
		if other := each["namespace"]; other != nil && other != i.namespace {
			return fmt.Errorf("%s names namespace %q: if Curfew runs there, pass --curfew-namespace %[2]s", found, other)
		}
	}
	i.objects = append(i.objects, found)
	annotations, marks := found.GetAnnotations(), fmt.Sprint(found.GetLabels(), found.GetAnnotations())
	release, space := annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"]
	helm := len(validation.IsDNS1123Subdomain(release))+len(validation.IsDNS1123Label(space)) == 0
	switch {
	case found.stage == kinds:
		i.loses = i.loses || helm && annotations["helm.sh/resource-policy"] != "keep"
	case strings.Contains(marks, "argocd.argoproj.io/") || strings.Contains(marks, "toolkit.fluxcd.io/"):
		i.next = "delete Curfew in Argo CD or Flux, before anything else: it creates the objects again"
	case helm:
		i.next = fmt.Sprintf("helm uninstall %s -n %s", release, space)
	case i.next == "":
		// As with Helm, the CRDs and the Namespace stay: they would take objects of users with them.
		i.next = "kubectl delete -f install.yaml -l app.kubernetes.io/name=curfew --ignore-not-found   # with kustomize: -k OVERLAY"
	}
	return nil
}

// entries has what is at a path in each entry of a list.
func entries(found *object, list string, path ...string) (out []map[string]any) {
	all, _, _ := unstructured.NestedSlice(found.Object, list)
	for _, each := range all {
		entry, _ := each.(map[string]any)
		nested, _, _ := unstructured.NestedMap(entry, path...)
		out = append(out, nested)
	}
	return out
}

// names has the names of the objects of some stages.
func (i *installation) names(stages ...stage) []string {
	return console.Map(i.of(stages...), (*object).String)
}

func (i *installation) of(stages ...stage) []*object {
	return slices.DeleteFunc(slices.Clone(i.objects), func(o *object) bool { return !slices.Contains(stages, o.stage) })
}

// holds finds the Pods that have the finalizer of PodTallies.
func (i *installation) holds(ctx context.Context) error {
	i.held, i.counted = nil, map[types.UID]types.UID{}
	tallies := v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)
	err := list(ctx, tallies, i.clients.Objects.Resource(tallies).List, func(tally *unstructured.Unstructured) error {
		for _, outcome := range []string{"succeeded", "failed"} {
			uids, _, _ := unstructured.NestedStringSlice(tally.Object, "status", "uncountedTerminatedPods", outcome)
			for _, uid := range uids {
				i.counted[types.UID(uid)] = tally.GetUID()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return list(ctx, pods, i.clients.Metadata.Resource(pods).List, func(pod *metav1.PartialObjectMetadata) error {
		if slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
			i.held = append(i.held, pod)
		}
		return nil
	})
}

// list passes the objects of a kind to take. That the kind is not served is no error.
func list[L, T runtime.Object](ctx context.Context, kind schema.GroupVersionResource,
	read func(context.Context, metav1.ListOptions) (L, error), take func(T) error) error {
	err := world.Pages(ctx, read, metav1.ListOptions{}, func(item runtime.Object) error { return take(item.(T)) })
	if err != nil && !world.Gone(err) {
		return fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
	}
	return nil
}
