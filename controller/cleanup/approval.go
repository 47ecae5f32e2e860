package cleanup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// approved reports whether the first run of the policy as it is now may delete.
func (c *Controller) approved(ctx context.Context, p *cleanup.Policy) (bool, error) {
	if !p.NeedsApproval(c.options.RequireApproval) {
		return true, nil
	}
	resource := v1alpha1.ClusterCleanupApprovals
	if p.Namespace != "" {
		resource = v1alpha1.CleanupApprovals
	}
	found := false
	err := survey.Clients{Objects: c.options.Objects}.Each(ctx, v1alpha1.GroupVersion.WithResource(resource), p.Namespace, metav1.ListOptions{}, func(one *unstructured.Unstructured) error {
		found = found || p.ApprovedBy(one)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("listing approvals of %s: %w", p.ID(), err)
	}
	return found, nil
}
