package survey

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// world is an API server: it shows whole objects only to readers that ask for them.
type world struct {
	platform.Source
	objects map[string][]*unstructured.Unstructured // by resource
	served  []cleanup.Resource
	// silent are the groups that discovery does not show. fails are the resources that cannot be
	// listed, or one version of them: runners/v2. pruned are versions that show metadata alone.
	silent   cleanup.SilentGroups
	fails    map[string]error
	pruned   map[string]bool
	snapshot *platform.Snapshot
	// listed is how often each resource was listed; nil if nothing counts.
	listed map[string]int
}

func (w *world) shown(object *unstructured.Unstructured, whole bool) unstructured.Unstructured {
	out := object.DeepCopy()
	if !whole {
		out.Object = map[string]any{"apiVersion": out.Object["apiVersion"], "kind": out.Object["kind"], "metadata": out.Object["metadata"]}
	}
	return *out
}

func (w *world) List(_ context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions) (out []unstructured.Unstructured, next string, err error) {
	version := resource.Resource + "/" + resource.Version
	if w.listed != nil {
		w.listed[resource.Resource]++
	}
	if err := cmp.Or(w.fails[resource.Resource], w.fails[version]); err != nil {
		return nil, "", err
	}
	for _, object := range w.objects[resource.Resource] {
		name, _, _ := unstructured.NestedString(object.Object, "type")
		selected, byType := strings.CutPrefix(options.FieldSelector, "type=")
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		on, byNode := strings.CutPrefix(options.FieldSelector, "spec.nodeName=")
		if (namespace == "" || object.GetNamespace() == namespace) && (!byType || selected == cmp.Or(name, "Opaque")) && (!byNode || on == node) {
			out = append(out, w.shown(object, whole && !w.pruned[version]))
		}
	}
	return out, "", nil
}

func (w *world) Get(_ context.Context, resource schema.GroupVersionResource, namespace, name string, whole bool) (*unstructured.Unstructured, error) {
	for _, object := range w.objects[resource.Resource] {
		if object.GetNamespace() == namespace && object.GetName() == name {
			out := w.shown(object, whole)
			return &out, nil
		}
	}
	return nil, apierrors.NewNotFound(resource.GroupResource(), name)
}

func (w *world) Lacks(context.Context, schema.GroupVersionResource, string, ...string) (string, error) {
	return "", nil
}

func (w *world) Snapshot(context.Context) (*platform.Snapshot, error) { return w.snapshot, nil }

func (w *world) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	return resolution.ParseNamespace(name, nil, nil), nil
}

// resource is one of the kinds that discovery shows.
func resource(group, name, kind string, namespaced bool) cleanup.Resource {
	return cleanup.Resource{GroupResource: schema.GroupResource{Group: group, Resource: name}, Kind: kind, Namespaced: namespaced, Versions: []string{"v1"}, Listable: []string{"v1"}}
}

// add adds an object to the world.
func (w *world) add(resource, namespace, name string, content map[string]any) {
	object := &unstructured.Unstructured{Object: content}
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetUID(typesUID(resource, name))
	object.SetResourceVersion("7")
	w.objects[resource] = append(w.objects[resource], object)
}

func typesUID(resource, name string) types.UID { return types.UID("uid-" + resource + "-" + name) }

// templates is a profile of a kind with pod templates.
func templates(group, resource, kind string) *expression.Profile {
	return &expression.Profile{Profile: &policy.Profile{
		Name: resource, Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Resource: resource,
		PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.template")},
	}}
}

// shipped is a profile that comes with Curfew.
func shipped(kind string) *expression.Profile {
	all, err := profiles.All()
	i := slices.IndexFunc(all, func(k *v1alpha1.KindProfile) bool { return k.Spec.Kind.Kind == kind })
	if err != nil || i < 0 {
		panic(fmt.Sprint(kind, ": ", err))
	}
	out, errs := expression.NewCompiler(expression.DefaultCacheSize).Profile(all[i])
	if len(errs) > 0 {
		panic(errs)
	}
	return out
}

// mounts is a pod spec that mounts a claim.
func mounts(claim string) map[string]any {
	return map[string]any{"volumes": []any{map[string]any{"name": "d", "persistentVolumeClaim": map[string]any{"claimName": claim}}}}
}

