package survey

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/wellknown"
)

// referrers are the kinds whose objects may name an object that lookup.referenced asks for: all
// that can be listed. What they name is read in one pass over the cluster, since objects of any
// namespace and cluster-scoped ones may refer to an object.
type referrers struct {
	// candidates are the resources that the policy deletes, and kinds all others.
	candidates []cleanup.Target
	kinds      []cleanup.Resource
	// unknown is why not all kinds are known; nil if they are.
	unknown    error
	references *memory[*references.Candidates]
	// yield lets other runs work between two pages; nil for live judgements, which hold no turn.
	yield func(ctx context.Context, inPage bool) error
}

// referencesFor is how long ago the lists may have begun when a live judgement asks. They take
// longer than reading one namespace. A reference that begins at most ten seconds plus the time of
// the lists before the DELETE may not be seen: docs/reference-cleanup.md says so.
const referencesFor = 10 * time.Second

// nameNothing are API groups whose objects are short-lived and refer to nothing that a cluster
// depends on.
var nameNothing = []string{
	"authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "custom.metrics.k8s.io", "events.k8s.io",
	"external.metrics.k8s.io", "metrics.k8s.io",
}

// records are resources whose objects list others, but do not use them. Curfew's reports name the
// objects that a policy matches.
var records = []schema.GroupResource{
	{Resource: "events"},
	{Group: wellknown.Group, Resource: "cleanupapprovals"}, {Group: wellknown.Group, Resource: "clustercleanupapprovals"},
	{Group: wellknown.Group, Resource: "cleanupreports"}, {Group: wellknown.Group, Resource: "clustercleanupreports"},
}

func (s *Survey) newReferrers(served []cleanup.Resource, failed error, clock clock.PassiveClock) referrers {
	out := referrers{references: newMemory[*references.Candidates](clock)}
	out.references.while = referencesFor
	if !slices.Contains(s.policy.Expressions.Lookups, expression.LookupReferenced) {
		return out
	}
	if clock == nil {
		out.yield = func(ctx context.Context, _ bool) error { return s.yield(ctx, true) }
	}
	silent := cleanup.SilentGroups(nil)
	if failed != nil && !errors.As(failed, &silent) {
		out.unknown = failed
	}
	silent = slices.DeleteFunc(slices.Clone(silent), func(group string) bool { return slices.Contains(nameNothing, group) })
	if len(silent) > 0 {
		out.unknown = silent
	}
	out.candidates = s.policy.Targets(served)
	for i := range served {
		one := &served[i]
		if len(one.Listable) > 0 && !slices.Contains(records, one.GroupResource) && !slices.Contains(nameNothing, one.Group) {
			out.kinds = append(out.kinds, *one)
		}
	}
	return out
}

func (r *referrers) sameReferrers(other *referrers) bool {
	return reflect.DeepEqual(r.kinds, other.kinds) && reflect.DeepEqual(r.unknown, other.unknown)
}

// readReferences lists the names of the objects that may be deleted, and then what names them. Of
// Secrets it reads the metadata alone. An object that begins to refer to one of them after its kind
// was listed is not seen. A version of a custom kind may lack fields of another one.
func (l *lookups) readReferences(ctx context.Context, _ string) (*references.Candidates, error) {
	if l.unknown != nil {
		return nil, fmt.Errorf("looking up references: %w", l.unknown)
	}
	out := references.NewCandidates()
	for i := range l.candidates {
		of := &l.candidates[i]
		for _, selector := range references.FieldSelectors(of.Kind) {
			err := l.all(ctx, of.GroupVersionResource, false, selector, func(object *unstructured.Unstructured) error {
				if policy.EssentialName(schema.GroupKind{Kind: of.Kind}, object.GetName()) {
					return nil
				}
				return out.Add(of.Kind, object.GetNamespace(), object.GetName())
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for i := range l.kinds {
		of := &l.kinds[i]
		kind := schema.GroupKind{Group: of.Group, Kind: of.Kind}
		whole := kind != schema.GroupKind{Kind: "Secret"}
		versions := of.Listable
		if references.BuiltIn(of.Group) {
			versions = versions[:1]
		}
		for _, version := range versions {
			err := l.all(ctx, of.WithVersion(version), whole, "", func(object *unstructured.Unstructured) error {
				out.Scan(kind, object.Object)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// all calls f for each object of a resource in the cluster that a field selector matches.
func (l *lookups) all(
	ctx context.Context, of schema.GroupVersionResource, whole bool, selector string, f func(*unstructured.Unstructured) error,
) error {
	pages := newPages(l.reader, whole)
	pages.yield = l.yield
	if err := pages.each(ctx, of, metav1.NamespaceAll, metav1.ListOptions{FieldSelector: selector}, f); err != nil {
		return fmt.Errorf("looking up references in %s: %w", of.GroupResource(), err)
	}
	return nil
}
