package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// CleanupPolicy is a cleanup policy of either kind.
type CleanupPolicy struct {
	storedPolicy
	object *unstructured.Unstructured
}

// storedPolicy has the fields that both kinds have.
type storedPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              v1alpha1.CleanupSpec         `json:"spec"`
	Status            v1alpha1.CleanupPolicyStatus `json:"status"`
}

func cleanupPolicyOf(object *unstructured.Unstructured) (*CleanupPolicy, error) {
	stored, err := typed[storedPolicy](object)
	if err != nil {
		return nil, err
	}
	return &CleanupPolicy{*stored, object}, nil
}

// Compile compiles the policy.
func (p *CleanupPolicy) Compile(compiler *expression.Compiler) (*cleanup.Policy, field.ErrorList) {
	compiled, errs, _ := cleanup.Read(compiler, p.object)
	return compiled, errs
}

// String names the policy as kubectl does, with its namespace.
func (p *CleanupPolicy) String() string {
	out := strings.ToLower(p.Kind) + "/" + p.Name
	if p.Namespace != "" {
		out += fmt.Sprintf(" in namespace %q", p.Namespace)
	}
	return out
}

// Source names the policy as the source of deletions.
func (p *CleanupPolicy) Source() string {
	return (&cleanup.Policy{Namespace: p.Namespace, Name: p.Name}).ID()
}

// resourceIn is a resource of the group in a namespace: namespaced, or for "" clustered.
func resourceIn(namespace, namespaced, clustered string) schema.GroupVersionResource {
	if namespace == "" {
		return v1alpha1.GroupVersion.WithResource(clustered)
	}
	return v1alpha1.GroupVersion.WithResource(namespaced)
}

// cleanupKinds are the names of the kinds that a reference may begin with.
var cleanupKinds = map[string]string{
	"cleanuppolicy": v1alpha1.CleanupPolicies, v1alpha1.CleanupPolicies: v1alpha1.CleanupPolicies, "cup": v1alpha1.CleanupPolicies,
	"clustercleanuppolicy": v1alpha1.ClusterCleanupPolicies, v1alpha1.ClusterCleanupPolicies: v1alpha1.ClusterCleanupPolicies,
	"ccup": v1alpha1.ClusterCleanupPolicies,
}

// CleanupPolicy reads the policy that a user named: NAME, or KIND/NAME where policies of both kinds
// have that name.
func (w *World) CleanupPolicy(ctx context.Context, reference, namespace string) (*CleanupPolicy, error) {
	resources, name := []string{v1alpha1.CleanupPolicies, v1alpha1.ClusterCleanupPolicies}, reference
	if kind, rest, ok := strings.Cut(reference, "/"); ok {
		resource := cleanupKinds[strings.TrimSuffix(strings.ToLower(kind), "."+wellknown.Group)]
		if resource == "" {
			return nil, fmt.Errorf("%q is not a kind of cleanup policy: give cleanuppolicy/NAME or clustercleanuppolicy/NAME", kind)
		}
		resources, name = []string{resource}, rest
	}
	var found []*CleanupPolicy
	var unread []string
	for _, resource := range resources {
		where := namespace
		if resource == v1alpha1.ClusterCleanupPolicies {
			where = ""
		}
		object, presence, err := Read[unstructured.Unstructured](ctx, w, v1alpha1.GroupVersion.WithResource(resource), where, name)
		if presence == Unread {
			unread = append(unread, resource)
		}
		if presence == Found {
			var cleanupPolicy *CleanupPolicy
			cleanupPolicy, err = cleanupPolicyOf(object)
			found = append(found, cleanupPolicy)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && w.Installed() != nil:
		return nil, w.Installed()
	case len(found) > 1:
		return nil, fmt.Errorf("policies of two kinds have this name: give cleanuppolicy/%s or clustercleanuppolicy/%[1]s", name)
	case len(unread) > 0:
		return nil, fmt.Errorf("you may not get %s: ask for a role that allows it", strings.Join(unread, " or "))
	case len(resources) == 1 && resources[0] == v1alpha1.ClusterCleanupPolicies:
		return nil, fmt.Errorf("there is no ClusterCleanupPolicy %q", name)
	case len(resources) == 1:
		return nil, fmt.Errorf("there is no CleanupPolicy %q in namespace %q", name, namespace)
	}
	return nil, fmt.Errorf("there is no CleanupPolicy %q in namespace %q, and no ClusterCleanupPolicy of that name", name, namespace)
}

// CleanupReports are the report pages of a policy that list objects, by run and page.
func (w *World) CleanupReports(ctx context.Context, p *CleanupPolicy) ([]*v1alpha1.CleanupReport, error) {
	pages, presence, err := w.reportPages(ctx, p)
	if err != nil {
		return nil, err
	}
	if presence == Unread {
		return nil, fmt.Errorf("you may not list %s: ask for a role that allows it", p.reports().Resource)
	}
	return slices.DeleteFunc(pages, func(page *v1alpha1.CleanupReport) bool { return len(page.Matched) > 0 }), nil
}

// CleanupMatched is in how many runs in a row, and since when, objects have matched before a run
// that starts now.
func (w *World) CleanupMatched(ctx context.Context, p *CleanupPolicy, compiled *cleanup.Policy, now time.Time) (cleanup.Matched, error) {
	left := p.Status.Matches
	if left == nil {
		return nil, nil
	}
	due, _ := compiled.Schedule.Latest(left.ScheduledTime.Time, now)
	if due.IsZero() {
		due = compiled.Schedule.Next(left.ScheduledTime.Time)
	}
	pages, presence, err := w.reportPages(ctx, p)
	if err != nil {
		return nil, err
	}
	if presence == Unread {
		w.Note(fmt.Sprintf("you may not list %s: in how many runs objects have matched before is not known", p.reports().Resource))
	}
	return compiled.ReadMatched(left, due, func(number int32) ([]byte, error) {
		i := slices.IndexFunc(pages, func(page *v1alpha1.CleanupReport) bool {
			return page.Run == left.Run && page.Page == number && len(page.Matched) > 0
		})
		if i < 0 {
			return nil, nil
		}
		return pages[i].Matched, nil
	})
}

// reports is the resource of the policy's report pages.
func (p *CleanupPolicy) reports() schema.GroupVersionResource {
	return resourceIn(p.Namespace, v1alpha1.CleanupReports, v1alpha1.ClusterCleanupReports)
}

func (w *World) reportPages(ctx context.Context, p *CleanupPolicy) ([]*v1alpha1.CleanupReport, Presence, error) {
	ofPolicy := v1alpha1.LabelCleanupPolicyUID + "=" + string(p.UID)
	pages, presence, err := Items[v1alpha1.CleanupReport](ctx, w, p.reports(), p.Namespace, ofPolicy)
	slices.SortFunc(pages, func(a, b *v1alpha1.CleanupReport) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), cmp.Compare(a.Page, b.Page))
	})
	return pages, presence, err
}

