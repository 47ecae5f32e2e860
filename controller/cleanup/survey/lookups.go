package survey

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
)

// lookups answer from other objects, read as the account of the policy. If the account may not read
// them, the lookup fails and the object is kept. All objects of a list share the reads of a
// namespace. Right before a DELETE the namespace is read again, and the answer shared for liveFor.
type lookups struct {
	reader    Reader
	workloads []workload
	// lost is why not all workloads are known; nil if they are.
	lost     error
	volumes  *memory[*volumes]
	services *memory[*services]
	claims   *memory[map[string]string] // UID of each claim by namespace and name
	referrers
}

// newLookups makes lookups whose answers end after liveFor by a clock; nil keeps them. served and
// failed are what discovery has answered.
func (s *Survey) newLookups(snapshot *platform.Snapshot, served []cleanup.Resource, failed error, clock clock.PassiveClock) *lookups {
	workloads, err := workloadsOf(snapshot, served, failed)
	return &lookups{
		s.reader, workloads, err, newMemory[*volumes](clock), newMemory[*services](clock), newMemory[map[string]string](clock),
		s.newReferrers(snapshot.Profiles, served, failed, clock),
	}
}

// liveLookups are shared by all live judgements, for as long as the same workloads are known. An
// API group that answered when the run began may be silent now.
func (s *Survey) liveLookups(ctx context.Context, snapshot *platform.Snapshot) *lookups {
	var served []cleanup.Resource
	var failed error
	if s.policy.ReadsCluster() != "" || slices.Contains(s.policy.Expressions.Lookups, expression.LookupMounted) {
		served, failed = s.options.Served(ctx)
	}
	next := s.newLookups(snapshot, served, failed, s.options.Clock)
	if s.options.Clock == nil {
		return next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil || !reflect.DeepEqual(s.live.workloads, next.workloads) || !reflect.DeepEqual(s.live.lost, next.lost) ||
		!s.live.sameReferrers(&next.referrers) {
		s.live = next
	}
	return s.live
}

// answer answers one of expression.Lookups for an object.
func (l *lookups) answer(ctx context.Context, name string, facts *policy.Facts, object map[string]any) (bool, error) {
	switch {
	case name == expression.LookupService:
		all, err := l.services.get(ctx, facts.Namespace, l.readServices)
		return err == nil && all.selects(facts), err
	case name == expression.LookupInstances:
		return l.instances.get(ctx, facts.Profile.Kind.Kind+"/"+facts.Name, l.readInstances)
	case slices.Contains([]string{expression.LookupReferenced, expression.LookupSelects, expression.LookupDangling}, name):
		all, err := l.references.get(ctx, metav1.NamespaceAll, l.readReferences)
		if err != nil {
			return false, err
		}
		switch kind := facts.Profile.Kind.GroupKind(); name {
		case expression.LookupSelects:
			return all.Selects(kind, object)
		case expression.LookupDangling:
			return all.Dangling(kind, object)
		default:
			return all.Referenced(kind, facts.Namespace, facts.Name, facts.Labels)
		}
	case facts.Profile.Kind.Kind == "PersistentVolumeClaim":
		all, err := l.volumes.get(ctx, facts.Namespace, l.readVolumes)
		return err == nil && all.mounts(facts.Name), err
	default:
		return l.volumeMounted(ctx, object)
	}
}

// volumeMounted: a PersistentVolume is mounted if its claim exists and is mounted. The object has
// its spec: see cleanup.Candidate.
func (l *lookups) volumeMounted(ctx context.Context, object map[string]any) (bool, error) {
	claim, exists, err := unstructured.NestedMap(object, "spec", "claimRef")
	if err == nil && !exists {
		return false, nil
	}
	namespace, _ := claim["namespace"].(string)
	name, _ := claim["name"].(string)
	uid, _ := claim["uid"].(string)
	if err != nil || name == "" || namespace == "" {
		return false, fmt.Errorf("%s: spec.claimRef names no claim", expression.LookupMounted)
	}
	claims, err := l.claims.get(ctx, namespace, l.readClaims)
	if err != nil {
		return false, err
	}
	if found, ok := claims[name]; !ok || uid != "" && found != uid {
		return false, nil
	}
	all, err := l.volumes.get(ctx, namespace, l.readVolumes)
	return err == nil && all.mounts(name), err
}

func (l *lookups) readClaims(ctx context.Context, namespace string) (map[string]string, error) {
	out := map[string]string{}
	err := l.each(ctx, core("persistentvolumeclaims"), namespace, func(claim *unstructured.Unstructured) {
		out[claim.GetName()] = string(claim.GetUID())
	})
	return out, err
}

// volumes are the claims of a namespace that something mounts: by name, and for StatefulSets by the
// prefix of the names that they make from their templates, TEMPLATE-STATEFULSET-ORDINAL.
type volumes struct {
	names    map[string]bool
	prefixes []string
}

func (v *volumes) mounts(claim string) bool {
	return v.names[claim] || slices.ContainsFunc(v.prefixes, func(prefix string) bool {
		ordinal, ok := strings.CutPrefix(claim, prefix)
		return ok && ordinal != "" && strings.Trim(ordinal, "0123456789") == ""
	})
}

func (l *lookups) readVolumes(ctx context.Context, namespace string) (*volumes, error) {
	if l.lost != nil {
		return nil, l.lost
	}
	out := &volumes{names: map[string]bool{}}
	err := l.each(ctx, core("pods"), namespace, func(pod *unstructured.Unstructured) {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase != "Succeeded" && phase != "Failed" {
			spec, _, _ := unstructured.NestedMap(pod.Object, "spec")
			out.add(spec, pod.GetName())
		}
	})
	for i := 0; err == nil && i < len(l.workloads); i++ {
		workload, where := &l.workloads[i], namespace
		if !workload.namespaced || slices.ContainsFunc(workload.claims, func(r policy.Reference) bool { return r.Namespace != nil }) {
			where = metav1.NamespaceAll
		}
		err = l.each(ctx, workload.GroupVersionResource, where, func(object *unstructured.Unstructured) {
			for _, path := range workload.templates {
				path.Walk(object.Object, func(_ string, value any) {
					template, _ := value.(map[string]any)
					spec, _ := template["spec"].(map[string]any)
					out.add(spec, "")
				})
			}
			if workload.anywhere {
				out.addStrings(object.Object)
			}
			for j := range workload.claims {
				workload.claims[j].Each(object.Object, func(space, name string) {
					if space == namespace || space == "" {
						out.names[name] = true
					}
				})
			}
			templates, _, _ := unstructured.NestedSlice(object.Object, "spec", "volumeClaimTemplates") // of a StatefulSet
			for _, item := range templates {
				template, _ := item.(map[string]any)
				name, _, _ := unstructured.NestedString(template, "metadata", "name")
				out.prefixes = append(out.prefixes, name+"-"+object.GetName()+"-")
			}
		})
	}
	return out, err
}

// add adds the claims that a pod spec mounts. The claim of a generic ephemeral volume is
// POD-VOLUME.
func (v *volumes) add(spec map[string]any, pod string) {
	all, _ := spec["volumes"].([]any)
	for _, item := range all {
		volume, _ := item.(map[string]any)
		if claim, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName"); claim != "" {
			v.names[claim] = true
		}
		if _, ephemeral := volume["ephemeral"]; ephemeral && pod != "" {
			name, _ := volume["name"].(string)
			v.names[pod+"-"+name] = true
		}
	}
}

