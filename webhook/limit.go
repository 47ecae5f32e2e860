package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/v1alpha1"
)

// policyLimit denies CleanupPolicies beyond the number of which the controller runs the oldest. A
// namespace that is full is not counted again for a while, and requests that come together share a
// count, so that a burst costs little.
type policyLimit struct {
	client metadata.Interface
	most   int
	clock  Clock
	counts singleflight.Group
	// slots bounds how many lists are under way. Each reads one policy, as large as its author made
	// it.
	slots chan struct{}

	mu   sync.Mutex
	full map[string]time.Time // until when a namespace counts as full
}

// newPolicyLimit makes a limit. Without a client there is none.
func newPolicyLimit(client metadata.Interface, most int, clock Clock) *policyLimit {
	if client == nil {
		return nil
	}
	return &policyLimit{client: client, most: most, clock: clock, slots: make(chan struct{}, countsAtOnce), full: map[string]time.Time{}}
}

const (
	// fullFor is how long a namespace counts as full.
	fullFor = time.Second
	// fullMost bounds how many namespaces are remembered.
	fullMost = 4096
	// countsAtOnce is how many lists of policies may be under way.
	countsAtOnce = 4
)

// check returns an error if a namespace has as many policies as it may, unless name is one of them:
// the API server then says that it exists. Where policies cannot be counted the policy is admitted:
// the controller counts as well.
func (l *policyLimit) check(ctx context.Context, namespace, name string) (*field.Error, error) {
	full, err := l.isFull(ctx, namespace)
	if err != nil || !full {
		return nil, err
	}
	if name != "" {
		of := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		if there, err := l.count(ctx, namespace, of); err != nil || there > 0 {
			return nil, err
		}
	}
	why := fmt.Sprintf("namespace %q has %d CleanupPolicies, and no more than %d of them run (--cleanup-max-policies): delete one, or match more with one policy", namespace, l.most, l.most)
	return field.Forbidden(field.NewPath("metadata", "namespace"), why), nil
}

func (l *policyLimit) isFull(ctx context.Context, namespace string) (bool, error) {
	l.mu.Lock()
	until := l.full[namespace]
	l.mu.Unlock()
	if l.most <= 0 || l.clock.Now().Before(until) {
		return true, nil
	}
	full, err, _ := l.counts.Do(namespace, func() (any, error) {
		n, err := l.count(context.WithoutCancel(ctx), namespace, "")
		return err == nil && n >= l.most, err
	})
	if full != true {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.full) >= fullMost {
		clear(l.full)
	}
	l.full[namespace] = l.clock.Now().Add(fullFor)
	return true, nil
}

// count counts the policies of a namespace that a field selector matches. It reads one of them: the
// API server counts the rest.
func (l *policyLimit) count(ctx context.Context, namespace, selector string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting to count the CleanupPolicies of namespace %s: %w", namespace, ctx.Err())
	}
	list, err := l.client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)).Namespace(namespace).
		List(ctx, metav1.ListOptions{Limit: 1, FieldSelector: selector})
	if err != nil {
		return 0, fmt.Errorf("counting the CleanupPolicies of namespace %s: %w", namespace, err)
	}
	return len(list.Items) + int(ptr.Deref(list.RemainingItemCount, 0)), nil
}
