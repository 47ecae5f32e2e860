package survey

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/references"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// referrers are the kinds whose objects may use an object that the policy deletes: all that can be
// listed. What they name is read in one pass over the cluster, since objects of any namespace and
// cluster-scoped ones may refer to an object.
type referrers struct {
	// candidates are the resources that the policy deletes, and kinds all others.
	candidates []cleanup.Target
	kinds      []cleanup.Resource
	// fields name objects, by the kinds that have them.
	fields map[schema.GroupKind][]policy.Reference
	// unknown is why not all kinds are known; nil if they are.
	unknown    error
	references *memory[*references.Candidates]
	// instances are whether a Namespace or a Node has objects: see readInstances.
	instances *memory[bool]
	// yield lets other runs work between two pages; nil for live judgements, which hold no turn.
	yield func(ctx context.Context, inPage bool) error
}

// referencesFor is how long ago the lists may have ended when a live judgement asks. They take
// longer than reading one namespace. A reference that begins at most ten seconds plus the time of
// the lists before the DELETE may not be seen: docs/reference-cleanup.md says so.
const referencesFor = 10 * time.Second

// referencesMost is how long the lists of live judgements may take. One judgement does not wait for
// as long: it is tried again, and has the answer then. Otherwise a cluster that takes long to list
// would be listed again and again, and nothing deleted.
const referencesMost = 2 * time.Minute

// nameNothing are API groups whose objects are short-lived and refer to nothing that a cluster
// depends on.
var nameNothing = []string{
	"authentication.k8s.io", "authorization.k8s.io", leaseGroup, "custom.metrics.k8s.io", "events.k8s.io",
	"external.metrics.k8s.io", "metrics.k8s.io",
}

// leaseGroup has the Leases. They name nothing, but a program uses the Namespace of its Lease.
const leaseGroup = "coordination.k8s.io"

// events are neither referrers nor instances.
var events = schema.GroupResource{Resource: "events"}

// records are resources whose objects list others, but do not use them. Curfew's reports name the
// objects that a policy matches, and CSI drivers publish a capacity for each StorageClass. They are
// instances of a Namespace: a person approved, or may want to read the report.
var records = []schema.GroupResource{
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"},
	{Group: wellknown.Group, Resource: "cleanupapprovals"}, {Group: wellknown.Group, Resource: "clustercleanupapprovals"},
	{Group: wellknown.Group, Resource: "cleanupreports"}, {Group: wellknown.Group, Resource: "clustercleanupreports"},
}

func (s *Survey) newReferrers(profiles policy.Profiles, served []cleanup.Resource, failed error, clock clock.PassiveClock) referrers {
	out := referrers{references: newMemory[*references.Candidates](clock), instances: newMemory[bool](clock)}
	out.references.while = referencesFor
	if clock != nil {
		out.references.most = referencesMost
	}
	if s.policy.ReadsCluster() == "" {
		return out
	}
	out.fields = map[schema.GroupKind][]policy.Reference{}
	for kind, profile := range profiles {
		if len(profile.References) > 0 {
			out.fields[kind] = profile.References
		}
	}
	if clock == nil {
		out.yield = func(ctx context.Context, _ bool) error { return s.yield(ctx, true) }
	}
	skipped := func(group string) bool { return slices.Contains(nameNothing, group) }
	if slices.Contains(s.policy.Expressions.Lookups, expression.LookupInstances) {
		skipped = func(group string) bool { return group != leaseGroup && slices.Contains(nameNothing, group) }
	}
	silent := cleanup.SilentGroups(nil)
	if failed != nil && !errors.As(failed, &silent) {
		out.unknown = failed
	}
	silent = slices.DeleteFunc(slices.Clone(silent), skipped)
	if len(silent) > 0 {
		out.unknown = silent
	}
	out.candidates = s.policy.Targets(served)
	for i := range served {
		kind := &served[i]
		if slices.Contains(s.policy.Ignored(), v1alpha1.GroupKind{Group: kind.Group, Kind: kind.Kind}) {
			continue
		}
		if len(kind.Listable) > 0 && kind.GroupResource != events && !skipped(kind.Group) {
			out.kinds = append(out.kinds, *kind)
		}
	}
	return out
}

func (r *referrers) sameReferrers(other *referrers) bool {
	return reflect.DeepEqual(r.kinds, other.kinds) && reflect.DeepEqual(r.fields, other.fields) && reflect.DeepEqual(r.unknown, other.unknown)
}

// known is an error if a kind that may use an object is not known.
func (r *referrers) known(what string) error {
	if r.unknown != nil {
		return fmt.Errorf("looking up %s: %w", what, r.unknown)
	}
	return nil
}

