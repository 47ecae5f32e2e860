package explain

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/record"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// deletedBefore is the record of the deletion of an object that is gone, by the Events of the
// controller (package controller/record) and the reports of cleanup policies; nil where none
// remains. unread are the namespaces whose Events the user may not list, and unnamed is how many
// deletions in the object's namespace or by a LifecyclePolicy have no record: after a burst an
// Event names a few.
func deletedBefore(ctx context.Context, w *world.World, gone *world.GoneError) (
	latest *record.Record, unnamed int, unread []string, err error) {
	namespaces := []string{metav1.NamespaceAll}
	for i := 0; i < len(namespaces); i++ {
		options := metav1.ListOptions{FieldSelector: "reason=" + record.Reason}
		err := w.Each(ctx, world.Events, namespaces[i], options, func(event *unstructured.Unstructured) error {
			all := record.Read(event.GetAnnotations())
			if concernsNamespace(event, gone.Namespace) && len(all) > 0 {
				unnamed += max(0, all[len(all)-1].Total-len(all))
			}
			for _, one := range all {
				if one.Resource == gone.Kind.GroupResource().String() && one.Namespace == gone.Namespace && one.Name == gone.Name &&
					(latest == nil || latest.To.Before(one.To)) {
					latest = &one
				}
			}
			return nil
		})
		switch {
		case apierrors.IsForbidden(err) && namespaces[i] == metav1.NamespaceAll:
			// Events about a Namespace or a policy are in default, the others beside the object.
			if namespaces = append(namespaces, metav1.NamespaceDefault); gone.Namespace != "" && gone.Namespace != metav1.NamespaceDefault {
				namespaces = append(namespaces, gone.Namespace)
			}
		case apierrors.IsForbidden(err):
			unread = append(unread, namespaces[i])
		case err != nil:
			return nil, 0, nil, fmt.Errorf("listing Events with reason %s: %w", record.Reason, err)
		}
	}
	reported, err := reported(ctx, w, gone)
	if err != nil {
		return nil, 0, nil, err
	}
	if reported != nil && (latest == nil || !reported.To.Before(latest.To)) {
		latest = reported
	}
	return latest, unnamed, unread, nil
}

// concernsNamespace reports whether an Event may be about objects of a namespace: those about other
// Namespaces are not.
func concernsNamespace(event *unstructured.Unstructured, namespace string) bool {
	kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
	name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
	return kind != "Namespace" || name == cmp.Or(namespace, metav1.NamespaceDefault)
}

// reported is the record of the deletion in the reports of cleanup policies, which outlast Events;
// nil where there is none, or where the user may not list them.
func reported(ctx context.Context, w *world.World, gone *world.GoneError) (latest *record.Record, err error) {
	resources := map[string]string{v1alpha1.ClusterCleanupReports: metav1.NamespaceAll}
	if gone.Namespace != "" {
		resources[v1alpha1.CleanupReports] = gone.Namespace
	}
	for resource, namespace := range resources {
		at := v1alpha1.GroupVersion.WithResource(resource)
		err := w.Each(ctx, at, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
			report := &v1alpha1.CleanupReport{}
			if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, report) != nil {
				return nil // Of another version.
			}
			written := report.CreationTimestamp.Time
			if listsDeleted(report, gone) && (latest == nil || latest.To.Before(written)) {
				source := path.Join("cleanup", report.Namespace, report.Policy.Name)
				latest = &record.Record{Trigger: string(policy.TriggerCleanup), Source: source, From: written, To: written}
			}
			return nil
		})
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("listing %s: %w", at.GroupResource(), err)
		}
	}
	return latest, nil
}

func listsDeleted(report *v1alpha1.CleanupReport, gone *world.GoneError) bool {
	kind := gone.Kind.GroupResource()
	return slices.ContainsFunc(report.Objects, func(one v1alpha1.CleanupItem) bool {
		is := one.Group == kind.Group && one.Resource == kind.Resource && one.Namespace == gone.Namespace && one.Name == gone.Name
		return is && one.Result == v1alpha1.ItemDeleted
	})
}
