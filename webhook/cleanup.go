package webhook

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

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

// lacks returns the permissions that a user does not have on what a policy reads and deletes.
func (w *Webhooks) lacks(ctx context.Context, user authenticationv1.UserInfo, p *cleanup.Policy, access []rules.CleanupAccess) ([]string, error) {
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

// maxCause bounds what a denial says of the reason why there was no answer.
const maxCause = 256

// unanswered denies a request whose author's permissions could not be found out in time.
func unanswered(message string, why error) answer {
	message += ", try again in a second: " + policy.ShortenTo(why.Error(), maxCause)
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