func approvalsIn(namespace string) schema.GroupVersionResource {
	return resourceIn(namespace, v1alpha1.CleanupApprovals, v1alpha1.ClusterCleanupApprovals)
}

// ApproveCleanup creates the approval of a spec of a policy, by its hash, and reports whether there
// was none. The policy owns the approval, which is deleted with it.
func (w *World) ApproveCleanup(ctx context.Context, p *CleanupPolicy, hash string) (
	approval *unstructured.Unstructured, created bool, err error) {
	kind := strings.TrimSuffix(p.Kind, "Policy") + "Approval"
	name := fmt.Sprintf("%s-%.8s-%.8s", strings.TrimRight(p.Name[:min(len(p.Name), 200)], ".-"), p.UID, hash)
	if p.Status.ApprovalsAfterTime != nil { // An approval of the same spec may exist that does not count.
		name += fmt.Sprint("-", p.Generation)
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupApprovalSpec{PolicyUID: p.UID, SpecHash: hash})
	if err != nil {
		return nil, false, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(p.Namespace)
	object.SetName(name)
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: p.Kind, Name: p.Name, UID: p.UID}})
	client := w.objects(approvalsIn(p.Namespace), p.Namespace)
	approval, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	if err == nil {
		return approval, true, nil
	}
	named := Kind{GroupVersionKind: object.GroupVersionKind()}.Name(name)
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, fmt.Errorf("creating %s: %w", named, err)
	}
	known, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", named, err)
	}
	uid, _, _ := unstructured.NestedString(known.Object, "spec", "policyUID")
	approved, _, _ := unstructured.NestedString(known.Object, "spec", "specHash")
	if types.UID(uid) != p.UID || approved != hash {
		return nil, false, fmt.Errorf("%s approves something else: delete it", named)
	}
	return known, false, nil
}

// CleanupPolicies returns the policies that may delete objects of a namespace, or with "" of any.
// With clusterScoped it returns the policies that may delete cluster-scoped objects. unread are the
// kinds that the user may not list.
func (w *World) CleanupPolicies(ctx context.Context, namespace string, clusterScoped bool) (
	all []*CleanupPolicy, unread []string, err error) {
	for _, resource := range []string{v1alpha1.ClusterCleanupPolicies, v1alpha1.CleanupPolicies} {
		where := namespace
		switch {
		case resource == v1alpha1.ClusterCleanupPolicies:
			where = ""
		case clusterScoped:
			continue
		}
		found, presence, err := Items[unstructured.Unstructured](ctx, w, v1alpha1.GroupVersion.WithResource(resource), where, "")
		switch {
		case err != nil && !Gone(err):
			return nil, nil, err
		case err == nil && presence == Unread:
			unread = append(unread, resource)
		}
		for _, object := range found {
			cleanupPolicy, err := cleanupPolicyOf(object)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, cleanupPolicy)
		}
	}
	return all, unread, nil
}

// Approved reports whether a policy as it is now has an approval. It is not known if the user
// may not list approvals.
func (w *World) Approved(ctx context.Context, p *cleanup.Policy, status *v1alpha1.CleanupPolicyStatus) (approved, known bool, err error) {
	if p.UID == "" {
		return false, true, nil // It is not in the cluster.
	}
	resource := approvalsIn(p.Namespace)
	err = w.Each(ctx, resource, p.Namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		approved = approved || p.ApprovedBy(object, status.ApprovalsAfterTime)
		return nil
	})
	if apierrors.IsForbidden(err) {
		w.Lack("list %s", resource.GroupResource())
		return false, false, nil
	}
	return approved, true, err
}
