package permission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/watch"
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

// ToFollow returns the permissions that finding and judging a resource's objects needs. delete may be
// granted by namespace.
func ToFollow(resource schema.GroupVersionResource) []Need {
	var out []Need
	for _, verb := range []string{"get", "list", "watch"} {
		out = append(out, Need{Verb: verb, Resource: resource})
	}
	return out
}

// maxReview is how large an answer may be. Anyone who may bind a role to an account decides the
// size of the answer. The client has to be a [watch.Cap].
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
	review, err := r.RulesOf.Create(watch.Bound(ctx, maxReview), &authorizationv1.SelfSubjectRulesReview{
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
	review, err := r.Access.Create(watch.Bound(ctx, maxReview), &authorizationv1.SelfSubjectAccessReview{
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
	granted *cache.LRUExpireCache // by grant
}

// grant is one permission of an account in a namespace.
type grant struct {
	Need
	account, namespace string
}

// NewCached makes a cache that remembers nothing yet.
func NewCached(clock clock.PassiveClock) *Cached {
	return &Cached{cache.NewLRUExpireCacheWithClock(maxCached, clock)}
}

// LacksIn returns the needs that are not granted to an account in a namespace, or with "" in all.
// The reviews have to ask as that account.
func (c *Cached) LacksIn(ctx context.Context, account string, reviews Reviews, namespace string, needs []Need) (lacks []Need, err error) {
	for _, need := range needs {
		key := grant{need, account, namespace}
		if _, known := c.granted.Get(key); known {
			continue
		}
		missing, err := reviews.LacksIn(ctx, namespace, []Need{need})
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			c.granted.Add(key, true, cachedFor)
		}
		lacks = append(lacks, missing...)
	}
	return lacks, nil
}

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
		return len(rule.ResourceNames) == 0 && has(rule.Verbs, need.Verb) && has(rule.APIGroups, need.Resource.Group) &&
			has(rule.Resources, resource)
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

// Ask asks for the permissions in all namespaces, and for more in some namespaces.
func Ask(ctx context.Context, granter Granter, namespaces []string) (*Answers, error) {
	out := &Answers{granter: granter, namespaces: map[string]Grants{}}
	var err error
	if out.everywhere, err = granter.Rules(ctx, Nowhere); err != nil {
		return nil, err
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

// Identity is Curfew's controller as the API server knows it.
type Identity struct {
	User   string
	Groups []string
}

// Bindings follows the roles that are bound to Curfew, so that changed permissions are noticed at
// once. It knows when to ask and in which namespaces; only the API server knows the permissions.
type Bindings struct {
	identity Identity
	changed  func()

	mu sync.Mutex
	// roles are those bound to Curfew, by binding: "name" of a ClusterRole, "namespace/name" of a
	// Role.
	roles map[string]string
}

// NewBindings calls changed whenever a permission of that identity may have changed.
func NewBindings(identity Identity, changed func()) *Bindings {
	return &Bindings{identity: identity, changed: changed, roles: map[string]string{}}
}

// Read returns the role that a binding binds to Curfew, or "".
func (b *Bindings) Read(object *unstructured.Unstructured) string {
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	if !slices.ContainsFunc(subjects, b.isUs) {
		return ""
	}
	kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
	if kind == "Role" {
		return object.GetNamespace() + "/" + name
	}
	return name
}

func (b *Bindings) isUs(item any) bool {
	subject, _ := item.(map[string]any)
	name, _ := subject["name"].(string)
	switch subject["kind"] {
	case "User":
		return name == b.identity.User
	case "Group":
		return slices.Contains(b.identity.Groups, name)
	case "ServiceAccount":
		namespace, _ := subject["namespace"].(string)
		return "system:serviceaccount:"+namespace+":"+name == b.identity.User
	default:
		return false
	}
}

// BindingChanged takes the value that was read of a binding before and after a change.
func (b *Bindings) BindingChanged(key string, old, new *string) {
	was, is := ptr.Deref(old, ""), ptr.Deref(new, "")
	b.mu.Lock()
	if is == "" {
		delete(b.roles, key)
	} else {
		b.roles[key] = is
	}
	b.mu.Unlock()
	if was != is {
		b.changed()
	}
}

// RoleChanged takes the resourceVersion of a role before and after a change.
func (b *Bindings) RoleChanged(key string, old, new *string) {
	if old != nil && new != nil && *old == *new {
		return // It was listed again.
	}
	b.mu.Lock()
	ours := slices.Contains(slices.Collect(maps.Values(b.roles)), key)
	b.mu.Unlock()
	if ours {
		b.changed()
	}
}

// Namespaces returns the namespaces in which a role is bound to Curfew.
func (b *Bindings) Namespaces() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for key := range b.roles {
		if namespace, _, namespaced := strings.Cut(key, "/"); namespaced && !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return out
}
