package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// compiles reports whether objects of a kind of Curfew's group are compiled at admission.
func (w *Webhooks) compiles(kind string) bool {
	return kind == "LifecyclePolicy" || kind == "KindProfile" || kind == cleanupKind || kind == clusterCleanupKind || kind == tallyKind
}

// validatePolicy asks the rules about a policy, KindProfile or PodTally.
func (w *Webhooks) validatePolicy(ctx context.Context, request *request, now time.Time) admission.Response {
	kind := request.facts.Profile.Kind
	if request.facts.Deleting || kind.Group != wellknown.Group || !w.compiles(kind.Kind) {
		return untouched()
	}
	if len(request.review.Object.Raw) > maxPolicy { // The schemas allow less. To compile takes memory that was not waited for.
		return tooMuch(fmt.Sprintf("this %s has more than %d bytes: use a smaller one", kind.Kind, maxPolicy))
	}
	if kind.Kind == cleanupKind || kind.Kind == clusterCleanupKind {
		return w.validateCleanup(ctx, request)
	}
	if kind.Kind == tallyKind {
		return w.validateTally(ctx, request)
	}
	review := &rules.PlatformRequest{Options: w.options, Now: now}
	if kind.Kind == "KindProfile" {
		profile, err := compileBoth(ctx, w, request, w.profile)
		if err != nil {
			return uncompiled(err)
		}
		review.Errors, review.OldErrors = profile.errs, profile.oldErrs
	} else {
		policy, err := compileBoth(ctx, w, request, w.compiler.Policy)
		if err != nil {
			return uncompiled(err)
		}
		review.Policy, review.OldPolicy, review.Errors, review.OldErrors = policy.now, policy.old, policy.errs, policy.oldErrs
	}
	if lister, ok := w.source.namespaces.(NamespaceLister); ok && review.Policy != nil && review.Policy.Bounds != (lifetime.Bounds{}) {
		review.Namespaces = lister.Bounded()
	}
	return decided(rules.ReviewPlatform(review), request.user.IsPerson())
}

// maxPolicy is how many bytes are compiled.
const maxPolicy = 1 << 20

// profile compiles a KindProfile, and finds references that the installed kind lacks.
func (w *Webhooks) profile(object *v1alpha1.KindProfile) (*expression.Profile, field.ErrorList) {
	out, errs := w.compiler.UserProfile(object)
	return out, append(errs, out.Missing(w.source.store.Definition(out.Kind.GroupKind()))...)
}

// compileTimeout bounds the wait for others that compile, and the compilation. The API server gives
// a review 5 seconds in all, and then admits the object where the webhook fails open: access
// reviews need 2 of them.
const compileTimeout = 2500 * time.Millisecond

var errCompiling = fmt.Errorf("no answer within %s, since many policies are compiled", compileTimeout)

// uncompiled answers a review whose objects could not be compiled.
func uncompiled(err error) admission.Response {
	if errors.Is(err, errCompiling) {
		return unanswered("curfew could not compile the expressions in time", err)
	}
	return invalid(err)
}

// compiled is what a review compares: the object, and the old one if there is one.
type compiled[P any] struct {
	now, old      P
	errs, oldErrs field.ErrorList
}

// compileBoth compiles the object of a request, and the old one if there is one. The expressions of
// one author must not make the reviews of others too late, so a late one returns errCompiling.
func compileBoth[T, P any](ctx context.Context, w *Webhooks, request *request, compile func(*T) (P, field.ErrorList)) (out compiled[P], _ error) {
	ctx, cancel := context.WithTimeout(ctx, compileTimeout)
	defer cancel()
	if w.compiling.Acquire(ctx, 1) != nil {
		return out, errCompiling
	}
	results, failures := make(chan compiled[P], 1), make(chan error, 1)
	go func() {
		defer w.compiling.Release(1) // Also if no one waits any longer.
		if result, err := compileNow(request, compile); err != nil {
			failures <- err
		} else {
			results <- result
		}
	}()
	select {
	case out = <-results:
		return out, nil
	case err := <-failures:
		return out, err
	case <-ctx.Done():
		return out, errCompiling
	}
}

func compileNow[T, P any](request *request, compile func(*T) (P, field.ErrorList)) (out compiled[P], err error) {
	defer func() { // In a goroutine of its own, a panic would end the process.
		if reason := recover(); reason != nil {
			err = fmt.Errorf("compiling it panics: %v", reason)
		}
	}()
	compileOne := func(name string, object map[string]any) (compiled P, errs field.ErrorList, _ error) {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
			return compiled, nil, fmt.Errorf("%s: %w", name, err)
		}
		compiled, errs = compile(typed)
		return compiled, append(errs, requirement.Unknown(request.facts.Profile.Kind.Kind, object)...), nil
	}
	if request.old != nil {
		if out.old, out.oldErrs, err = compileOne("request.oldObject", request.old); err != nil {
			return out, err
		}
	}
	out.now, out.errs, err = compileOne("request.object", request.object)
	return out, err
}

