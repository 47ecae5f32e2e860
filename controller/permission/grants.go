package permission

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Nowhere is a namespace that cannot exist, because of its dot: a permission that is granted there
// is granted everywhere.
const Nowhere = "curfew.nowhere"

// Grants are what Curfew may do in one namespace, as far as the authorizer can list it.
type Grants struct {
	Rules []authorizationv1.ResourceRule
	// Incomplete means that more may be granted: what no rule covers has to be asked for kind by kind.
	Incomplete bool
}

// Granter asks the API server what Curfew itself may do.
type Granter interface {
	// Rules lists it for one namespace.
	Rules(ctx context.Context, namespace string) (Grants, error)
	// MayDelete reports whether all of [Verbs] are granted on a resource in a namespace, or with "" in
	// all.
	MayDelete(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error)
}

// Cover reports whether all of [Verbs] are granted on all objects of a resource.
func (g Grants) Cover(resource schema.GroupResource) bool {
	return !slices.ContainsFunc(Verbs, func(verb string) bool {
		return !g.grants(Need{Verb: verb, Resource: resource.WithVersion("")})
	})
}

// grants reports whether a rule grants a need on all objects.
func (g Grants) grants(need Need) bool {
	resource := need.Resource.Resource
	if need.Subresource != "" {
		resource += "/" + need.Subresource
	}
	return slices.ContainsFunc(g.Rules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, need.Verb) && has(rule.APIGroups, need.Resource.Group) && has(rule.Resources, resource)
	})
}

func has(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}

// Answers are what one round of asking found out.
type Answers struct {
	granter    Granter
	everywhere Grants
	namespaces map[string]Grants
}

// Ask asks for the permissions in all namespaces, and for more in some namespaces. With only, no
// permission outside these counts.
func Ask(ctx context.Context, granter Granter, namespaces []string, only bool) (*Answers, error) {
	out := &Answers{granter: granter, namespaces: map[string]Grants{}}
	var err error
	if !only {
		if out.everywhere, err = granter.Rules(ctx, Nowhere); err != nil {
			return nil, err
		}
	}
	for _, namespace := range namespaces {
		if out.namespaces[namespace], err = granter.Rules(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Namespaces returns where objects of a resource may be deleted: [metav1.NamespaceAll] alone where
// that is everywhere, else single namespaces in order.
func (a *Answers) Namespaces(ctx context.Context, resource schema.GroupVersionResource, clusterScoped bool) ([]string, error) {
	all, err := a.granted(ctx, a.everywhere, resource, metav1.NamespaceAll)
	switch {
	case err != nil:
		return nil, err
	case all:
		return []string{metav1.NamespaceAll}, nil
	case clusterScoped:
		return nil, nil
	}
	var out []string
	for namespace, grants := range a.namespaces {
		ok, err := a.granted(ctx, grants, resource, namespace)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (a *Answers) granted(ctx context.Context, grants Grants, resource schema.GroupVersionResource, namespace string) (bool, error) {
	if grants.Cover(resource.GroupResource()) {
		return true, nil
	}
	if !grants.Incomplete {
		return false, nil
	}
	return a.granter.MayDelete(ctx, resource, namespace)
}
