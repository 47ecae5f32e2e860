package survey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
)

// lookups answer from other objects, read as the account of the policy. What the account may not
// read is an error, and the object is kept. A list shares what was read of a namespace; right
// before a DELETE it is read again.
type lookups struct {
	reader    Reader
	workloads []workload
	volumes   map[string]found[*volumes]
	services  map[string]found[*services]
	claims    map[string]found[map[string]string] // UID of each claim by namespace and name
}

// found is what was read of a namespace, or why it could not be.
type found[T any] struct {
	all T
	err error
}

func newLookups(reader Reader, workloads []workload) *lookups {
	return &lookups{reader, workloads, map[string]found[*volumes]{}, map[string]found[*services]{}, map[string]found[map[string]string]{}}
}

// answer answers one of expression.Lookups for an object.
func (l *lookups) answer(ctx context.Context, name string, facts *policy.Facts, object map[string]any) (bool, error) {
	switch {
	case name == expression.LookupService:
		all, err := remember(ctx, l.services, facts.Namespace, l.readServices)
		return err == nil && all.selects(facts), err
	case facts.Profile.Kind.Kind == "PersistentVolumeClaim":
		all, err := remember(ctx, l.volumes, facts.Namespace, l.readVolumes)
		return err == nil && all.mounts(facts.Name), err
	default:
		return l.volumeMounted(ctx, object)
	}
}

func remember[T any](ctx context.Context, known map[string]found[T], namespace string, read func(context.Context, string) (T, error)) (T, error) {
	of, ok := known[namespace]
	if !ok {
		of.all, of.err = read(ctx, namespace)
		known[namespace] = of
	}
	return of.all, of.err
}

// volumeMounted: a PersistentVolume is mounted if its claim exists and is mounted.
func (l *lookups) volumeMounted(ctx context.Context, object map[string]any) (bool, error) {
	namespace, _, _ := unstructured.NestedString(object, "spec", "claimRef", "namespace")
	name, _, _ := unstructured.NestedString(object, "spec", "claimRef", "name")
	uid, _, _ := unstructured.NestedString(object, "spec", "claimRef", "uid")
	if name == "" {
		return false, nil
	}
	claims, err := remember(ctx, l.claims, namespace, l.readClaims)
	if err != nil {
		return false, err
	}
	if found, ok := claims[name]; !ok || uid != "" && found != uid {
		return false, nil
	}
	all, err := remember(ctx, l.volumes, namespace, l.readVolumes)
	return err == nil && all.mounts(name), err
}

func (l *lookups) readClaims(ctx context.Context, namespace string) (map[string]string, error) {
	out := map[string]string{}
	err := l.each(ctx, schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, namespace, func(claim *unstructured.Unstructured) {
		out[claim.GetName()] = string(claim.GetUID())
	})
	return out, err
}

// volumes are the claims of a namespace that something mounts: by name, and those that StatefulSets
// make from their templates, TEMPLATE-STATEFULSET-ORDINAL.
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

// workload is a kind with pod templates. Workloads that are scaled to zero, suspended or between
// two runs count: their next Pod wants its data back.
type workload struct {
	schema.GroupVersionResource
	namespaced bool
	templates  []policy.FieldPath
}

// workloadsOf are the kinds of the profiles that have pod templates and are served.
func workloadsOf(profiles policy.Profiles, served []cleanup.Resource) []workload {
	var out []workload
	for i := range served {
		profile := profiles[schema.GroupKind{Group: served[i].Group, Kind: served[i].Kind}]
		if profile != nil && len(profile.PodTemplates) > 0 {
			out = append(out, workload{served[i].WithVersion(versionOf(profile, &served[i])), served[i].Namespaced, profile.PodTemplates})
		}
	}
	return out
}

// versionOf is the version whose fields the profile knows, if that is served.
func versionOf(profile *policy.Profile, of *cleanup.Resource) string {
	if slices.Contains(of.Versions, profile.Kind.Version) {
		return profile.Kind.Version
	}
	return of.Versions[0]
}

func (l *lookups) readVolumes(ctx context.Context, namespace string) (*volumes, error) {
	out := &volumes{names: map[string]bool{}}
	err := l.each(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, func(pod *unstructured.Unstructured) {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase != "Succeeded" && phase != "Failed" {
			spec, _, _ := unstructured.NestedMap(pod.Object, "spec")
			out.add(spec, pod.GetName())
		}
	})
	for i := 0; err == nil && i < len(l.workloads); i++ {
		of, in := &l.workloads[i], namespace
		if !of.namespaced {
			in = metav1.NamespaceAll
		}
		err = l.each(ctx, of.GroupVersionResource, in, func(object *unstructured.Unstructured) {
			for _, path := range of.templates {
				path.Walk(object.Object, func(_ string, value any) {
					template, _ := value.(map[string]any)
					spec, _ := template["spec"].(map[string]any)
					out.add(spec, "")
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

// services are the selectors of a namespace's Services, and the Pods in its EndpointSlices.
type services struct {
	selectors []labels.Selector
	endpoints map[string]bool
}

// selects reports whether a Service selects a Pod. One without selector selects none.
func (s *services) selects(pod *policy.Facts) bool {
	return s.endpoints[pod.Name] || slices.ContainsFunc(s.selectors, func(one labels.Selector) bool { return one.Matches(labels.Set(pod.Labels)) })
}

func (l *lookups) readServices(ctx context.Context, namespace string) (*services, error) {
	out := &services{endpoints: map[string]bool{}}
	err := l.each(ctx, schema.GroupVersionResource{Version: "v1", Resource: "services"}, namespace, func(service *unstructured.Unstructured) {
		if selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector"); len(selector) > 0 {
			out.selectors = append(out.selectors, labels.SelectorFromSet(selector))
		}
	})
	if err != nil {
		return nil, err
	}
	err = l.each(ctx, schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, namespace, func(slice *unstructured.Unstructured) {
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
func (l *lookups) each(ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(*unstructured.Unstructured)) error {
	err := newPages(l.reader, true).each(ctx, resource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		f(object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking up %s in namespace %q: %w", resource.GroupResource(), namespace, err)
	}
	return nil
}
