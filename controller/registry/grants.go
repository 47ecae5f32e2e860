package registry

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// nowhere is a namespace that cannot exist, for its dot: what is granted there is granted everywhere.
const nowhere = "curfew.nowhere"

// Grants are what Curfew may do in one namespace, as far as the authorizer can list it.
type Grants struct {
	Rules []authorizationv1.ResourceRule
	// Incomplete tells that more may be allowed than is listed: what the rules do not say has to be asked for one by one.
	Incomplete bool
}

// Granter asks the API server what Curfew itself may do.
type Granter interface {
	// Rules lists it for one namespace.
	Rules(ctx context.Context, namespace string) (Grants, error)
	// MissingIn names the verbs on a resource in a namespace, or with "" in all, that are not granted.
	MissingIn(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]string, error)
}

// Rules implements [Granter] by one review for all kinds.
func (r Reviews) Rules(ctx context.Context, namespace string) (Grants, error) {
	review, err := r.RulesClient.Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return Grants{}, fmt.Errorf("asking what Curfew may do in namespace %q: %w", namespace, err)
	}
	return Grants{Rules: review.Status.ResourceRules, Incomplete: review.Status.Incomplete || review.Status.EvaluationError != ""}, nil
}

// grants reports whether all verbs on a resource are granted, on all of its objects.
func (g Grants) grants(resource schema.GroupResource) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool {
		return !slices.ContainsFunc(g.Rules, func(rule authorizationv1.ResourceRule) bool {
			return len(rule.ResourceNames) == 0 && has(rule.Verbs, verb) && has(rule.APIGroups, resource.Group) && has(rule.Resources, resource.Resource)
		})
	})
}

func has(list []string, item string) bool {
	return slices.Contains(list, item) || slices.Contains(list, "*")
}

// access is where Curfew may carry labels out for a kind.
type access struct {
	everywhere bool
	namespaces []string // where not everywhere, sorted
}

func (a access) nowhere() bool { return !a.everywhere && len(a.namespaces) == 0 }

// permissions are the answers of one round of asking.
type permissions struct {
	granter    Granter
	everywhere Grants
	namespaces map[string]Grants
	// asked are the answers to what no list of rules said.
	asked map[question]bool
}

type question struct {
	resource  schema.GroupVersionResource
	namespace string
}

// askForGrants asks what is granted everywhere, and in some namespaces beyond that.
func askForGrants(ctx context.Context, granter Granter, namespaces []string) (*permissions, error) {
	out := &permissions{granter: granter, namespaces: map[string]Grants{}, asked: map[question]bool{}}
	var err error
	if out.everywhere, err = granter.Rules(ctx, nowhere); err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		if out.namespaces[namespace], err = granter.Rules(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// of is where a kind's labels may be carried out.
func (p *permissions) of(ctx context.Context, kind Labelable) (access, error) {
	all, err := p.allowed(ctx, p.everywhere, kind, metav1.NamespaceAll)
	if err != nil || all {
		return access{everywhere: all}, err
	}
	var out access
	if kind.ClusterScoped {
		return out, nil
	}
	for namespace, grants := range p.namespaces {
		ok, err := p.allowed(ctx, grants, kind, namespace)
		if err != nil {
			return access{}, err
		}
		if ok {
			out.namespaces = append(out.namespaces, namespace)
		}
	}
	slices.Sort(out.namespaces)
	return out, nil
}

func (p *permissions) allowed(ctx context.Context, grants Grants, kind Labelable, namespace string) (bool, error) {
	if grants.grants(kind.groupResource()) {
		return true, nil
	}
	if !grants.Incomplete {
		return false, nil
	}
	at := question{kind.versionResource(), namespace}
	if known, ok := p.asked[at]; ok {
		return known, nil
	}
	missing, err := p.granter.MissingIn(ctx, at.resource, namespace)
	if err != nil {
		return false, err
	}
	p.asked[at] = len(missing) == 0
	return len(missing) == 0, nil
}

// RulesReviewer is the part of a client that lists rules.
type RulesReviewer = authorizationclient.SelfSubjectRulesReviewInterface
