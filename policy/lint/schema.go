package lint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
)

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
	return fmt.Sprintf("unknown field %q: remove it, or mend its name", path)
}