// readReferences lists the names of the objects that may be deleted, and then what names them. Of
// Secrets it reads the metadata alone. An object that begins to refer to one of them after its kind
// was listed is not seen. A version of a custom kind may lack fields of another one.
func (l *lookups) readReferences(ctx context.Context, _ string) (*references.Candidates, error) {
	if err := l.known("references"); err != nil {
		return nil, err
	}
	out := references.NewCandidates()
	out.Fields = l.fields
	for i := range l.candidates {
		if err := l.addCandidates(ctx, &l.candidates[i], out); err != nil {
			return nil, err
		}
	}
	for i := range l.kinds {
		known := &l.kinds[i]
		if slices.Contains(records, known.GroupResource) {
			continue
		}
		kind := schema.GroupKind{Group: known.Group, Kind: known.Kind}
		whole := kind != schema.GroupKind{Kind: "Secret"}
		versions := known.Listable
		if references.BuiltIn(known.Group) {
			versions = versions[:1]
		}
		for _, version := range versions {
			err := l.all(ctx, known.WithVersion(version), whole, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
				out.Scan(kind, object.Object)
				object.Object = nil // It takes no memory while the rest of its page is scanned.
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		out.Listed(kind)
	}
	return out, nil
}

// addCandidates lists the objects of a resource that may be deleted.
func (l *lookups) addCandidates(ctx context.Context, target *cleanup.Target, out *references.Candidates) error {
	kind := target.GroupVersionKind().GroupKind()
	selecting, referring := references.Selecting[target.GroupResource()] != "", out.Refers(target.GroupResource(), kind)
	for _, selector := range references.FieldSelectors(kind) {
		options := metav1.ListOptions{FieldSelector: selector}
		err := l.all(ctx, target.GroupVersionResource, selecting || referring, options, func(object *unstructured.Unstructured) error {
			switch {
			case selecting:
				return out.AddSelector(kind, object.Object)
			case referring:
				return out.AddReferring(kind, object.Object)
			case policy.EssentialName(kind, object.GetName()):
				return nil
			}
			return out.Add(kind, object.GetNamespace(), object.GetName(), object.GetLabels())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// all calls f for each object of a resource in the cluster that the options select.
func (l *lookups) all(
	ctx context.Context, gvr schema.GroupVersionResource, whole bool, options metav1.ListOptions, f func(*unstructured.Unstructured) error,
) error {
	pages := newPages(l.reader, whole)
	pages.yield = l.yield
	if err := pages.each(ctx, gvr, metav1.NamespaceAll, options, f); err != nil {
		return fmt.Errorf("looking up references in %s: %w", gvr.GroupResource(), err)
	}
	return nil
}

// perNamespace are the names of ConfigMaps that a controller creates in each Namespace.
var perNamespace = []string{"istio-ca-root-cert", "openshift-service-ca.crt"}

// errHasInstances ends a list.
var errHasInstances = errors.New("there is one")

// readInstances reports whether a Namespace has objects that not every Namespace has, or a Node has
// Pods. Lists end with the first one. Right before a DELETE they begin again, for this Namespace
// alone: an object that is created after its kind was listed is deleted with it.
func (l *lookups) readInstances(ctx context.Context, kindAndName string) (bool, error) {
	if err := l.known("instances"); err != nil {
		return false, err
	}
	kind, name, _ := strings.Cut(kindAndName, "/")
	if kind == "Node" {
		return l.hasInstance(ctx, core("pods"), metav1.NamespaceAll, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name},
			func(*unstructured.Unstructured) bool { return true })
	}
	if kind == "CustomResourceDefinition" {
		return l.hasObjects(ctx, name)
	}
	for i := range l.kinds {
		known := &l.kinds[i]
		if !known.Namespaced {
			continue
		}
		kind := schema.GroupKind{Group: known.Group, Kind: known.Kind}
		has, err := l.hasInstance(ctx, known.WithVersion(known.Listable[0]), name, metav1.ListOptions{}, func(object *unstructured.Unstructured) bool {
			each := kind == schema.GroupKind{Kind: "ConfigMap"} && slices.Contains(perNamespace, object.GetName())
			return !each && !policy.EssentialName(kind, object.GetName())
		})
		if has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// hasObjects reports whether a CustomResourceDefinition, whose name is RESOURCE.GROUP, has objects.
func (l *lookups) hasObjects(ctx context.Context, name string) (bool, error) {
	i := slices.IndexFunc(l.kinds, func(kind cleanup.Resource) bool { return kind.GroupResource == schema.ParseGroupResource(name) })
	if i < 0 {
		return false, fmt.Errorf("looking up instances of %s: it is not served, or cannot be listed", name)
	}
	known := &l.kinds[i]
	return l.hasInstance(ctx, known.WithVersion(known.Listable[0]), metav1.NamespaceAll, metav1.ListOptions{},
		func(*unstructured.Unstructured) bool { return true })
}

// hasInstance reports whether a list has an object that counts.
func (l *lookups) hasInstance(
	ctx context.Context, gvr schema.GroupVersionResource, namespace string, options metav1.ListOptions,
	counts func(*unstructured.Unstructured) bool,
) (bool, error) {
	pages := newPages(l.reader, false)
	pages.yield = l.yield
	err := pages.each(ctx, gvr, namespace, options, func(object *unstructured.Unstructured) error {
		if counts(object) {
			return errHasInstances
		}
		return nil
	})
	switch {
	case errors.Is(err, errHasInstances):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("looking up instances in %s: %w", gvr.GroupResource(), err)
	}
	return false, nil
}
