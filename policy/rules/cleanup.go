package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
)

// Names of the rules about cleanup policies.
const (
	// CleanupAuthor: the author of a cleanup policy must be allowed to get, list and delete what it
	// matches, and to read what its lookups and namespaceObject read.
	CleanupAuthor = "cleanup-author"
	// CleanupAccount: the service account of a cleanup policy should be allowed the same.
	CleanupAccount = "cleanup-account"
	// CleanupApproval: users who may edit a policy can lift its approval.
	CleanupApproval = "cleanup-approval"
	// cleanupRuns: minUnused should span several runs.
	cleanupRuns = "cleanup-runs"
)

// CleanupAccess is what a cleanup policy does to a resource, and so the permissions that it takes.
type CleanupAccess struct {
	schema.GroupResource
	Verbs []string
}

// String is the resource as messages write it.
func (a *CleanupAccess) String() string {
	if a.Group == "*" && a.Resource == "*" {
		return "every resource"
	}
	return a.GroupResource.String()
}

// MaxDeletions is how many resources a policy may name: each takes access reviews at admission.
const MaxDeletions = 64

// CleanupAccessOf is what a policy deletes, and what its lookups and namespaceObject read. An error
// is too many resources. lookup.mounted also reads pod templates of any kind. A user who may list
// Pods sees what most of them mount, so the kinds of the templates are not asked for.
func CleanupAccessOf(p *cleanup.Policy) ([]CleanupAccess, *field.Error) {
	var out []CleanupAccess
	add := func(group, resource string, verbs ...string) {
		named := schema.GroupResource{Group: group, Resource: resource}
		if !slices.ContainsFunc(out, func(c CleanupAccess) bool { return c.GroupResource == named }) {
			out = append(out, CleanupAccess{named, verbs})
		}
	}
	for i := range p.Spec.MatchConstraints.ResourceRules {
		rule := &p.Spec.MatchConstraints.ResourceRules[i]
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				// A user who may not read objects must not learn by a condition what they contain.
				add(group, resource, "get", "list", "delete")
			}
		}
		if len(out) > MaxDeletions {
			return nil, field.TooMany(field.NewPath("spec", "matchConstraints", "resourceRules"), len(out), MaxDeletions)
		}
	}
	if p.Expressions.ReadsNamespace {
		add("", "namespaces", "get")
	}
	if slices.Contains(p.Expressions.Lookups, expression.LookupService) {
		add("", "services", "list")
		add("discovery.k8s.io", "endpointslices", "list")
	}
	if slices.Contains(p.Expressions.Lookups, expression.LookupMounted) {
		add("", "pods", "list")
		add("", "persistentvolumeclaims", "list")
	}
	if p.ReadsCluster() != "" {
		add("*", "*", "list")
	}
	return out, nil
}

// CleanupRequest is one change of a cleanup policy.
type CleanupRequest struct {
	// Errors are the compile errors of the policy, and OldErrors of the old one.
	Errors, OldErrors field.ErrorList
	// Policy is the policy, if it compiles; else nil.
	Policy *cleanup.Policy
	// Before is the policy before the change, if there was one and it compiles; else nil.
	Before *cleanup.Policy
	// AuthorLacks are permissions that the author does not have, and AccountLacks permissions that the
	// account of the policy does not have.
	AuthorLacks, AccountLacks []string
	Options                   Options
}

// ReviewCleanup denies a cleanup policy that cannot run, and one whose author may not do what it
// does: a CleanupPolicy always, a ClusterCleanupPolicy with --require-delete.
func ReviewCleanup(r *CleanupRequest) *Decision {
	out := report{found: added(compiling(r.Errors), compiling(r.OldErrors))}
	path, where := "spec.matchConstraints.resourceRules", ""
	if r.Policy != nil && r.Policy.Namespace != "" {
		where = fmt.Sprintf(" in namespace %q", r.Policy.Namespace)
	}
	if r.Policy != nil && r.Before != nil && r.Before.NeedsApproval(false) && !r.Policy.NeedsApproval(false) {
		message := "the policy deletes without an approval from now on"
		if where != "" {
			message += ", unless the controller has --require-approval"
		}
		out.rule = CleanupApproval
		out.warn("spec.approval", string(r.Policy.Spec.Approval), message)
	}
	if r.Policy != nil {
		if few := r.Policy.FewRuns(); few != "" {
			out.rule = cleanupRuns
			out.warn("spec.minUnused", string(*r.Policy.Spec.MinUnused), few)
		}
	}
	if lacks := some(r.AuthorLacks); lacks != "" {
		message := fmt.Sprintf("the policy deletes objects, but you may not %s%s: ask for this permission, or match less", lacks, where)
		severity := Warn
		if where != "" || r.Options.RequireDelete {
			severity = Deny
		}
		out.rule = CleanupAuthor
		out.add(severity, path, lacks, message)
	}
	if lacks := some(r.AccountLacks); lacks != "" {
		who := "Curfew"
		if r.Policy != nil && r.Policy.Account.Name != "" {
			who = "service account " + r.Policy.Account.String()
		}
		out.rule = CleanupAccount
		out.warn(path, lacks, fmt.Sprintf("%s may not %s%s: such objects are kept until it may", who, lacks, where))
	}
	return &Decision{Findings: out.found}
}

// some are the first of several permissions, and how many others there are.
func some(lacks []string) string {
	const most = 3
	text := strings.Join(lacks[:min(len(lacks), most)], ", ")
	if len(lacks) > most {
		text += fmt.Sprintf(" and %d more", len(lacks)-most)
	}
	return text
}

// Enumerate is "a", "a and b", or "a, b and c".
func Enumerate(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
