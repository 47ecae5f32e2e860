package cleanup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Policy is a compiled cleanup policy. It is safe for concurrent use.
type Policy struct {
	// Namespace of a CleanupPolicy; empty for a ClusterCleanupPolicy.
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// Account is the service account whose rights count; zero means Curfew's own.
	Account types.NamespacedName
	// Spec has the fields that both kinds share. Do not change it.
	Spec *v1alpha1.CleanupSpec
	// Hash of the fields that decide which objects are deleted.
	Hash string
	// Schedule of the runs; nil if it cannot be read.
	Schedule *schedule.Schedule
	// Report: it is only evaluated. See [CompileReport].
	Report bool
	// MinUnused is how long an object must match before it is deleted.
	MinUnused time.Duration
	// Expressions of the policy.
	Expressions *expression.Cleanup

	match, exclude *selection
}

// selection is a compiled CleanupMatch or CleanupExclusion.
type selection struct {
	rules              []v1alpha1.ResourceRule
	namespaces, labels labels.Selector
	excludes           bool
}

// Compile compiles a ClusterCleanupPolicy. With errors the policy must not run (S6).
func Compile(compiler *expression.Compiler, object *v1alpha1.ClusterCleanupPolicy) (*Policy, field.ErrorList) {
	account := types.NamespacedName{Namespace: object.Spec.ServiceAccountNamespace, Name: object.Spec.ServiceAccountName}
	return compile(compiler, &object.ObjectMeta, &object.Spec.CleanupSpec, account)
}

// CompileNamespaced compiles a CleanupPolicy. With errors the policy must not run (S6).
func CompileNamespaced(compiler *expression.Compiler, object *v1alpha1.CleanupPolicy) (*Policy, field.ErrorList) {
	account := types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.ServiceAccountName}
	policy, errs := compile(compiler, &object.ObjectMeta, &object.Spec.CleanupSpec, account)
	policy.Namespace = object.Namespace
	if account.Name == "" { // Without one it would run with Curfew's rights (S10).
		errs = append(errs, field.Required(field.NewPath("spec", "serviceAccountName"), "the policy deletes with the rights of this account"))
	}
	if lookup := policy.ReadsCluster(); lookup != "" {
		errs = append(errs, field.Invalid(field.NewPath("spec", "conditions"), lookup,
			"any object of the cluster may refer to an object: use a ClusterCleanupPolicy"))
	}
	return policy, errs
}

func compile(compiler *expression.Compiler, meta *metav1.ObjectMeta, spec *v1alpha1.CleanupSpec,
	account types.NamespacedName) (*Policy, field.ErrorList) {
	out := &Policy{Name: meta.Name, UID: meta.UID, Generation: meta.Generation, Account: account, Spec: spec, Hash: hash(spec, account)}
	path := field.NewPath("spec")
	errs := checkAccount(path, account)
	var err error
	if out.Schedule, err = schedule.Parse(spec.Schedule, spec.TimeZone); err != nil {
		errs = append(errs, field.Invalid(path.Child("schedule"), spec.Schedule, err.Error()))
	} else if out.Schedule.Never() {
		errs = append(errs, field.Invalid(path.Child("schedule"), spec.Schedule, "no date matches: the policy would never run"))
	}
	var unused *field.Error
	if out.MinUnused, unused = parseMinUnused(path.Child("minUnused"), spec.MinUnused); unused != nil {
		errs = append(errs, unused)
	}
	match := &spec.MatchConstraints
	if len(match.ResourceRules) == 0 {
		errs = append(errs, field.Required(path.Child("matchConstraints", "resourceRules"), "name the resources that the policy deletes"))
	}
	out.match = newSelection(path.Child("matchConstraints"), match.ResourceRules, match.NamespaceSelector, match.ObjectSelector, &errs)
	if exclude := spec.Exclude; exclude != nil {
		out.exclude = newSelection(path.Child("exclude"), exclude.ResourceRules, exclude.NamespaceSelector, exclude.ObjectSelector, &errs)
		out.exclude.excludes = true
	}
	var more field.ErrorList
	out.Expressions, more = compiler.Cleanup(spec)
	return out, slices.Concat(errs, more, out.checkLookups(path), out.checkIgnored(path))
}

// checkAccount refuses names that no service account can have: they become part of a user name and
// of a path.
func checkAccount(path *field.Path, account types.NamespacedName) (errs field.ErrorList) {
	if account.Name == "" {
		return nil
	}
	for _, message := range validation.IsDNS1123Subdomain(account.Name) {
		errs = append(errs, field.Invalid(path.Child("serviceAccountName"), account.Name, message))
	}
	if account.Namespace != "" { // A manifest may leave it out.
		for _, message := range validation.IsDNS1123Label(account.Namespace) {
			errs = append(errs, field.Invalid(path.Child("serviceAccountNamespace"), account.Namespace, message))
		}
	}
	return errs
}

