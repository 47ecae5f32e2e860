package uninstall

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy"
)

// remains finds the permissions that somebody gave to Curfew besides: roles that are aggregated to
// the controller's, and bindings of its accounts in namespaces.
func (i *Installation) remains(ctx context.Context) error {
	note := func(of schema.GroupVersionResource, found *unstructured.Unstructured) {
		if !slices.ContainsFunc(i.Objects, func(one *Object) bool { return one.GetUID() == found.GetUID() }) {
			i.Remains = append(i.Remains, i.named(&Object{Unstructured: found, at: of}))
		}
	}
	err := i.list(ctx, clusterRoles, policy.LabelAggregate, func(found *unstructured.Unstructured) { note(clusterRoles, found) })
	if err != nil {
		return err
	}
	for _, of := range []schema.GroupVersionResource{roleBindings, at(rbac, "v1", "clusterrolebindings")} {
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
	if fields["kind"] != "ServiceAccount" || fields["namespace"] != i.Namespace {
		return false
	}
	return slices.ContainsFunc(i.Objects, func(one *Object) bool {
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
	i.Unlabelled = found.GetLabels()[policy.LabelPartOf] != policy.PartOfCurfew
	if !i.Unlabelled && len(i.Others) == 0 {
		i.add(found, namespaces, namespace)
	}
	return nil
}

// ephemeral are kinds whose objects nobody misses.
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
	seen := map[string]bool{} // a kind can be served in several versions and groups
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced || !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") || ephemeral[kind.Name] {
				continue
			}
			if version.Group == policy.Group && !i.KeepCRDs {
				continue
			}
			page, err := i.clients.Metadata.Resource(version.WithResource(kind.Name)).Namespace(i.Namespace).List(ctx, metav1.ListOptions{Limit: paging.Limit})
			switch {
			case world.Gone(err):
				continue
			case err != nil:
				return nil, fmt.Errorf("listing %s in namespace %s: %w", kind.Name, i.Namespace, err)
			}
			for j := range page.Items {
				one := &page.Items[j].ObjectMeta
				if name := kind.Name + "/" + one.Name; !seen[name] && !i.has(one) && !slices.Contains(everyNamespace, name) {
					seen[name] = true
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// has reports whether an object is part of the installation, or owned by another one.
func (i *Installation) has(object *metav1.ObjectMeta) bool {
	return len(object.OwnerReferences) > 0 || slices.ContainsFunc(i.Objects, func(one *Object) bool { return one.GetUID() == object.UID })
}
