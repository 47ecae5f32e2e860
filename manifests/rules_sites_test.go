package manifests

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// invented has what no built-in kind has: a native TTL, and a runtime that wins over it.
func invented(t *testing.T) *v1alpha1.KindProfile {
	t.Helper()
	const text = `{metadata: {name: trains.example.com}, spec: {kind: {group: example.com, version: v1, kind: Train, resource: trains},
  state: {finished: "false", finishTime: "null", outcome: "'Failed'"}, fields: {ttl: spec.ttl},
  runtime: {reference: {name: spec.track}, kinds: [{group: example.com, version: v1, kind: Track, resource: tracks, ttl: [spec.ttl]}]}}}`
	out := &v1alpha1.KindProfile{}
	must(t, yaml.UnmarshalStrict([]byte(text), out))
	return out
}

// sweptKind is a kind with a profile.
type sweptKind struct {
	*policy.Profile
	// runtime is where an object names its runtime; nil where it has none.
	runtime fieldpath.FieldPath
	// typed marks Kubernetes' own kinds: the API server drops unknown fields before admission.
	typed bool
}

func sweptKinds(t *testing.T) []sweptKind {
	t.Helper()
	objects, err := profiles.All()
	must(t, err)
	known, err := platform.New(append(objects, invented(t)))
	must(t, err)
	var out []sweptKind
	for kind, profile := range known.Snapshot().Profiles {
		s := sweptKind{Profile: profile, typed: slices.Contains([]string{"", "apps", "batch"}, kind.Group)}
		if compiled := known.Snapshot().Compiled(kind); compiled != nil && compiled.Runtime != nil {
			s.runtime = compiled.Runtime.NamePath()
		}
		out = append(out, s)
	}
	for kind, clusterScoped := range map[schema.GroupVersionKind]bool{
		{Version: "v1", Kind: "Namespace"}: true, {Version: "v1", Kind: "ConfigMap"}: false,
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}: false,
		v1alpha1.GroupVersion.WithKind("LifecyclePolicy"):                true,
	} {
		bare := policy.Profiles{}.For(kind)
		bare.ClusterScoped = clusterScoped
		out = append(out, sweptKind{Profile: bare})
	}
	return out
}

// site is a field of an object and values that some rule finds fault with.
type site struct {
	path   fieldpath.FieldPath
	values []any
}

func at(path fieldpath.FieldPath, values ...any) site { return site{path, values} }

// keys are sites in metadata.
func keys(metadata fieldpath.FieldPath) []site {
	annotation := func(key string) fieldpath.FieldPath { return metadata.Child("annotations", key) }
	label := func(key string) fieldpath.FieldPath { return metadata.Child("labels", key) }
	var out []site
	for _, key := range append(slices.Clone(wellknown.TTLAnnotations), wellknown.AnnotationPodTTL) {
		out = append(out, at(annotation(key), "5", "soon"))
	}
	for _, key := range append(slices.Clone(wellknown.LifetimeAnnotations), wellknown.AnnotationPodTTL, wellknown.AnnotationProtect) {
		out = append(out, at(label(key), "5"))
	}
	const misspelt = wellknown.Prefix + "defualt-ttl"
	return append(out,
		at(annotation(misspelt), "1h"), at(label(misspelt), "1h"),
		at(annotation(wellknown.AnnotationDefaultTTL), "1h"), at(label(wellknown.AnnotationDefaultTTL), "1h"),
		at(annotation(wellknown.AnnotationActiveDeadline), "5", "soon"), at(annotation(wellknown.AnnotationProtect), "perhaps"),
		at(label(wellknown.LabelMultiKueueOrigin), "hub"),
		at(annotation(wellknown.AnnotationBackfill), "perhaps", "true"),
		at(annotation(wellknown.AnnotationRefreshedAt), "today"),
		at(annotation(wellknown.AnnotationFinishedAt), "2026-01-01T00:00:00Z"), at(annotation(wellknown.LabelTTL), "1h"),
		at(annotation(wellknown.AnnotationTTLSource), "namespace/x"), at(annotation(wellknown.AnnotationDeadlineSource), "namespace/x"),
		at(label(wellknown.LabelTTL), "5s", "soon", "2020-01-01", "1h"), at(label(wellknown.LabelKyvernoTTL), "5s", "soon", "2020-01-01"))
}

