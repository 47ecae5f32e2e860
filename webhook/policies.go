package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// compiles reports whether objects of a kind of Curfew's group are compiled at admission.
func (w *Webhooks) compiles(kind string) bool {
	return kind == "LifecyclePolicy" || kind == "KindProfile" || kind == cleanupKind || kind == clusterCleanupKind || kind == tallyKind
}

// validatePolicy asks the rules about a policy, KindProfile or PodTally.
func (w *Webhooks) validatePolicy(ctx context.Context, request *request, now time.Time) answer {
	kind := request.facts.Profile.Kind
	if request.facts.Deleting || kind.Group != wellknown.Group || !w.compiles(kind.Kind) {
		return untouched()
	}
	if kind.Kind == cleanupKind || kind.Kind == clusterCleanupKind {
		return w.validateCleanup(ctx, request)
	}
	if kind.Kind == tallyKind {
		return w.validateTally(ctx, request)
	}
	review := &rules.PlatformRequest{Options: w.options, Now: now}
	var err error
	if review.Policy, review.Errors, err = w.compile(kind.Kind, request.review.Object.Raw); err != nil {
		return invalid(fmt.Errorf("request.object: %w", err))
	}
	if request.old != nil {
		if review.OldPolicy, review.OldErrors, err = w.compile(kind.Kind, request.review.Old.Raw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	if lister, ok := w.source.namespaces.(NamespaceLister); ok && review.Policy != nil && review.Policy.Bounds != (lifetime.Bounds{}) {
		review.Namespaces = lister.Bounded()
	}
	return decided(rules.ReviewPlatform(review), request.user.IsPerson())
}

func (w *Webhooks) compile(kind, raw string) (*expression.Policy, field.ErrorList, error) {
	if kind == "KindProfile" {
		object := &v1alpha1.KindProfile{}
		if err := json.Unmarshal([]byte(raw), object); err != nil {
			return nil, nil, err
		}
		_, errs := w.compiler.UserProfile(object)
		return nil, errs, nil
	}
	object := &v1alpha1.LifecyclePolicy{}
	if err := json.Unmarshal([]byte(raw), object); err != nil {
		return nil, nil, err
	}
	compiled, errs := w.compiler.Policy(object)
	return compiled, errs, nil
}

// Kinds of cleanup policies.
const (
	cleanupKind        = "CleanupPolicy"
	clusterCleanupKind = "ClusterCleanupPolicy"
)

// validateCleanup asks the rules about a cleanup policy.
func (w *Webhooks) validateCleanup(ctx context.Context, request *request) answer {
	review := &rules.CleanupRequest{Options: w.options}
	compiled, errs, err := w.compileCleanup(request.kind.Kind, request.review.Object.Raw)
	if err != nil {
		return invalid(fmt.Errorf("request.object: %w", err))
	}
	review.Policy, review.Errors = compiled, errs
	var before *cleanup.Policy
	if request.old != nil {
		if before, review.OldErrors, err = w.compileCleanup(request.kind.Kind, request.review.Old.Raw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	review.Before = before
	if w.policyLimit != nil && len(errs) == 0 && request.old == nil && request.kind.Kind == cleanupKind {
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
	if tooMany != nil || w.reviews == nil || !compiled.Widens(before) {
		return decided(rules.ReviewCleanup(review), request.user.IsPerson())
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	author, err := request.review.UserInfo()
	if err == nil {
		review.AuthorLacks, err = w.lacks(ctx, author, compiled, access)
	}
	if err != nil { // An error would let the policy pass where the webhook fails open.
		w.log.Error(err, "access reviews of the author of a cleanup policy", "policy", compiled.ID())
		return unanswered("curfew could not find out in time whether you may delete what the policy matches", err)
	}
	user := w.cleanupUser
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
	missing := make([][]string, len(access))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReviews)
	for i, of := range access {
		missing[i] = make([]string, len(of.Verbs))
		for j, verb := range of.Verbs {
			group.Go(func() error {
				may, err := w.reviews.May(ctx, user, authorizationv1.ResourceAttributes{
					Verb: verb, Namespace: p.Namespace, Group: of.Group, Resource: of.Resource,
				})
				if !may {
					missing[i][j] = verb
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []string
	for i := range access {
		if verbs := slices.DeleteFunc(missing[i], func(verb string) bool { return verb == "" }); len(verbs) > 0 {
			out = append(out, rules.Enumerate(verbs)+" "+access[i].String())
		}
	}
	return out, nil
}

// maxReviews is how many access reviews run at once.
const maxReviews = 16

// maxCause bounds the text in a denial that says why there was no answer.
const maxCause = 256

// unanswered denies a request whose author's permissions could not be found out in time.
func unanswered(message string, why error) answer {
	message += ", try again in a second: " + quote.ShortenTo(why.Error(), maxCause)
	out := shed(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message)
	out.response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return out
}

func (w *Webhooks) compileCleanup(kind, raw string) (*cleanup.Policy, field.ErrorList, error) {
	var compiled *cleanup.Policy
	var errs field.ErrorList
	if kind == cleanupKind {
		object := &v1alpha1.CleanupPolicy{}
		if err := json.Unmarshal([]byte(raw), object); err != nil {
			return nil, nil, err
		}
		compiled, errs = cleanup.CompileNamespaced(w.compiler, object)
	} else {
		object := &v1alpha1.ClusterCleanupPolicy{}
		if err := json.Unmarshal([]byte(raw), object); err != nil {
			return nil, nil, err
		}
		compiled, errs = cleanup.Compile(w.compiler, object)
	}
	if err := compiled.CheckInterval(w.cleanupInterval); err != nil {
		errs = append(errs, err)
	}
	return compiled, errs, nil
}

// policyLimit denies CleanupPolicies beyond a number. The controller runs the oldest up to that
// number. A namespace that is full is not counted again for a while, and requests that come
// together share a count, so that a burst costs little.
type policyLimit struct {
	client metadata.Interface
	most   int
	clock  Clock
	counts singleflight.Group
	// slots bounds how many lists are under way. Each reads one policy, as large as its author made
	// it.
	slots chan struct{}

	mu   sync.Mutex
	full map[string]time.Time // until when a namespace counts as full
}

// newPolicyLimit makes a limit. Without a client there is none.
func newPolicyLimit(client metadata.Interface, most int, clock Clock) *policyLimit {
	if client == nil {
		return nil
	}
	return &policyLimit{client: client, most: most, clock: clock, slots: make(chan struct{}, countsAtOnce), full: map[string]time.Time{}}
}

const (
	// fullFor is how long a namespace counts as full.
	fullFor = time.Second
	// maxFull bounds how many namespaces are remembered.
	maxFull = 4096
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
		of := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		if there, err := l.count(ctx, namespace, of); err != nil || there > 0 {
			return nil, err
		}
	}
	why := fmt.Sprintf("namespace %q has %d CleanupPolicies, and no more than %d of them run (--cleanup-max-policies): delete one, or match more with one policy", namespace, l.most, l.most)
	return field.Forbidden(field.NewPath("metadata", "namespace"), why), nil
}

func (l *policyLimit) isFull(ctx context.Context, namespace string) (bool, error) {
	l.mu.Lock()
	until := l.full[namespace]
	l.mu.Unlock()
	if l.most <= 0 || l.clock.Now().Before(until) {
		return true, nil
	}
	full, err, _ := l.counts.Do(namespace, func() (any, error) {
		n, err := l.count(context.WithoutCancel(ctx), namespace, "")
		return err == nil && n >= l.most, err
	})
	if full != true {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.full) >= maxFull {
		clear(l.full)
	}
	l.full[namespace] = l.clock.Now().Add(fullFor)
	return true, nil
}

// count counts the policies of a namespace that a field selector matches. It reads one of them: the
// API server counts the rest.
func (l *policyLimit) count(ctx context.Context, namespace, selector string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting to count the CleanupPolicies of namespace %s: %w", namespace, ctx.Err())
	}
	list, err := l.client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)).Namespace(namespace).
		List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: selector})
	if err != nil {
		return 0, fmt.Errorf("counting the CleanupPolicies of namespace %s: %w", namespace, err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}