// newWorld has a volume that is bound to claim prod/data, and served kinds.
func newWorld() *world {
	w := &world{
		objects: map[string][]*unstructured.Unstructured{}, fails: map[string]error{},
		snapshot: platform.SnapshotOf([]*expression.Profile{templates("apps", "deployments", "Deployment"), templates("apps.openshift.io", "deploymentconfigs", "DeploymentConfig")}, nil),
		served: []cleanup.Resource{
			resource("", "persistentvolumes", "PersistentVolume", false), resource("", "persistentvolumeclaims", "PersistentVolumeClaim", true),
			resource("", "configmaps", "ConfigMap", true), resource("", "secrets", "Secret", true), resource("apps", "deployments", "Deployment", true),
		},
	}
	w.add("persistentvolumes", "", "volume", map[string]any{"spec": map[string]any{"claimRef": map[string]any{"namespace": "prod", "name": "data", "uid": "uid-persistentvolumeclaims-data"}}})
	w.add("persistentvolumeclaims", "prod", "data", map[string]any{"spec": map[string]any{}})
	return w
}

// policyOf deletes resources of the core group, and of apps, that meet the conditions.
func policyOf(t *testing.T, spec v1alpha1.CleanupSpec, resources []string, conditions ...string) *cleanup.Policy {
	t.Helper()
	return policyIn(t, []string{"", "apps"}, spec, resources, conditions...)
}

// policyIn deletes resources of some API groups that meet the conditions.
func policyIn(t *testing.T, groups []string, spec v1alpha1.CleanupSpec, resources []string, conditions ...string) *cleanup.Policy {
	t.Helper()
	object := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy", Generation: 1}}
	object.Spec.CleanupSpec = spec
	object.Spec.Schedule = "@daily"
	object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: groups, Resources: resources}}
	for i, condition := range conditions {
		object.Spec.Conditions = append(object.Spec.Conditions, v1alpha1.CleanupCondition{Name: fmt.Sprint("c", i), Expression: v1alpha1.Expression(condition)})
	}
	p, errs := cleanup.Compile(expression.NewCompiler(100), object)
	must(t, errs.ToAggregate())
	return p
}

// options are those of a survey of the world.
func (w *world) options() Options {
	return Options{
		Served: func(context.Context) ([]cleanup.Resource, error) {
			if len(w.silent) > 0 {
				return w.served, w.silent
			}
			return w.served, nil
		},
		Source: w, Namespaces: func() ([]*resolution.NamespacePolicy, error) { return nil, nil }, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
	}
}

// open opens a survey that a reader of the world reads for.
func open(t *testing.T, p *cleanup.Policy, reader Reader, options Options) *Survey {
	t.Helper()
	s := New(p, reader, options)
	_, err := s.Open(t.Context())
	must(t, err)
	return s
}

// confirm reads an object live, and judges it.
func (s *Survey) confirm(t *testing.T, w *world, target *cleanup.Target, namespace, name string) (cleanup.Verdict, error) {
	t.Helper()
	read, err := s.Get(t.Context(), target, namespace, name)
	if err != nil {
		return cleanup.Skip, err
	}
	decision, err := s.JudgeLive(t.Context(), target, read, w, NewBudget(), here)
	return decision.Verdict, err
}

// survey returns the names of the objects that a survey finds to be deleted, and of those that a
// live read right before the DELETE confirms.
func (w *world) survey(t *testing.T, p *cleanup.Policy) (s *Survey, listed, live []string, err error) {
	t.Helper()
	s = New(p, w, w.options())
	if _, err := s.Open(t.Context()); err != nil {
		return s, nil, nil, err
	}
	if err := s.Count(t.Context(), 0); err != nil {
		return s, nil, nil, err
	}
	err = s.Choose(t.Context(), func(target *cleanup.Target, object *unstructured.Unstructured, decision cleanup.Decision) error {
		if decision.Verdict == cleanup.Delete {
			listed = append(listed, object.GetName())
		}
		verdict, err := s.confirm(t, w, target, object.GetNamespace(), object.GetName())
		if verdict == cleanup.Delete {
			live = append(live, object.GetName())
		}
		return err
	})
	slices.Sort(listed)
	return s, listed, live, err
}
