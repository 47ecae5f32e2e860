package health

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// kinds checks that the CustomResourceDefinitions are those of this version.
func (r *reader) kinds() (State, string) {
	wanted, err := crd.All()
	if err != nil {
		return Unknown, err.Error()
	}
	var missing, unready, other []string
	for _, want := range wanted {
		have, presence, err := world.Read[apiextensionsv1.CustomResourceDefinition](r.ctx, r.w, definitions, "", want.Name)
		if err != nil {
			r.note("%s", err)
		}
		switch presence {
		case world.Unread:
			if r.w.Controller.State == world.NotInstalled {
				return Failed, r.w.Controller.Why
			}
			r.note("you may not get customresourcedefinitions: whether Curfew's are those of this version is not known")
			return Unknown, "not read"
		case world.Missing:
			missing = append(missing, want.Name)
			continue
		}
		if !established(have) {
			unready = append(unready, want.Name)
		}
		if !equality.Semantic.DeepEqual(versions(want), versions(have)) {
			other = append(other, want.Name)
		}
	}
	switch {
	case len(missing) == len(wanted):
		return Failed, "no CustomResourceDefinition of group " + policy.Group + " exists"
	case len(missing) > 0:
		return Failed, "missing: " + strings.Join(missing, ", ")
	case len(unready) > 0:
		return Failed, "not established: " + strings.Join(unready, ", ")
	case len(other) > 0:
		return Warning, fmt.Sprintf("not those of kubectl-curfew %s: %s", r.Version, strings.Join(other, ", "))
	}
	return OK, fmt.Sprintf("%d kinds of group %s are served", len(wanted), policy.Group)
}

func established(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// versions are the schemas by version.
func versions(definition *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.CustomResourceValidation {
	out := map[string]*apiextensionsv1.CustomResourceValidation{}
	for i := range definition.Spec.Versions {
		out[definition.Spec.Versions[i].Name] = definition.Spec.Versions[i].Schema
	}
	return out
}
