package webhook

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	if request.old != nil {
		if _, review.OldErrors, err = w.compileCleanup(request.kind.Kind, request.review.Old.Raw); err != nil {
			return invalid(fmt.Errorf("request.oldObject: %w", err))
		}
	}
	deletions, tooMany := rules.DeletionsOf(compiled)
	if tooMany != nil {
		review.Errors = append(review.Errors, tooMany)
	}
	if tooMany != nil || w.reviews == nil {
		return decided(rules.ReviewCleanup(review), request.user.IsPerson())
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	author, err := request.review.UserInfo()
	if err == nil {
		review.AuthorLacks, err = w.lacks(ctx, author, compiled, deletions)
	}
	if err != nil { // Nobody gets a policy past this check by making it fail: the failure policy decides.
		return failed("Curfew could not find out whether you may delete what the policy matches: try again", err)
	}
	user := w.controllerUser
	if account := compiled.Account; account.Name != "" {
		user = fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name)
	}
	if user != "" {
		review.AccountLacks, _ = w.lacks(ctx, authenticationv1.UserInfo{Username: user, Groups: serviceAccountGroups(user)}, compiled, deletions)
	}
	return decided(rules.ReviewCleanup(review), request.user.IsPerson())
}

// lacks returns the permissions that a user does not have: to list and delete what a policy names.
// Who may not list objects must not learn by a condition what they contain.
func (w *Webhooks) lacks(ctx context.Context, user authenticationv1.UserInfo, p *cleanup.Policy, deletions []rules.Deletion) ([]string, error) {
	var out []string
	for _, deletion := range deletions {
		var verbs []string
		for _, verb := range []string{"delete", "list"} {
			allowed, err := w.reviews.May(ctx, user, authorizationv1.ResourceAttributes{
				Verb: verb, Namespace: p.Namespace, Group: deletion.Group, Resource: deletion.Resource,
			})
			if err != nil {
				return nil, err
			}
			if !allowed {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			out = append(out, strings.Join(verbs, " and ")+" "+deletion.String())
		}
	}
	return out, nil
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
