package change

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

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lint"
)

// readReferences reads the objects that -f names: the lists that the commands print, and manifests
// or objects as kubectl get prints them. Unless withCleaned is set, it leaves out those that only
// cleanup policies delete: no value of theirs says when.
func readReferences(names []string, r io.Reader, withCleaned bool) (out []world.Reference, leftOut int, err error) {
	if len(names) == 0 {
		return nil, 0, nil
	}
	sources, err := folders.ReadSources(names, r)
	if err != nil {
		return nil, 0, err
	}
	var cleaned []world.Reference
	empty := true
	for _, source := range sources {
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return nil, 0, fmt.Errorf("-f: %w", errs[0])
		}
		// A pipe whose first command failed must not look like an empty list.
		empty = empty && len(bytes.TrimSpace(source.Data)) == 0
		for _, document := range documents {
			reference, trigger, err := referenceOf(document)
			if err != nil {
				return nil, 0, fmt.Errorf("-f: %w", &lint.DocumentError{File: document.File, Index: document.Index, Line: document.Line, Err: err})
			}
			list := &out
			if trigger == policy.TriggerCleanup && !withCleaned {
				list = &cleaned
			}
			if !slices.Contains(*list, reference) { // An object with a TTL and a deadline has two expiries.
				*list = append(*list, reference)
			}
		}
	}
	if empty {
		return nil, 0, errors.New("-f: there is nothing in it: give a list or a manifest")
	}
	for _, reference := range cleaned {
		if !slices.Contains(out, reference) {
			leftOut++
		}
	}
	return out, leftOut, nil
}

// referenceOf also returns the trigger of an item of our own lists.
func referenceOf(document *lint.Document) (world.Reference, policy.Trigger, error) {
	var object struct {
		console.ObjectData
		Metadata metav1.ObjectMeta `json:"metadata"`
		// Object and Trigger are fields of an item in the lists that this plugin prints.
		Object  *console.ObjectData `json:"object"`
		Trigger policy.Trigger      `json:"trigger"`
	}
	text, err := json.Marshal(document.Object)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	named := console.ObjectOf(object.APIVersion, object.Kind, object.Metadata.Namespace, object.Metadata.Name, string(object.Metadata.UID))
	trigger := policy.Trigger("")
	if object.APIVersion == console.OutputVersion && object.Object != nil {
		named, trigger = *object.Object, object.Trigger
	}
	if err == nil && (named.Name == "" || named.Kind == "") {
		err = errors.New("names no object: give what kubectl curfew expiring -o json prints, or a manifest with metadata.name")
	}
	return world.Reference{
		GroupKind: schema.FromAPIVersionAndKind(named.APIVersion, named.Kind).GroupKind(),
		Namespace: named.Namespace, Name: named.Name, UID: types.UID(named.UID),
	}, trigger, err
}
