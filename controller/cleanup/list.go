package cleanup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/cleanup"
)

const (
	// pageSize bounds what one answer costs in memory, here and in the API server.
	pageSize = 500
	// maxNamespaces is up to how many namespaces are listed one by one. Above it the whole cluster
	// is listed and what is elsewhere is passed over.
	maxNamespaces = 50
)

// place is a resource and where it is listed.
type place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
}

// places are what the run lists, and the permissions that its account lacks for the rest.
func (r *run) places(ctx context.Context) (out []place, lacks []string, err error) {
	served, err := r.c.options.Served(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("resources that are served: %w", err)
	}
	known, err := r.c.options.Namespaces()
	if err != nil {
		return nil, nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := r.policy.Namespaces(known)
	for _, target := range r.policy.Targets(served) {
		one := place{Target: target, namespaces: names}
		if all || !target.Namespaced || len(names) > maxNamespaces {
			one.namespaces = []string{metav1.NamespaceAll}
		}
		allowed := one.namespaces[:0:0]
		for _, namespace := range one.namespaces {
			missing, err := r.account.Lacks(ctx, namespace, []permission.Need{
				{Verb: "list", Resource: target.GroupVersionResource}, {Verb: "get", Resource: target.GroupVersionResource},
				{Verb: "delete", Resource: target.GroupVersionResource},
			})
			if err != nil {
				return nil, nil, err
			}
			if len(missing) > 0 {
				lacks = append(lacks, inNamespace(missing[0].String(), namespace))
				continue
			}
			allowed = append(allowed, namespace)
		}
		if one.namespaces = allowed; len(allowed) > 0 {
			out = append(out, one)
		}
	}
	return out, lacks, nil
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
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: r.policy.ServerSelector().String()}
	if at.Name != "" {
		options.FieldSelector = "metadata.name=" + at.Name
	}
	for {
		next, err := r.listPage(ctx, at, namespace, options, f)
		if resumed, ok := resume(err); ok {
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

// resume returns where a list that took too long goes on: without a consistent snapshot. What it
// shows twice or not at all is judged again by the next run.
func resume(err error) (string, bool) {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	next := status.Status().Continue
	return next, next != ""
}

// total counts all objects of the places, for maxPercentage. The API server says how many there are
// without listing them.
func (r *run) total(ctx context.Context) (int64, error) {
	sum := int64(0)
	for i := range r.at {
		for _, namespace := range r.at[i].namespaces {
			list, err := r.account.Metadata.Resource(r.at[i].GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return 0, fmt.Errorf("counting %s: %w", r.at[i].GroupResource(), err)
			}
			sum += int64(len(list.Items))
			if list.RemainingItemCount != nil {
				sum += *list.RemainingItemCount
			} else if list.Continue != "" {
				return 0, fmt.Errorf("counting %s: the API server does not say how many there are", r.at[i].GroupResource())
			}
		}
	}
	return sum, nil
}
