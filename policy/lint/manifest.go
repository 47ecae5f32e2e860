package lint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	schemadefaults "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/resolution"
)

// YAML writes the manifest. If the source was YAML, the author's order and comments are kept; if
// nothing was filled in, every byte is. A manifest that cannot be edited (a default would land
// behind an alias) is written with sorted keys. Results of one source share nodes: do not write
// them concurrently.
func (r *Result) YAML() ([]byte, error) {
	document := r.Document
	if len(r.assigned) == 0 && len(document.text) > 0 {
		text := bytes.TrimLeft(bytes.TrimRight(document.text, " \t\r\n"), "\r\n")
		return append(bytes.Clone(text), '\n'), nil
	}
	if document.node != nil && document.node.Style&yaml.FlowStyle == 0 {
		if text, ok := document.edited(r.assigned); ok && reads(text, r.Manifest) {
			return text, nil
		}
	}
	return MarshalYAML(r.Manifest)
}

// edited writes the nodes with the assignments made.
func (d *Document) edited(assignments []resolution.Assignment) ([]byte, bool) {
	for _, assignment := range assignments {
		if !assignNode(d.node, assignment) {
			return nil, false
		}
	}
	whole := cmp.Or(d.root, d.node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if compactSequences(d.node) {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(whole); err != nil {
		return nil, false
	}
	if err := encoder.Close(); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// assignNode reports false if the path leads through an alias, whose other users must not change.
func assignNode(node *yaml.Node, assignment resolution.Assignment) bool {
	last := len(assignment.Path) - 1
	for _, name := range assignment.Path[:last] {
		if node.Kind != yaml.MappingNode {
			return false
		}
		_, next := entry(node, name)
		switch {
		case next == nil && assignment.Value == nil:
			return true
		case next == nil:
			next = &yaml.Node{Kind: yaml.MappingNode}
			node.Content = append(node.Content, scalar(name), next)
		case next.Kind == yaml.ScalarNode && next.Tag == "!!null":
			// "annotations:" with nothing behind it
			*next = yaml.Node{Kind: yaml.MappingNode, HeadComment: next.HeadComment, LineComment: next.LineComment, FootComment: next.FootComment}
		}
		node = next
	}
	return node.Kind == yaml.MappingNode && setNode(node, assignment.Path[last], assignment.Value)
}

func setNode(mapping *yaml.Node, name string, value any) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != name {
			continue
		}
		if value == nil {
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return true
		}
		have := mapping.Content[i+1]
		if have.Kind != yaml.ScalarNode || have.Anchor != "" {
			return false
		}
		fresh := scalar(value)
		have.Value, have.Tag, have.Style = fresh.Value, fresh.Tag, fresh.Style
		return true
	}
	if value != nil {
		mapping.Content = append(mapping.Content, scalar(name), scalar(value))
	}
	return true
}

// scalar returns a value as a node. The library quotes strings that YAML would read as another
// type.
func scalar(value any) *yaml.Node {
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		// Strings and integers can always be encoded.
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return &node
}

// compactSequences reports whether the author writes list items at the column of their key.
func compactSequences(node *yaml.Node) bool {
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && inner.Kind == yaml.SequenceNode && inner.Style&yaml.FlowStyle == 0 && inner.Column > 0 {
			return inner.Column == node.Content[i-1].Column
		}
		if compactSequences(inner) {
			return true
		}
	}
	return false
}

// reads reports whether a text parses to exactly this object.
func reads(text []byte, want map[string]any) bool {
	asJSON, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return false
	}
	have, err := parse(asJSON)
	return err == nil && reflect.DeepEqual(have, any(want))
}

// Schemas validate objects of Curfew's own kinds by their CustomResourceDefinitions, as the API
// server does. They are safe for concurrent use.
type Schemas struct {
	kinds map[kschema.GroupKind]definedKind
}

// definedKind is one kind by its versions.
type definedKind struct {
	namespaced bool
	versions   map[string]*definition
}

// definition is the schema of one version.
type definition struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// NewSchemas reads the schemas of all served versions.
func NewSchemas(definitions []*apiextensionsv1.CustomResourceDefinition) (*Schemas, error) {
	out := &Schemas{kinds: map[kschema.GroupKind]definedKind{}}
	for _, crd := range definitions {
		kind := definedKind{namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, versions: map[string]*definition{}}
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			if !version.Served || version.Schema == nil {
				continue
			}
			read, err := readDefinition(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, fmt.Errorf("CustomResourceDefinition %s, version %s: %w", crd.Name, version.Name, err)
			}
			kind.versions[version.Name] = read
		}
		out.kinds[kschema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = kind
	}
	return out, nil
}

func readDefinition(external *apiextensionsv1.JSONSchemaProps) (*definition, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, &props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &definition{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// check returns the object as the API server would store it, and why it would reject it: fields
// that the schema does not have, and errors. Without a schema for the kind it returns the object
// itself.
func (s *Schemas) check(ctx context.Context, object map[string]any) (stored map[string]any, unknown []string, errs field.ErrorList) {
	u := unstructured.Unstructured{Object: object}
	kind := u.GroupVersionKind()
	if s == nil {
		return object, nil, nil
	}
	known, ok := s.kinds[kind.GroupKind()]
	if !ok {
		return object, nil, nil
	}
	version, ok := known.versions[kind.Version]
	if !ok {
		served := strings.Join(slices.Sorted(maps.Keys(known.versions)), ", ")
		return object, nil, field.ErrorList{field.Invalid(field.NewPath("apiVersion"), u.GetAPIVersion(),
			"there is no such version: use "+kind.Group+"/"+served)}
	}
	object = runtime.DeepCopyJSON(object)
	delete(object, "status") // A create takes none.
	named := unstructured.Unstructured{Object: object}
	if named.GetName() == "" && named.GetGenerateName() != "" {
		named.SetName(named.GetGenerateName() + "xxxxx") // as the API server makes one
	}
	unknown = pruning.PruneWithOptions(object, version.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	schemadefaults.Default(object, version.structural)
	errs = append(errs, apivalidation.ValidateObjectMetaAccessor(&named, known.namespaced, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))...)
	errs = append(errs, validation.ValidateCustomResource(nil, object, version.schema)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, version.structural, object)...)
	if version.rules != nil && !slices.ContainsFunc(errs, blocking) {
		failed, _ := version.rules.Validate(ctx, nil, version.structural, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, failed...)
	}
	return object, unknown, errs
}

// Stored is an object as the API server would store it, with the defaults of its schema. The error
// is why the API server would reject it, including unknown fields.
func (s *Schemas) Stored(ctx context.Context, object map[string]any) (map[string]any, error) {
	stored, unknown, errs := s.check(ctx, object)
	var all []error
	for _, path := range unknown {
		all = append(all, errors.New(unknownField(path)))
	}
	for _, err := range errs {
		all = append(all, err)
	}
	return stored, errors.Join(all...)
}

// blocking errors keep the API server from evaluating the rules of a schema.
func blocking(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid, field.ErrorTypeNotSupported:
		return true
	}
	return false
}

func unknownField(path string) string {
	return fmt.Sprintf("unknown field %q: remove it, or correct its name", path)
}