// Kinds of cleanup policies.
const (
	cleanupKind        = "CleanupPolicy"
	clusterCleanupKind = "ClusterCleanupPolicy"
)

// validateCleanup asks the rules about a cleanup policy.
func (w *Webhooks) validateCleanup(ctx context.Context, request *request) admission.Response {
	found, err := w.compileCleanup(ctx, request)
	if err != nil {
		return uncompiled(err)
	}
	compiled, before := found.now, found.old
	review := &rules.CleanupRequest{Options: w.options, Policy: compiled, Before: before, Errors: found.errs, OldErrors: found.oldErrs}
	if w.policyLimit != nil && len(found.errs) == 0 && request.old == nil && request.kind.Kind == cleanupKind {
		full, err := w.policyLimit.check(ctx, request.facts.Namespace, request.facts.Name)
		if full != nil {
			review.Errors = append(review.Errors, full)
		}
		if err != nil {
			w.log.V(1).Info("a new cleanup policy is admitted uncounted", "namespace", request.facts.Namespace, "reason", err.Error())
		}
	}
	access, tooMany := rules.CleanupAccessOf(compiled)
	if tooMany != nil {
		review.Errors = append(review.Errors, tooMany)
	}
	if tooMany != nil || w.settings.Access == nil || !compiled.Widens(before) {
		return decided(rules.ReviewCleanup(review), request.user.IsPerson())
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	if review.AuthorLacks, err = w.lacks(ctx, request.review.UserInfo, compiled, access); err != nil { // An error would let the policy pass where the webhook fails open.
		w.log.Error(err, "access reviews of the author of a cleanup policy", "policy", compiled.ID())
		return unanswered("curfew could not find out in time whether you may delete what the policy matches", err)
	}
	user := w.settings.CleanupUser
	if account := compiled.Account; account.Name != "" {
		user = fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	}
	if user != "" {
		review.AccountLacks, _ = w.lacks(ctx, authenticationv1.UserInfo{Username: user, Groups: serviceAccountGroups(user)}, compiled, access)
	}
	return decided(rules.ReviewCleanup(review), request.user.IsPerson())
}

// lacks returns the permissions that a user lacks on the resources that a policy reads and deletes.
func (w *Webhooks) lacks(ctx context.Context, user authenticationv1.UserInfo, p *cleanup.Policy, access []rules.CleanupAccess) ([]string,
	error) {
	lacking := make([]string, len(access))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReviews)
	for i, cleanupAccess := range access {
		group.Go(func() error {
			var missing []string
			for _, verb := range cleanupAccess.Verbs {
				may, err := w.settings.Access.May(ctx, user, authorizationv1.ResourceAttributes{
					Verb: verb, Namespace: p.Namespace, Group: cleanupAccess.Group, Resource: cleanupAccess.Resource,
				})
				if err != nil {
					return err
				}
				if !may {
					missing = append(missing, verb)
				}
			}
			if len(missing) > 0 {
				lacking[i] = rules.Enumerate(missing) + " " + cleanupAccess.String()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(lacking, func(text string) bool { return text == "" }), nil
}

// maxReviews is how many access reviews run at once.
const maxReviews = 16

func (w *Webhooks) compileCleanup(ctx context.Context, request *request) (compiled[*cleanup.Policy], error) {
	checked := func(compiled *cleanup.Policy, errs field.ErrorList) (*cleanup.Policy, field.ErrorList) {
		if err := compiled.CheckInterval(w.settings.CleanupInterval); err != nil {
			errs = append(errs, err)
		}
		return compiled, errs
	}
	if request.kind.Kind == clusterCleanupKind {
		return compileBoth(ctx, w, request, func(object *v1alpha1.ClusterCleanupPolicy) (*cleanup.Policy, field.ErrorList) {
			return checked(cleanup.Compile(w.compiler, object))
		})
	}
	return compileBoth(ctx, w, request, func(object *v1alpha1.CleanupPolicy) (*cleanup.Policy, field.ErrorList) {
		return checked(cleanup.CompileNamespaced(w.compiler, object))
	})
}

// policyLimit denies CleanupPolicies beyond a number. The controller runs the oldest up to that
// number. A namespace that is full is not counted again for a while, and requests that come
// together share a count, so that a burst costs little.
type policyLimit struct {
	client metadata.Interface
	most   int
	counts singleflight.Group
	// slots bounds how many lists are under way. Each reads one policy, as large as its author made
	// it.
	slots *semaphore.Weighted
	full  *cache.LRUExpireCache // namespaces
}

// newPolicyLimit makes a limit. Without a client there is none.
func newPolicyLimit(client metadata.Interface, most int, clock Clock) *policyLimit {
	if client == nil {
		return nil
	}
	return &policyLimit{client: client, most: most, full: cache.NewLRUExpireCacheWithClock(maxAnswers, clock),
		slots: semaphore.NewWeighted(countsAtOnce)}
}

const (
	// fullFor is how long a namespace counts as full.
	fullFor = time.Second
	// countsAtOnce is how many lists of policies may be under way.
	countsAtOnce = 4
)

// check returns an error if a namespace has as many policies as it may, unless name is one of them:
// the API server then says that it exists. Where policies cannot be counted the policy is admitted:
// the controller counts as well.
func (l *policyLimit) check(ctx context.Context, namespace, name string) (*field.Error, error) {
	full, err := l.isFull(ctx, namespace)
	if err != nil || !full {
		return nil, err
	}
	if name != "" {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		if there, err := l.count(ctx, namespace, selector); err != nil || there > 0 {
			return nil, err
		}
	}
	why := fmt.Sprintf("namespace %q has %d CleanupPolicies, and no more than %[2]d of them run (--cleanup-max-policies): "+
		"delete one, or match more with one policy", namespace, l.most)
	return field.Forbidden(field.NewPath("metadata", "namespace"), why), nil
}

func (l *policyLimit) isFull(ctx context.Context, namespace string) (bool, error) {
	if _, full := l.full.Get(namespace); full || l.most <= 0 {
		return true, nil
	}
	full, err, _ := l.counts.Do(namespace, func() (any, error) {
		n, err := l.count(context.WithoutCancel(ctx), namespace, "")
		return err == nil && n >= l.most, err
	})
	if full != true {
		return false, err
	}
	l.full.Add(namespace, true, fullFor)
	return true, nil
}

// count counts the policies of a namespace that a field selector matches. It reads one of them: the
// API server counts the rest.
func (l *policyLimit) count(ctx context.Context, namespace, selector string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return 0, fmt.Errorf("waiting to count the CleanupPolicies of namespace %s: %w", namespace, err)
	}
	defer l.slots.Release(1)
	list, err := l.client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)).Namespace(namespace).
		List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: selector})
	if err != nil {
		return 0, fmt.Errorf("counting the CleanupPolicies of namespace %s: %w", namespace, err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}

// validateTally asks the rules about a PodTally.
func (w *Webhooks) validateTally(ctx context.Context, request *request) admission.Response {
	found, err := compileBoth(ctx, w, request, func(object *v1alpha1.PodTally) (*tally.Tally, field.ErrorList) {
		object.Namespace = request.facts.Namespace // On CREATE it may only be in the URL.
		return tally.Compile(object)
	})
	if err != nil {
		return uncompiled(err)
	}
	review := &rules.TallyRequest{Options: w.options, Outer: w.source.store.Snapshot().BoundingKind(policy.PodProfile.Kind.GroupKind()),
		Tally: found.now, Old: found.old, Errors: found.errs, OldErrors: found.oldErrs}
	if review.Namespace, err = w.source.Namespace(ctx, request.facts.Namespace); err != nil {
		return w.unreadable(request, err)
	}
	if w.source.tallies != nil {
		review.Others, _ = w.source.tallies.In(request.facts.Namespace) // The rule about them only warns.
	}
	if user := w.settings.ControllerUser; user != "" && w.settings.Access != nil && review.Old == nil {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		may, err := w.settings.Access.May(ctx, authenticationv1.UserInfo{Username: user, Groups: serviceAccountGroups(user)},
			authorizationv1.ResourceAttributes{Verb: "patch", Namespace: request.facts.Namespace, Resource: "pods"})
		review.ControllerLacks = err == nil && !may
	}
	if w.settings.Access != nil && review.SetsTTL() {
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
		defer cancel()
		review.Author, err = w.ask(ctx, request.review.UserInfo, authorizationv1.ResourceAttributes{Namespace: request.facts.Namespace, Version: "v1",
			Resource: "pods"})
		if err != nil && w.options.RequireDelete {
			return unanswered("curfew could not find out in time whether you may delete Pods", err)
		}
	}
	return decided(rules.ReviewTally(review), request.user.IsPerson())
}

// tallyKind is the kind of PodTallies.
const tallyKind = "PodTally"
