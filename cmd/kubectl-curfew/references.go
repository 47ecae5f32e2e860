package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/webhook/lint"
)

// readReferences reads the objects that -f names: the lists that the commands print, and manifests
// or objects as kubectl get prints them.
func readReferences(names []string, in io.Reader) ([]world.Reference, error) {
	if len(names) == 0 {
		return nil, nil
	}
	sources, err := readSources(names, in)
	if err != nil {
		return nil, err
	}
	var out []world.Reference
	empty := true
	for _, source := range sources {
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return nil, fmt.Errorf("-f: %w", errs[0])
		}
		// A pipe whose first command failed must not look like an empty list.
		empty = empty && len(bytes.TrimSpace(source.Data)) == 0
		for _, document := range documents {
			reference, err := referenceOf(document)
			if err != nil {
				return nil, fmt.Errorf("-f: %w", &lint.DocumentError{File: document.File, Index: document.Index, Line: document.Line, Err: err})
			}
			if !slices.Contains(out, reference) { // An object with a TTL and a deadline has two expiries.
				out = append(out, reference)
			}
		}
	}
	if empty {
		return nil, errors.New("-f: there is nothing in it: give a list or a manifest")
	}
	return out, nil
}

func referenceOf(document *lint.Document) (world.Reference, error) {
	var object struct {
		objectData
		Metadata metav1.ObjectMeta `json:"metadata"`
		// Object is that of an item of our own lists.
		Object *objectData `json:"object"`
	}
	text, err := json.Marshal(document.Object)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	named := objectData{object.APIVersion, object.Kind, object.Metadata.Namespace, object.Metadata.Name, string(object.Metadata.UID)}
	if object.APIVersion == outputVersion && object.Object != nil {
		named = *object.Object
	}
	if err == nil && (named.Name == "" || named.Kind == "") {
		err = errors.New("names no object: give what kubectl curfew expiring -o json prints, or a manifest with metadata.name")
	}
	return world.Reference{
		GroupKind: schema.FromAPIVersionAndKind(named.APIVersion, named.Kind).GroupKind(),
		Namespace: named.Namespace, Name: named.Name, UID: types.UID(named.UID),
	}, err
}
