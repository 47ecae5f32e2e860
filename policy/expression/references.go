package expression

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/v1alpha1"
)

// references are the fields that name objects, without those that cannot be used.
func references(path *field.Path, of []v1alpha1.NamedObject, errs *field.ErrorList) []policy.Reference {
	var out []policy.Reference
	for i := range of {
		at, one := path.Index(i), policy.Reference{Kind: schema.GroupKind{Group: of[i].Kind.Group, Kind: of[i].Kind.Kind}}
		before := len(*errs)
		one.Path = parsePath(at.Child("path"), of[i].Path, errs)
		if one.Kind.Group == "*" || one.Kind.Kind == "*" {
			*errs = append(*errs, field.Invalid(at.Child("kind"), one.Kind.String(), "name one group and one kind"))
		}
		if in := of[i].NamespacePath; in != nil {
			one.Namespace = parsePath(at.Child("namespacePath"), *in, errs)
			if list := throughLists(one.Namespace); !strings.HasPrefix(one.Path.String(), list) {
				*errs = append(*errs, field.Invalid(at.Child("namespacePath"), string(*in),
					fmt.Sprintf("goes through %s, and path does not: name a field beside the one that path leads to", list)))
			}
		}
		if len(*errs) == before {
			out = append(out, one)
		}
	}
	return out
}

// throughLists is the part of a path that ends with its last list.
func throughLists(path fieldpath.FieldPath) string {
	for i, part := range slices.Backward(path) {
		if part == "*" {
			return path[:i+1].String()
		}
	}
	return ""
}

// Missing has an error for each reference whose field is not in the installed version of the kind.
// A definition of nil is not known, and may have any field.
func (p *Profile) Missing(of *Definition) (errs field.ErrorList) {
	if of == nil {
		return nil
	}
	fields, ok := of.Serves(p)
	for i := 0; ok && i < len(p.spec.References); i++ {
		one, at := &p.spec.References[i], field.NewPath("spec", "references").Index(i)
		missing := func(at *field.Path, text v1alpha1.FieldPath) {
			if path, err := fieldpath.ParseFieldPath(string(text)); err == nil && !fields.Has(path) {
				errs = append(errs, field.Invalid(at, string(text), fmt.Sprintf("is no field of %s in version %s: "+
					"correct the path, with [*] after each list, or remove the reference", p.Kind.GroupKind(), p.Kind.Version)))
			}
		}
		missing(at.Child("path"), one.Path)
		if one.NamespacePath != nil {
			missing(at.Child("namespacePath"), *one.NamespacePath)
		}
	}
	return errs
}
