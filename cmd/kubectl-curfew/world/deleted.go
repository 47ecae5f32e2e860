package world

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/controller/record"
)

// Deleted is the record of the deletion of an object that is gone, by the Events of the controller
// (package controller/record); nil where none remains. unread are the namespaces whose Events the
// user may not list.
func (w *World) Deleted(ctx context.Context, gone *GoneError) (latest *record.Record, unread []string, err error) {
	namespaces := []string{metav1.NamespaceAll}
	for i := 0; i < len(namespaces); i++ {
		err := w.records(ctx, namespaces[i], func(one record.Record) {
			if one.Resource == gone.Kind.GroupResource().String() && one.Namespace == gone.Namespace && one.Name == gone.Name &&
				(latest == nil || latest.To.Before(one.To)) {
				latest = &one
			}
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
			return nil, nil, fmt.Errorf("listing Events with reason %s: %w", record.Reason, err)
		}
	}
	return latest, unread, nil
}

func (w *World) records(ctx context.Context, namespace string, take func(record.Record)) error {
	options := metav1.ListOptions{FieldSelector: "reason=" + record.Reason}
	return pages(ctx, w.lister(corev1.SchemeGroupVersion.WithResource("events"), namespace), options, func(item runtime.Object) error {
		event, ok := item.(*unstructured.Unstructured)
		if !ok {
			return errors.New("an Event has a form that this version does not know")
		}
		for _, one := range record.Read(event.GetAnnotations()) {
			take(one)
		}
		return nil
	})
}
