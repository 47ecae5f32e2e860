package cleanup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/v1alpha1"
)

// approved reports whether the run may delete: its policy needs no approval, or has one as it is
// now. All approvals are listed only to find one. Anyone who can create some in the namespace could
// otherwise make each batch wait for thousands.
func (r *run) approved(ctx context.Context) (bool, error) {
	p, objects := r.policy, r.c.options.Objects
	if !p.NeedsApproval(r.c.options.RequireApproval) {
		return true, nil
	}
	resource := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupApprovals)
	if p.Namespace != "" {
		resource = v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupApprovals)
	}
	if r.approval != "" {
		one, err := objects.Resource(resource).Namespace(p.Namespace).Get(ctx, r.approval, metav1.GetOptions{})
		switch {
		case err == nil && p.ApprovedBy(one):
			return true, nil
		case err != nil && !apierrors.IsNotFound(err):
			return false, fmt.Errorf("reading approval %s of %s: %w", r.approval, p.ID(), err)
		}
		r.approval = "" // There may be another one.
	}
	err := survey.Clients{Objects: objects}.Each(ctx, resource, p.Namespace, metav1.ListOptions{}, func(one *unstructured.Unstructured) error {
		if p.ApprovedBy(one) {
			r.approval = one.GetName()
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("listing approvals of %s: %w", p.ID(), err)
	}
	return r.approval != "", nil
}

// waiting says how to approve the policy.
func (r *run) waiting() string {
	kind := "ClusterCleanupApproval"
	if r.policy.Namespace != "" {
		kind = "CleanupApproval"
	}
	return fmt.Sprintf("nobody has approved the policy as it is now: look at the report of this run, and create a %s with policyUID %s and specHash %s", kind, r.policy.UID, r.policy.Hash)
}

// errUnapproved: the approval of a live run was deleted. The run deletes nothing more.
var errUnapproved = errors.New("the approval of the policy was deleted")

// confirm is called before each attempt to delete a batch, and again while that lasts. It is an
// error if the policy was changed or suspended, if the account of the run was deleted since it
// began, or created again, or if its approval was deleted. Others of the run wait for the answer.
func (r *run) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmedFor)
	defer cancel()
	at := r.c.options.Clock.Now()
	if err := r.ledger.store.confirm(ctx); err != nil {
		return err
	}
	uid, err := r.account.Exists(ctx)
	if err != nil {
		return err
	}
	if uid != r.accountUID {
		return fmt.Errorf("service account %s was created again during the run: %w", r.account.Name, errForbidden)
	}
	approved, err := r.approved(ctx)
	if err == nil && !approved {
		err = errUnapproved
	}
	if err == nil {
		r.confirmed = at
	}
	return err
}

// confirmedFor is how long a DELETE may rely on the last confirmation.
const confirmedFor = 10 * time.Second

// confirmed reports whether a DELETE may be sent, and confirms again if that was long ago. The
// mirror of the policies has no age: where its watch is silent, a suspended policy would go on.
func (b *batch) confirmed(ctx context.Context) bool {
	r := b.run
	r.confirming.Lock() // Requests of the same time share the answer.
	defer r.confirming.Unlock()
	if b.unconfirmed == nil && r.c.options.Clock.Since(r.confirmed) >= confirmedFor {
		b.unconfirmed = r.confirm(ctx)
	}
	return b.unconfirmed == nil
}

// ends reports whether an error of confirm ends the run, or makes it wait until a user acts. The
// run tries again after any other error.
func ends(err error) bool {
	return isForbidden(err) || errors.Is(err, errUnapproved) || errors.Is(err, errChanged) || errors.Is(err, errGone)
}
