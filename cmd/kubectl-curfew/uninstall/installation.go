package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Options of a removal.
type Options struct {
	// Namespace that Curfew runs in.
	Namespace string
	// KeepCRDs keeps the CRDs, and with them policies, tallies and reports.
	KeepCRDs bool
	// Timeout bounds each wait for a deleted object to be gone.
	Timeout time.Duration
	// Say reports the wait, and Done each object that was deleted, with what became of
	// it.
	Say  func(format string, values ...any)
	Done func(what string)
}

// Installation has the objects that [Find] found.
type Installation struct {
	Options
	// Objects are in the order in which they are deleted.
	Objects []*Object
	// Losses are how many objects of Curfew's own kinds there are, by kind.
	Losses []Loss
	// Releases are the Pods with the finalizer of PodTallies.
	Releases []Release
	// Others are objects in Curfew's namespace that are not part of it; the Namespace stays then.
	Others []string
	// Unlabelled: the Namespace does not come from the manifests; Helm or an admin created it.
	Unlabelled bool
	// Remains are bindings and roles of Curfew that a user made. They have no effect.
	Remains []string
	// Helm is the release that the objects belong to, and GitOps the tools that may install them
	// again.
	Helm   *types.NamespacedName
	GitOps []string

	clients world.Clients
}

// Find finds an installation. It changes nothing.
func Find(ctx context.Context, clients world.Clients, options Options) (*Installation, error) {
	i := &Installation{Options: options, clients: clients}
	for _, step := range []func(context.Context) error{
		i.inventory, i.elsewhere, i.losses, i.releases, i.remains, i.ownNamespace,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	i.managers()
	return i, nil
}

// Empty reports whether nothing is left to do.
func (i *Installation) Empty() bool { return len(i.Objects) == 0 && len(i.Releases) == 0 }

// Plan lists the steps of a removal, in their order.
func (i *Installation) Plan() (out []string) {
	deleted := func(object *Object) string { return i.named(object) + " deleted" }
	out = console.Map(i.of(webhooks, workloads, permissions), deleted)
	if len(i.Releases) > 0 {
		out = append(out, released(len(i.Releases)))
	}
	return append(out, console.Map(i.of(kinds, rest, namespace), deleted)...)
}

// elsewhere fails if Curfew runs in another namespace: the removal would overlook the objects
// there.
func (i *Installation) elsewhere(context.Context) error {
	for _, object := range i.Objects {
		subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
		hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, one := range slices.Concat(subjects, hooks) {
			entry, _ := one.(map[string]any)
			in, _ := entry["namespace"].(string)
			if service, _, _ := unstructured.NestedString(entry, "clientConfig", "service", "namespace"); service != "" {
				in = service
			}
			if in != "" && in != i.Namespace {
				return fmt.Errorf("%s names namespace %q: if Curfew runs there, pass --curfew-namespace %s", object, in, in)
			}
		}
	}
	return nil
}

// managers notes who else manages the objects.
func (i *Installation) managers() {
	for _, object := range i.Objects {
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		if name := annotations["meta.helm.sh/release-name"]; name != "" && i.Helm == nil {
			i.Helm = &types.NamespacedName{Name: name, Namespace: annotations["meta.helm.sh/release-namespace"]}
		}
		for _, mark := range []struct {
			in        map[string]string
			key, tool string
		}{
			{annotations, "argocd.argoproj.io/tracking-id", "Argo CD"},
			{labels, "argocd.argoproj.io/instance", "Argo CD"},
			{labels, "kustomize.toolkit.fluxcd.io/name", "Flux"},
			{labels, "helm.toolkit.fluxcd.io/name", "Flux"},
		} {
			if _, ok := mark.in[mark.key]; ok && !slices.Contains(i.GitOps, mark.tool) {
				i.GitOps = append(i.GitOps, mark.tool)
			}
		}
	}
}

// named is an object in a sentence: with its namespace, where that is not Curfew's.
func (i *Installation) named(object *Object) string {
	if in := object.GetNamespace(); in != "" && in != i.Namespace {
		return object.String() + " in namespace " + in
	}
	return object.String()
}

func (i *Installation) of(stages ...stage) (out []*Object) {
	for _, object := range i.Objects {
		if slices.Contains(stages, object.stage) {
			out = append(out, object)
		}
	}
	return out
}

func joined(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Loss is how many objects of one of Curfew's kinds there are.
type Loss struct {
	Kind  string
	Count int
}

// String is 1 PodTally or 2 PodTallies.
func (l Loss) String() string {
	if l.Count == 1 {
		return "1 " + l.Kind
	}
	return fmt.Sprintf("%d %s", l.Count, plural(l.Kind))
}

// ownKinds are Curfew's kinds, those first that people wrote.
var ownKinds = []string{
	"LifecyclePolicy", "KindProfile", "CleanupPolicy", "ClusterCleanupPolicy", "PodTally", "DeletionPause",
	"CleanupApproval", "ClusterCleanupApproval", "CleanupReport", "ClusterCleanupReport",
}

func plural(kind string) string {
	if stem, ok := strings.CutSuffix(kind, "y"); ok {
		return stem + "ies"
	}
	return kind + "s"
}

// losses counts the objects of Curfew's own kinds.
func (i *Installation) losses(ctx context.Context) error {
	for _, kind := range ownKinds {
		loss := Loss{Kind: kind}
		at := v1alpha1.GroupVersion.WithResource(strings.ToLower(plural(kind)))
		if err := i.metadata(ctx, at, func(*metav1.ObjectMeta) { loss.Count++ }); err != nil {
			return err
		}
		if loss.Count > 0 {
			i.Losses = append(i.Losses, loss)
		}
	}
	return nil
}

// Release is a Pod with the finalizer of a PodTally.
type Release struct {
	Namespace, Name string
	UID             types.UID
	// countedBy is the PodTally whose status lists the Pod: it is as good as counted.
	countedBy types.UID
}

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// releases finds the Pods that have the finalizer of PodTallies.
func (i *Installation) releases(ctx context.Context) error {
	i.Releases = nil
	listed := map[types.UID]types.UID{}
	err := i.list(ctx, v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies), "", func(tally *unstructured.Unstructured) {
		for _, outcome := range []string{"succeeded", "failed"} {
			uids, _, _ := unstructured.NestedStringSlice(tally.Object, "status", "uncountedTerminatedPods", outcome)
			for _, uid := range uids {
				listed[types.UID(uid)] = tally.GetUID()
			}
		}
	})
	if err != nil {
		return err
	}
	return i.metadata(ctx, pods, func(pod *metav1.ObjectMeta) {
		if slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
			i.Releases = append(i.Releases, Release{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, countedBy: listed[pod.UID]})
		}
	})
}

// metadata passes the metadata of all objects of a kind to take. That the kind is not served is no
// error.
func (i *Installation) metadata(ctx context.Context, of schema.GroupVersionResource, take func(*metav1.ObjectMeta)) error {
	err := world.Pages(ctx, i.clients.Metadata.Resource(of).List, metav1.ListOptions{}, func(item runtime.Object) error {
		if object, ok := item.(*metav1.PartialObjectMetadata); ok {
			take(&object.ObjectMeta)
		}
		return nil
	})
	if err != nil && !world.Gone(err) {
		return fmt.Errorf("listing %s: %w", of.GroupResource(), err)
	}
	return nil
}
