package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Reference names one object. Without a UID it means whatever has the name.
type Reference struct {
	schema.GroupKind
	Namespace, Name string
	UID             types.UID
}

// GoneError says that an object does not exist, or is not the one that was meant.
type GoneError struct {
	Kind            Kind
	Namespace, Name string
	reason          string
}

// Error implements error.
func (e *GoneError) Error() string { return e.reason }

// referred reads the objects that references name. One that is gone, or was created again, does not
// stop the others.
func (w *World) referred(ctx context.Context, references []Reference, namespace string) ([]Selected, error) {
	var out []Selected
	for _, reference := range references {
		kind, err := w.kindOf(reference.GroupKind)
		if err != nil {
			return nil, err
		}
		in := cmp.Or(reference.Namespace, namespace)
		if kind.ClusterScoped {
			in = ""
		}
		one, err := w.Get(ctx, kind, in, reference.Name)
		gone := (*GoneError)(nil)
		switch {
		case errors.As(err, &gone):
			gone = &GoneError{reason: "does not exist any more"}
		case err != nil:
			return nil, err
		case reference.UID != "" && UIDOf(one.Object) != reference.UID:
			gone = &GoneError{reason: fmt.Sprintf("was deleted and created again: its UID is %s and no longer %s", UIDOf(one.Object), reference.UID)}
		}
		if gone != nil {
			one = Selected{Kind: kind, Namespace: in, Name: reference.Name, Gone: gone}
		}
		out = append(out, one)
	}
	return each(out), nil
}

// kindOf finds the kind of a reference.
func (w *World) kindOf(of schema.GroupKind) (Kind, error) {
	found, err := w.discover()
	if err != nil {
		return Kind{}, err
	}
	for _, list := range found.lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group != of.Group {
			continue
		}
		for i := range list.APIResources {
			if resource := &list.APIResources[i]; resource.Kind == of.Kind && !strings.Contains(resource.Name, "/") {
				return w.servedAt(version.WithResource(resource.Name).GroupResource(), of.String())
			}
		}
	}
	return Kind{}, fmt.Errorf("the server has no kind %s", of)
}
