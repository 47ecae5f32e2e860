package cleanup

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// approved reports whether the first run of the policy as it is now may delete.
func (c *Controller) approved(ctx context.Context, p *cleanup.Policy) (bool, error) {
	if !p.NeedsApproval(c.options.RequireApproval) {
		return true, nil
	}
	resource := c.options.Objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupApprovals))
	list := resource.List
	if p.Namespace != "" {
		list = c.options.Objects.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupApprovals)).Namespace(p.Namespace).List
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return false, fmt.Errorf("listing approvals of %s: %w", p.ID(), err)
		}
		found := slices.ContainsFunc(page.Items, func(one unstructured.Unstructured) bool { return p.ApprovedBy(&one) })
		if options.Continue = page.GetContinue(); found || options.Continue == "" {
			return found, nil
		}
	}
}
