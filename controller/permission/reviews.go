package permission

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/paging"
)

// Verbs are what deleting on time takes: list and watch find objects, get reads them again before
// they are deleted.
var Verbs = []string{"get", "list", "watch", "delete"}

// Need is one permission that a part of Curfew's work takes.
type Need struct {
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
}

// String is the need as messages write it: patch trainjobs.trainer.kubeflow.org/status.
func (n Need) String() string {
	text := n.Verb + " " + n.Resource.GroupResource().String()
	if n.Subresource != "" {
		text += "/" + n.Subresource
	}
	return text
}

// ToDelete returns the permissions that timely deletion of a resource's objects needs.
func ToDelete(resource schema.GroupVersionResource) []Need {
	var out []Need
	for _, verb := range Verbs {
		out = append(out, Need{Verb: verb, Resource: resource})
	}
	return out
}

// maxReview is how large an answer may be. Anyone who may bind a role to an account decides the
// size of the answer. The client has to be a [paging.Cap].
const maxReview = 256 << 10

// Reviews asks the API server what Curfew itself may do, or the account that it acts as.
type Reviews struct {
	Access authorizationclient.SelfSubjectAccessReviewInterface
	// RulesOf lists all that is granted, as far as the authorizer can; only [Ask] needs it.
	RulesOf authorizationclient.SelfSubjectRulesReviewInterface
}

// LacksIn returns the needs that are not granted in a namespace, or with "" in all.
func (r Reviews) LacksIn(ctx context.Context, namespace string, needs []Need) ([]Need, error) {
	var out []Need
	for _, need := range needs {
		ok, err := r.may(ctx, need, namespace)
		if err != nil {
			return nil, err
		}
		if !ok {
			out = append(out, need)
		}
	}
	return out, nil
}

// MayDelete implements [Granter]. Most kinds may not be deleted, so this verb is asked for first.
func (r Reviews) MayDelete(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error) {
	for _, verb := range []string{"delete", "get", "list", "watch"} {
		if ok, err := r.may(ctx, Need{Verb: verb, Resource: resource}, namespace); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Rules implements [Granter] with one review for all kinds. It does not read an answer that is too
// large.
func (r Reviews) Rules(ctx context.Context, namespace string) (Grants, error) {
	review, err := r.RulesOf.Create(paging.Bound(ctx, maxReview), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if apierrors.IsRequestEntityTooLargeError(err) {
		return Grants{Incomplete: true}, nil
	}
	if err != nil {
		return Grants{}, fmt.Errorf("asking what Curfew may do in namespace %q: %w", namespace, err)
	}
	return Grants{Rules: review.Status.ResourceRules, Incomplete: review.Status.Incomplete || review.Status.EvaluationError != ""}, nil
}

func (r Reviews) may(ctx context.Context, need Need, namespace string) (bool, error) {
	review, err := r.Access.Create(paging.Bound(ctx, maxReview), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: need.Resource.Group, Version: need.Resource.Version, Resource: need.Resource.Resource, Subresource: need.Subresource,
			Verb: need.Verb, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether Curfew may %s: %w", need, err)
	}
	return review.Status.Allowed, nil
}

const (
	// cachedFor is how long it is remembered that something is granted.
	cachedFor = time.Minute
	// maxCached is how much is remembered of all accounts together. It takes some 6 MB.
	maxCached = 20_000
)

// Cached remembers for a while the permissions of accounts. It asks each time for a permission that
// was refused, so that it counts as soon as it is granted. One that was taken away may still count
// for a while; the API server refuses its use.
//
// It asks for single permissions, never for all that an account may do: a tenant may make that list
// as long as it likes.
type Cached struct {
	clock   clock.PassiveClock
	granted *lru.Cache // until when, by grant
}

// grant is one permission of an account in a namespace.
type grant struct {
	Need
	account, namespace string
}

// NewCached makes a cache that remembers nothing yet.
func NewCached(clock clock.PassiveClock) *Cached {
	return &Cached{clock: clock, granted: lru.New(maxCached)}
}

// LacksIn returns the needs that are not granted to an account in a namespace, or with "" in all.
// The reviews have to ask as that account. ask as that account.
func (c *Cached) LacksIn(ctx context.Context, account string, reviews Reviews, namespace string, needs []Need) (lacks []Need, err error) {
	for _, need := range needs {
		of, now := grant{need, account, namespace}, c.clock.Now()
		known, _ := c.granted.Get(of)
		if until, ok := known.(time.Time); ok && now.Before(until) {
			continue
		}
		missing, err := reviews.LacksIn(ctx, namespace, []Need{need})
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			c.granted.Add(of, now.Add(cachedFor))
		}
		lacks = append(lacks, missing...)
	}
	return lacks, nil
}