// addStrings adds each string below a value that is short enough to be a name.
func (v *volumes) addStrings(value any) {
	switch value := value.(type) {
	case string:
		if len(value) <= validation.DNS1123SubdomainMaxLength {
			v.names[value] = true
		}
	case []any:
		for _, item := range value {
			v.addStrings(item)
		}
	case map[string]any:
		for _, child := range value {
			v.addStrings(child)
		}
	}
}

// services are the selectors of a namespace's Services, and the Pods in its EndpointSlices.
type services struct {
	selectors []labels.Selector
	endpoints map[string]bool
}

// selects reports whether a Service selects a Pod. One without selector selects none.
func (s *services) selects(pod *policy.Facts) bool {
	matches := func(selector labels.Selector) bool { return selector.Matches(labels.Set(pod.Labels)) }
	return s.endpoints[pod.Name] || slices.ContainsFunc(s.selectors, matches)
}

func (l *lookups) readServices(ctx context.Context, namespace string) (*services, error) {
	out := &services{endpoints: map[string]bool{}}
	err := l.each(ctx, core("services"), namespace, func(service *unstructured.Unstructured) {
		if selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector"); len(selector) > 0 {
			out.selectors = append(out.selectors, labels.SelectorFromSet(selector))
		}
	})
	if err != nil {
		return nil, err
	}
	slices := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	err = l.each(ctx, slices, namespace, func(slice *unstructured.Unstructured) {
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
		for _, item := range endpoints {
			endpoint, _ := item.(map[string]any)
			if kind, _, _ := unstructured.NestedString(endpoint, "targetRef", "kind"); kind == "Pod" {
				name, _, _ := unstructured.NestedString(endpoint, "targetRef", "name")
				out.endpoints[name] = true
			}
		}
	})
	return out, err
}

// each calls f for each object of a resource in a namespace.
func (l *lookups) each(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(*unstructured.Unstructured),
) error {
	err := newPages(l.reader, true).each(ctx, resource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		f(object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking up %s in namespace %q: %w", resource.GroupResource(), namespace, err)
	}
	return nil
}

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

// liveFor is how old an answer to a lookup may be when a live judgement asks for it: many of them
// share one. docs/design.md promises it.
const liveFor = time.Second

// servedFor is how old discovery may be when a run begins, and when a live judgement asks what
// mounts a volume.
const servedFor = 5 * time.Second