func newSelection(path *field.Path, rules []v1alpha1.ResourceRule, namespaces, objects *metav1.LabelSelector,
	errs *field.ErrorList) *selection {
	selector := func(name string, spec *metav1.LabelSelector) labels.Selector {
		if spec == nil {
			return labels.Everything()
		}
		out, err := metav1.LabelSelectorAsSelector(spec)
		if err != nil {
			*errs = append(*errs, field.Invalid(path.Child(name), metav1.FormatLabelSelector(spec), err.Error()))
			return labels.Nothing()
		}
		return out
	}
	return &selection{rules: rules, namespaces: selector("namespaceSelector", namespaces), labels: selector("objectSelector", objects)}
}

// hash identifies the fields that decide which objects are deleted: all of the spec but suspend,
// which only stops the policy.
func hash(spec *v1alpha1.CleanupSpec, account types.NamespacedName) string {
	decides := *spec
	decides.Suspend = false
	text, err := json.Marshal(struct {
		Spec    *v1alpha1.CleanupSpec
		Account string
	}{&decides, account.String()})
	if err != nil {
		return "" // Structs of strings and numbers always marshal; no approval names "".
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Widens reports whether the policy may delete or look at more than it did before; nil is a new
// policy. Anyone who can update a policy may suspend it, or make it a dry run.
func (p *Policy) Widens(before *Policy) bool {
	if p.Spec.Suspend {
		return false // It does nothing until a user resumes it; the rule checks that user then.
	}
	if before == nil || before.Spec.Suspend {
		return true
	}
	dry := *before.Spec
	dry.DryRun = true
	return p.Hash != before.Hash && p.Hash != hash(&dry, before.Account)
}

// CheckInterval returns an error for a schedule that runs more often than allowed.
func (p *Policy) CheckInterval(least time.Duration) *field.Error {
	if p.Schedule == nil || p.Schedule.Never() || p.Schedule.MinInterval() >= least {
		return nil
	}
	return field.Invalid(field.NewPath("spec", "schedule"), p.Spec.Schedule,
		fmt.Sprintf("two runs are %s apart: leave at least %s between them", p.Schedule.MinInterval(), least))
}

// ID names the policy in logs, metrics and as the source of deletions: cleanup/NAME, or
// cleanup/NAMESPACE/NAME.
func (p *Policy) ID() string {
	if p.Namespace == "" {
		return "cleanup/" + p.Name
	}
	return fmt.Sprintf("cleanup/%s/%s", p.Namespace, p.Name)
}

// Read compiles a policy of either kind, as the API server returns it.
func Read(compiler *expression.Compiler, object *unstructured.Unstructured) (p *Policy, errs field.ErrorList,
	status v1alpha1.CleanupPolicyStatus) {
	var unreadable error
	if object.GetNamespace() == "" {
		policy := &v1alpha1.ClusterCleanupPolicy{}
		unreadable = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy)
		p, errs = Compile(compiler, policy)
		status = policy.Status
	} else {
		cleanupPolicy := &v1alpha1.CleanupPolicy{}
		unreadable = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cleanupPolicy)
		p, errs = CompileNamespaced(compiler, cleanupPolicy)
		status = cleanupPolicy.Status
	}
	errs = append(errs, requirement.Unmet(KindOf(object), object.Object)...)
	if unreadable != nil {
		errs = field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, unreadable.Error())}
	}
	return p, errs, status
}

// KindOf is the kind of a policy, which an object of a list may leave out.
func KindOf(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return "ClusterCleanupPolicy"
	}
	return "CleanupPolicy"
}

// NeedsApproval reports whether the policy needs an approval. mandatory is --require-approval,
// which applies to CleanupPolicies only.
func (p *Policy) NeedsApproval(mandatory bool) bool {
	return p.Spec.Approval == v1alpha1.ApprovalRequired || p.Namespace != "" && mandatory
}

// ApprovedBy reports whether an approval is for the policy as it is now. Once the policy has had
// another spec, only an approval that is created after a time counts (status.approvalsAfterTime).
func (p *Policy) ApprovedBy(approval *unstructured.Unstructured, after *metav1.Time) bool {
	if after != nil && !approval.GetCreationTimestamp().After(after.Time) {
		return false
	}
	uid, _, _ := unstructured.NestedString(approval.Object, "spec", "policyUID")
	hash, _, _ := unstructured.NestedString(approval.Object, "spec", "specHash")
	return types.UID(uid) == p.UID && hash == p.Hash && p.Hash != ""
}
