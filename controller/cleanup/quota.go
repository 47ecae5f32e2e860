package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// trim deletes the oldest report pages of a namespace, of whatever policy, while all of them take
// more than reportBytes. Pages that a policy of the namespace still needs stay. Pages that no
// policy of the namespace has written are neither counted nor deleted.
func (s *store) trim(ctx context.Context, current string, now time.Time) error {
	policies, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	type sized struct {
		listedPage
		created time.Time
		bytes   int64
		of      types.UID
		run     string
		matched bool
	}
	var pages []sized
	total := int64(0)
	err = s.client.Each(ctx, s.reportResource, s.policy.Namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		of, known := policies[types.UID(object.GetLabels()[v1alpha1.LabelCleanupPolicyUID])]
		if !known {
			return nil
		}
		page := verifiedPage(object, of.PolicyReference, now)
		if page == nil {
			return nil
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("report %s: %w", object.GetName(), err)
		}
		total += int64(len(text))
		pages = append(pages, sized{
			listedPage{object.GetName(), object.GetUID(), object.GetResourceVersion()}, object.GetCreationTimestamp().Time, int64(len(text)), of.UID, page.Run, len(page.Matched) > 0,
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the reports of namespace %s: %w", s.policy.Namespace, err)
	}
	if total <= s.reportBytes {
		return nil
	}
	// A run that began meanwhile needs its pages: it was in no status before.
	if policies, err = s.neighbours(ctx); err != nil {
		return err
	}
	slices.SortFunc(pages, func(a, b sized) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) })
	var old []listedPage
	for _, page := range pages {
		of, known := policies[page.of]
		needed := !known || page.of == s.policy.UID && page.run == current || of.needs(page.run, page.matched)
		if total > s.reportBytes && !needed {
			total -= page.bytes
			old = append(old, page.listedPage)
		}
	}
	return s.deletePages(ctx, old)
}

// neighbour is a policy with the status that says which of its pages it needs. A forged status at
// worst costs pages of its own policy, or keeps them.
type neighbour struct {
	v1alpha1.PolicyReference
	status v1alpha1.CleanupPolicyStatus
}

// needs reports whether a run that has not ended may read a page, or the next one the matches on
// it.
func (n *neighbour) needs(id string, matched bool) bool {
	run := n.status.LastRun
	if matched && n.status.Matches != nil && n.status.Matches.Run == id {
		return true
	}
	return run != nil && run.ID == id && (run.Phase == v1alpha1.RunRunning || !matched && len(n.status.UncountedDeletions) > 0)
}

// neighbours are the policies of the namespace, by UID.
func (s *store) neighbours(ctx context.Context) (map[types.UID]*neighbour, error) {
	out := map[types.UID]*neighbour{}
	err := s.client.Each(ctx, v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies), s.policy.Namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		if status, err := statusOf(object); err == nil {
			out[object.GetUID()] = &neighbour{v1alpha1.PolicyReference{Name: object.GetName(), UID: object.GetUID()}, status}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the policies of namespace %s: %w", s.policy.Namespace, err)
	}
	return out, nil
}
