package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/resolution"
)

// Source is a text with manifests in it.
type Source struct {
	// Name is the file's name, as findings repeat it; empty for standard input and request bodies.
	Name string
	Data []byte
	// JSON allows nothing but JSON.
	JSON bool
}

// Document is one object of a source. Lists are taken apart: each item is a document of its own,
// with the index of the list.
type Document struct {
	// File is the name of the source.
	File string
	// Index counts the documents of a source from 1.
	Index int
	// Line is where the object begins, counted from 1.
	Line int
	// Object is the manifest in its JSON form, with int64 and float64 for numbers.
	Object map[string]any

	// item counts the objects of a source from 0.
	item int
	// text is the document as written; nil for items of a list and for JSON.
	text []byte
	// node is the same object as YAML nodes, with comments and lines; nil if there is none.
	node *yaml.Node
	// root has the comments around node, if the object is the whole document.
	root *yaml.Node
	// offset is added to the lines of nodes.
	offset int
}

// Kind is the group, version and kind that the document claims.
func (d *Document) Kind() schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: d.Object}).GroupVersionKind()
}

// DocumentError is a document that cannot be read.
type DocumentError struct {
	File        string
	Index, Line int
	Err         error
	// Foreign means that the text does not claim to be a Kubernetes object, which has an apiVersion
	// and a kind.
	Foreign bool
}

// Error names the document by file, index and line.
func (e *DocumentError) Error() string {
	where := fmt.Sprintf("document %d (line %d)", e.Index, e.Line)
	if e.File != "" {
		where = e.File + ": " + where
	}
	return fmt.Sprintf("%s: %v", where, e.Err)
}

// Unwrap returns the cause.
func (e *DocumentError) Unwrap() error { return e.Err }

// Ref names an object in reports.
type Ref struct {
	// Document counts from 1 within its source.
	Document   int    `json:"document"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	// Name may be empty; where the API server is to make one it is the prefix and an asterisk.
	Name string `json:"name,omitempty"`
}

// String is the object as people name it: Job ci/build.
func (r Ref) String() string {
	name := r.Name
	if name == "" {
		name = fmt.Sprintf("(document %d)", r.Document)
	}
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	return r.Kind + " " + name
}

func (d *Document) ref(namespace string) Ref {
	u := unstructured.Unstructured{Object: d.Object}
	name := u.GetName()
	if name == "" && u.GetGenerateName() != "" {
		name = u.GetGenerateName() + "*"
	}
	return Ref{Document: d.Index, APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: namespace, Name: name}
}

// MarshalYAML writes a value as YAML, with the field names of its JSON form.
func MarshalYAML(value any) ([]byte, error) {
	text, err := MarshalJSON(value)
	if err != nil {
		return nil, err
	}
	return sigsyaml.JSONToYAML(text)
}

// MarshalJSON writes a value as JSON that is also YAML: it escapes the characters that YAML does
// not allow.
func MarshalJSON(value any) ([]byte, error) {
	var text, out bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		// Such characters stand nowhere but in strings, where JSON and YAML escape them alike.
		if r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes(), nil
}

// assign sets or removes one field of an object and creates missing parents.
func assign(object map[string]any, assignment resolution.Assignment) error {
	parent := object
	path := assignment.Path
	for i, name := range path[:len(path)-1] {
		switch next := parent[name].(type) {
		case map[string]any:
			parent = next
		case nil:
			if assignment.Value == nil {
				return nil
			}
			made := map[string]any{}
			parent[name] = made
			parent = made
		default:
			return fmt.Errorf("%s is %s and not an object, so that %s cannot be set", path[:i+1], describe(next), path)
		}
	}
	if name := path[len(path)-1]; assignment.Value == nil {
		delete(parent, name)
	} else {
		parent[name] = assignment.Value
	}
	return nil
}
