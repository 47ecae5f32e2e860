package cleanup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/cleanup"
)

const (
	// pageSize bounds what one answer costs in memory, here and in the API server.
	pageSize = 500
	// wholePageSize is the same for whole objects, which may have a megabyte each.
	wholePageSize = 50
	// maxNamespaces is up to how many namespaces are listed one by one. Above it the whole cluster
	// is listed and what is elsewhere is passed over.
	maxNamespaces = 50
)

// place is a resource and where it is listed.
type place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
	// only are the namespaces that count if the whole cluster is listed for them; nil means all.
	only map[string]bool
}

// places are what the run lists, and the permissions that its account lacks for the rest.
func (r *run) places(ctx context.Context) (out []place, lacks []string, err error) {
	served, err := r.c.options.Served(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("resources that are served: %w", err)
	}
	snapshot, err := r.c.options.Cached.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.workloads = workloadsOf(snapshot.Profiles, served)
	r.lookups = newLookups(r.account, r.workloads)
	known, err := r.c.options.Namespaces()
	if err != nil {
		return nil, nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := r.policy.Namespaces(known)
	if err := r.mayReadNamespaces(ctx); err != nil {
		return nil, nil, err
	}
	for _, target := range r.policy.Targets(served) {
		if !target.Namespaced && !all {
			continue // A namespaceSelector with a requirement matches none of them.
		}
		one := place{Target: target}
		wide := all || !target.Namespaced
		if !wide && len(names) > maxNamespaces { // One list of the cluster, if the account may.
			missing, err := r.account.Lacks(ctx, metav1.NamespaceAll, needsOf(&target))
			if err != nil {
				return nil, nil, err
			}
			if wide = len(missing) == 0; wide {
				one.only = setOf(names)
			}
		}
		within := names
		if wide {
			within = []string{metav1.NamespaceAll}
		}
		for _, namespace := range within {
			missing, err := r.account.Lacks(ctx, namespace, needsOf(&target))
			if err != nil {
				return nil, nil, err
			}
			if len(missing) > 0 {
				lacks = append(lacks, inNamespace(missing[0].String(), namespace))
				continue
			}
			one.namespaces = append(one.namespaces, namespace)
		}
		if len(one.namespaces) > 0 {
			out = append(out, one)
		}
	}
	return out, lacks, nil
}

func needsOf(target *cleanup.Target) []permission.Need {
	var out []permission.Need
	for _, verb := range []string{"list", "get", "delete"} {
		out = append(out, permission.Need{Verb: verb, Resource: target.GroupVersionResource})
	}
	return out
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// mayReadNamespaces returns an error if an expression reads namespaces and the account may not:
// what it returns, and why it fails, would reveal them (S10).
func (r *run) mayReadNamespaces(ctx context.Context) error {
	if !r.policy.Expressions.ReadsNamespace {
		return nil
	}
	missing, err := r.account.Lacks(ctx, r.policy.Namespace, []permission.Need{{Verb: "get", Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the policy reads namespaceObject, and service account %s may not %s: %w", r.accountName(), inNamespace(missing[0].String(), r.policy.Namespace), errForbidden)
	}
	return err
}

func inNamespace(need, namespace string) string {
	if namespace == "" {
		return need
	}
	return fmt.Sprintf("%s in namespace %q", need, namespace)
}

// each calls f for every object that the policy may match. It holds one page at a time.
func (r *run) each(ctx context.Context, f func(at *place, object *unstructured.Unstructured) error) error {
	for i := range r.at {
		for _, namespace := range r.at[i].namespaces {
			if err := r.eachOf(ctx, &r.at[i], namespace, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) eachOf(ctx context.Context, at *place, namespace string, f func(*place, *unstructured.Unstructured) error) error {
	limit := int64(pageSize)
	if r.policy.NeedsObject() {
		limit = wholePageSize
	}
	options := metav1.ListOptions{Limit: limit, LabelSelector: r.policy.ServerSelector().String()}
	if at.Name != "" {
		options.FieldSelector = "metadata.name=" + at.Name
	}
	for {
		next, err := r.listPage(ctx, at, namespace, options, f)
		if resumed, ok := paging.Resume(err); ok {
			options.Continue = resumed
			continue
		}
		if err != nil || next == "" {
			return err
		}
		options.Continue = next
	}
}

// listPage lists one page: whole objects only if a condition reads more than the metadata.
func (r *run) listPage(ctx context.Context, at *place, namespace string, options metav1.ListOptions, f func(*place, *unstructured.Unstructured) error) (next string, err error) {
	if r.policy.NeedsObject() {
		list, err := r.account.Objects.Resource(at.GroupVersionResource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", at.GroupResource(), err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(at.GroupVersionKind())
			if err := f(at, &list.Items[i]); err != nil {
				return "", err
			}
		}
		return list.GetContinue(), nil
	}
	list, err := r.account.Metadata.Resource(at.GroupVersionResource).Namespace(namespace).List(ctx, options)
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", at.GroupResource(), err)
	}
	for i := range list.Items {
		object, err := whole(at, &list.Items[i])
		if err != nil {
			return "", err
		}
		if err := f(at, object); err != nil {
			return "", err
		}
	}
	return list.Continue, nil
}

// get reads one object live, as much of it as the policy needs.
func (r *run) get(ctx context.Context, at *cleanup.Target, namespace, name string) (*unstructured.Unstructured, error) {
	if r.policy.NeedsObject() {
		object, err := r.account.Objects.Resource(at.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		object.SetGroupVersionKind(at.GroupVersionKind())
		return object, nil
	}
	meta, err := r.account.Metadata.Resource(at.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return whole(&place{Target: *at}, meta)
}

// whole is an object of which only the metadata is known.
func whole(at *place, meta *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	meta.SetGroupVersionKind(at.GroupVersionKind())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, fmt.Errorf("metadata of %s %s/%s: %w", at.Kind, meta.Namespace, meta.Name, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