func (k *sweptKind) sites() []site {
	out := sitesOf(nil, k.Profile)
	out = slices.DeleteFunc(out, func(s site) bool {
		switch {
		case k.Unknown && k.Kind.Kind != "Namespace":
			return s.path[1] != "labels" // Objects of any kind are sent for their labels alone.
		default:
			return k.typed && strings.HasSuffix(s.path.String(), "template.spec.ttlSecondsAfterFinished")
		}
	})
	for _, path := range k.Inherited() {
		out = append(out, keys(path)...)
	}
	for _, forbidden := range k.Forbidden {
		out = append(out, at(forbidden.Path, int64(5)))
	}
	if k.Kind.Kind == "Pod" {
		out = append(out, at(fieldpath.FieldPath{"metadata", "finalizers"}, []any{wellknown.FinalizerTally}))
	}
	if k.Kind.Kind == "Namespace" {
		for _, key := range wellknown.NamespaceAnnotations {
			out = append(out, at(fieldpath.FieldPath{"metadata", "annotations", key}, "?"), at(fieldpath.FieldPath{"metadata", "labels", key}, "1h"))
		}
	}
	return out
}

func sitesOf(prefix fieldpath.FieldPath, profile *policy.Profile) []site {
	out := keys(prefix.Child("metadata"))
	for _, path := range []fieldpath.FieldPath{profile.TTL, profile.TTLSucceeded, profile.TTLFailed} {
		if path != nil {
			out = append(out, at(prefix.Child(path...), int64(5), int64(-1)))
		}
	}
	switch {
	case profile.Deadline == nil:
	case profile.DurationDeadline:
		out = append(out, at(prefix.Child(profile.Deadline...), "5s", "-5s"))
	default:
		out = append(out, at(prefix.Child(profile.Deadline...), int64(5), int64(0)))
	}
	for _, path := range profile.PodTemplates {
		out = append(out, keys(prefix.Child(path...).Child("metadata"))...)
		out = append(out, at(prefix.Child(path...).Child("spec", "ttlSecondsAfterFinished"), int64(5)))
	}
	for _, template := range profile.Templates {
		out = append(out, sitesOf(prefix.Child(template.Path...), template.Profile)...)
	}
	return out
}

// besides are what an object has beside the field: some rules are about the two together.
func (k *sweptKind) besides() []func(map[string]any) {
	with := func(path fieldpath.FieldPath, value any) func(map[string]any) {
		return func(object map[string]any) { set(object, path, value) }
	}
	out := []func(map[string]any){func(map[string]any) {}}
	if k.RuntimeOf != "" {
		return append(out, with(fieldpath.FieldPath{"metadata", "annotations", wellknown.AnnotationTTL}, "1h"))
	}
	if !slices.Contains([]string{"Job", "JobSet", "TrainJob", "Pod"}, k.Kind.Kind) {
		return out
	}
	annotations := fieldpath.FieldPath{"metadata", "annotations"}
	out = append(out, with(annotations.Child("helm.sh/hook"), "post-install"), with(annotations.Child("argocd.argoproj.io/tracking-id"), "x"),
		with(fieldpath.FieldPath{"metadata", "labels", wellknown.LabelTTL}, "7d"), with(annotations.Child(wellknown.AnnotationProtect), "true"),
		with(fieldpath.FieldPath{"metadata", "ownerReferences"}, []any{map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "o", "uid": "u", "controller": true}}))
	if owner, ok := map[string][2]string{"Pod": {"apps/v1", "ReplicaSet"}, "Job": {"jobset.x-k8s.io/v1alpha2", "JobSet"}}[k.Kind.Kind]; ok {
		out = append(out, with(fieldpath.FieldPath{"metadata", "ownerReferences"}, []any{map[string]any{"apiVersion": owner[0], "kind": owner[1], "name": "o", "uid": "u", "controller": true}}))
	}
	if k.TTL != nil {
		out = append(out, with(k.TTL, int64(1)))
	}
	if k.Deadline != nil {
		out = append(out, with(k.Deadline, int64(3600)))
	}
	return out
}

// set writes a value at a path. A list on the way gets one item.
func set(values map[string]any, path fieldpath.FieldPath, value any) {
	for len(path) > 2 && path[1] == "*" {
		item := map[string]any{}
		if list, ok := values[path[0]].([]any); ok {
			item, _ = list[0].(map[string]any)
		}
		values[path[0]] = []any{item}
		values, path = item, path[2:]
	}
	if len(path) == 1 {
		values[path[0]] = value
		return
	}
	next, ok := values[path[0]].(map[string]any)
	if !ok {
		next = map[string]any{}
		values[path[0]] = next
	}
	set(next, path[1:], value)
}
