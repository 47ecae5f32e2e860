package cleanup

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Read compiles a policy of either kind, as the API server returns it.
func Read(compiler *expression.Compiler, object *unstructured.Unstructured) (*Policy, field.ErrorList, v1alpha1.CleanupPolicyStatus) {
	unreadable := func(err error) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error())}
	}
	convert := runtime.DefaultUnstructuredConverter
	if object.GetNamespace() == "" {
		of := &v1alpha1.ClusterCleanupPolicy{}
		err := convert.FromUnstructured(object.Object, of)
		p, errs := Compile(compiler, of)
		if err != nil {
			errs = unreadable(err)
		}
		return p, errs, of.Status
	}
	of := &v1alpha1.CleanupPolicy{}
	err := convert.FromUnstructured(object.Object, of)
	p, errs := CompileNamespaced(compiler, of)
	if err != nil {
		errs = unreadable(err)
	}
	return p, errs, of.Status
}

// NeedsApproval reports whether the policy needs an approval. mandatory is --require-approval,
// which applies to CleanupPolicies only.
func (p *Policy) NeedsApproval(mandatory bool) bool {
	return p.Spec.Approval == v1alpha1.ApprovalRequired || p.Namespace != "" && mandatory
}

// ApprovedBy reports whether an approval is for the policy as it is now.
func (p *Policy) ApprovedBy(approval *unstructured.Unstructured) bool {
	uid, _, _ := unstructured.NestedString(approval.Object, "spec", "policyUID")
	hash, _, _ := unstructured.NestedString(approval.Object, "spec", "specHash")
	return types.UID(uid) == p.UID && hash == p.Hash && p.Hash != ""
}
