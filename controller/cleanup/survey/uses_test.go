package survey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// with is metadata of an old object and other fields.
func with(fields map[string]any) map[string]any {
	out := old()
	for key, value := range fields {
		out[key] = value
	}
	return out
}

// runnerProfile is a profile of a custom kind that refers to ConfigMaps, and to a class.
func runnerProfile() *expression.Profile {
	return &expression.Profile{Profile: &policy.Profile{
		Name: "runner", Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Runner"}, Resource: "runners",
		References: []policy.Reference{
			{Kind: schema.GroupKind{Kind: "ConfigMap"}, Path: fieldpath.MustFieldPath("spec.settings"), Namespace: fieldpath.MustFieldPath("spec.in")},
			{Kind: schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, Path: fieldpath.MustFieldPath("spec.class")},
		},
	}}
}

// unusedObjects are objects that the lookups decide about, each with an object that makes use of
// it.
var unusedObjects = map[string]struct {
	group, resource, condition string
	world                      func(w *world)
	use                        func(w *world)
	by                         string // the kind of the object that makes use of it
}{
	"a claim": {"", "persistentvolumeclaims", "!lookup.referenced", func(w *world) {
		w.objects["persistentvolumeclaims"] = nil
		w.add("persistentvolumeclaims", "prod", "data", with(map[string]any{"spec": map[string]any{}}))
	}, func(w *world) {
		w.add("deployments", "prod", "web", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": mounts("data")}}})
	}, "deployments"},
	"a Secret that a field of a profile names": {"", "secrets", "!lookup.referenced", func(w *world) {
		profile := templates("", "configmaps", "ConfigMap")
		profile.References = []policy.Reference{{Kind: schema.GroupKind{Kind: "Secret"}, Path: fieldpath.MustFieldPath("metadata.labels.key")}}
		w.snapshot = platform.SnapshotOf([]*expression.Profile{profile}, nil)
		w.add("secrets", "prod", "tls", old())
	}, func(w *world) {
		w.add("configmaps", "prod", "web", map[string]any{"metadata": map[string]any{"labels": map[string]any{"key": "tls"}}})
	}, "configmaps"},
	"a ConfigMap that a selector chooses": {"", "configmaps", "!lookup.referenced", func(w *world) {
		w.served = append(w.served, resource("example.com", "bundles", "Bundle", false))
		w.add("configmaps", "prod", "settings", map[string]any{"metadata": map[string]any{"creationTimestamp": "2026-01-01T00:00:00Z", "labels": map[string]any{"fruit": "apple"}}})
	}, func(w *world) {
		w.add("bundles", "", "all", map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"fruit": "apple"}}}})
	}, "bundles"},
	"a Service that an Ingress names": {"", "services", "!lookup.selects", func(w *world) {
		w.served = append(w.served, resource("", "services", "Service", true), resource("networking.k8s.io", "ingresses", "Ingress", true))
		w.add("services", "prod", "web", with(map[string]any{"spec": map[string]any{"selector": map[string]any{"app": "web"}}}))
	}, func(w *world) {
		w.add("ingresses", "prod", "i", map[string]any{"spec": map[string]any{"defaultBackend": map[string]any{"service": map[string]any{"name": "web"}}}})
	}, "ingresses"},
	"a storage class": {"storage.k8s.io", "storageclasses", "!lookup.referenced", func(w *world) {
		w.served = append(w.served, resource("storage.k8s.io", "storageclasses", "StorageClass", false))
		w.add("storageclasses", "", "gold", old())
	}, func(w *world) {
		w.add("persistentvolumeclaims", "prod", "x", map[string]any{"spec": map[string]any{"storageClassName": "gold"}})
	}, "persistentvolumeclaims"},
	"a Service": {"", "services", "!lookup.selects", func(w *world) {
		w.served = slices.Insert(w.served, 0, resource("", "services", "Service", true))
		w.add("services", "prod", "web", with(map[string]any{"spec": map[string]any{"selector": map[string]any{"app": "web"}}}))
	}, func(w *world) {
		w.add("deployments", "prod", "web", map[string]any{"spec": map[string]any{"replicas": int64(0), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}}})
	}, "deployments"},
	"a Service with endpoints": {"", "services", "!lookup.selects", func(w *world) {
		w.served = append(w.served, resource("", "services", "Service", true), resource("discovery.k8s.io", "endpointslices", "EndpointSlice", true))
		w.add("services", "prod", "web", with(map[string]any{"spec": map[string]any{"selector": map[string]any{"app": "web"}}}))
	}, func(w *world) { w.add("endpointslices", "prod", "x", slice("web", "Pod", "web-0")) }, "endpointslices"},
	"an autoscaler": {"autoscaling", "horizontalpodautoscalers", "lookup.dangling", func(w *world) {
		w.served = append(w.served, resource("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true))
		w.add("horizontalpodautoscalers", "prod", "web", with(map[string]any{"spec": map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}))
	}, func(w *world) { w.add("deployments", "prod", "web", map[string]any{}) }, "deployments"},
	"a custom object": {"example.com", "runners", "lookup.dangling", func(w *world) {
		w.snapshot = platform.SnapshotOf([]*expression.Profile{runnerProfile()}, nil)
		w.served = append(w.served, resource("example.com", "runners", "Runner", true))
		w.add("runners", "prod", "web", with(map[string]any{"spec": map[string]any{"settings": "web"}}))
	}, func(w *world) { w.add("configmaps", "prod", "web", map[string]any{}) }, "configmaps"},
	"a Namespace": {"", "namespaces", "!lookup.instances", func(w *world) {
		w.served = append(w.served, resource("", "namespaces", "Namespace", false), resource("", "serviceaccounts", "ServiceAccount", true), resource("", "events", "Event", true))
		w.add("namespaces", "", "empty", old())
		w.add("configmaps", "empty", "kube-root-ca.crt", map[string]any{})
		w.add("configmaps", "empty", "istio-ca-root-cert", map[string]any{})
		w.add("serviceaccounts", "empty", "default", map[string]any{})
		w.add("events", "empty", "e", map[string]any{})
		w.add("configmaps", "prod", "other", map[string]any{})
	}, func(w *world) { w.add("deployments", "empty", "web", map[string]any{}) }, "deployments"},
	"a Namespace with an approval": {"", "namespaces", "!lookup.instances", func(w *world) {
		w.served = append(w.served, resource("", "namespaces", "Namespace", false), resource("curfew.dev", "cleanupapprovals", "CleanupApproval", true))
		w.add("namespaces", "", "empty", old())
		w.add("cleanupapprovals", "prod", "other", map[string]any{})
	}, func(w *world) { w.add("cleanupapprovals", "empty", "mine", map[string]any{}) }, "cleanupapprovals"},
	"a Node": {"", "nodes", "!lookup.instances", func(w *world) {
		w.served = append(w.served, resource("", "nodes", "Node", false), resource("", "pods", "Pod", true))
		w.add("nodes", "", "n1", old())
		w.add("pods", "prod", "other", map[string]any{"spec": map[string]any{"nodeName": "n2"}})
	}, func(w *world) { w.add("pods", "prod", "web", map[string]any{"spec": map[string]any{"nodeName": "n1"}}) }, "pods"},
}

// slice is an EndpointSlice of a Service, with one endpoint.
func slice(service, kind, name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"kubernetes.io/service-name": service}}, "endpoints": []any{
		map[string]any{"addresses": []any{"10.0.0.1"}, "targetRef": map[string]any{"kind": kind, "name": name}}}}
}

// A Pod that an EndpointSlice of its namespace has as an endpoint is in use, although no Service
// selects it.
func TestPodIsEndpoint(t *testing.T) {
	p := policyIn(t, []string{""}, v1alpha1.CleanupSpec{}, []string{"pods"}, "!lookup.selectedByService")
	for name, c := range map[string]struct {
		namespace, kind, endpoint string
		want                      string
	}{
		"its endpoint":      {"prod", "Pod", "web-0", "[]"},
		"another Pod":       {"prod", "Pod", "web-1", "[web-0]"},
		"another namespace": {"dev", "Pod", "web-0", "[web-0]"},
		"a Node":            {"prod", "Node", "web-0", "[web-0]"},
	} {
		w := newWorld()
		w.served = append(w.served, resource("", "pods", "Pod", true))
		w.add("pods", "prod", "web-0", old())
		w.add("services", "prod", "web", map[string]any{})
		w.add("endpointslices", c.namespace, "x", slice("web", c.kind, c.endpoint))
		if _, listed, live, err := w.survey(t, p); fmt.Sprint(listed) != c.want || fmt.Sprint(live) != c.want || err != nil {
			t.Errorf("%s: deletes %v and %v, %v", name, listed, live, err)
		}
	}
}

// An object that makes use of another one is created right before each request of a run takes
// effect. That one is deleted only if the kind of the new object was listed before.
func TestUseBeginsAtEveryRequest(t *testing.T) {
	for name, c := range unusedObjects {
		t.Run(name, func(t *testing.T) {
			p, kept := policyIn(t, []string{c.group}, v1alpha1.CleanupSpec{}, []string{c.resource}, c.condition), 0
			for i := 1; ; i++ {
				w, requests, listed, deleted := newWorld(), 0, 0, 0
				c.world(w)
				reader := traced{w, func(resource string, _ bool) {
					if requests++; requests == i {
						c.use(w)
					}
					if resource == c.by {
						listed = requests
					}
				}}
				confirm(t, reader, p, func(string) {
					if deleted++; requests >= i && listed >= i {
						t.Errorf("WRONG DELETE: in use from request %d on, and request %d listed what uses it", i, listed)
					}
				})
				if requests < i {
					if deleted != 1 || kept < 3 {
						t.Errorf("unused, it is deleted %d times; used, it was kept %d times", deleted, kept)
					}
					return
				}
				if deleted == 0 {
					kept++
				}
			}
		})
	}
}

// A kind that cannot be listed, or an API group that does not answer, may have the object that
// makes use of another one. Of custom kinds, any object counts.
func TestUseIsUnknown(t *testing.T) {
	for name, c := range unusedObjects {
		for how, edit := range map[string]func(w *world){
			"forbidden": func(w *world) {
				w.fails[c.by] = apierrors.NewForbidden(schema.GroupResource{Resource: c.by}, "", errors.New("no"))
			},
			"broken": func(w *world) { w.fails[c.by] = apierrors.NewInternalError(errors.New("the webhook failed")) },
			"silent": func(w *world) { w.silent = cleanup.SilentGroups{"example.com"} },
		} {
			for _, condition := range []string{c.condition, "[true].all(x, " + c.condition + ")"} {
				w := newWorld()
				c.world(w)
				p := policyIn(t, []string{c.group}, v1alpha1.CleanupSpec{}, []string{c.resource}, condition)
				if _, listed, live, err := w.survey(t, p); len(listed) != 1 || len(live) != 1 || err != nil {
					t.Errorf("%s, %s: deletes %v and %v, %v", name, condition, listed, live, err)
				}
				edit(w)
				if s, listed, live, err := w.survey(t, p); len(listed)+len(live) > 0 || err != nil && how != "forbidden" {
					t.Errorf("%s, %s, %s: deletes %v and %v, %v, %v", name, how, condition, listed, live, err, s.Skipped)
				}
			}
		}
	}
}

// A Namespace with a Lease, or with one object of any kind, is no empty one.
func TestNamespaceIsEmpty(t *testing.T) {
	c := unusedObjects["a Namespace"]
	for name, row := range map[string]struct {
		edit func(w *world)
		want string
	}{
		"empty":                 {func(*world) {}, "[empty]"},
		"a ConfigMap":           {func(w *world) { w.add("configmaps", "empty", "settings", map[string]any{}) }, "[]"},
		"an account":            {func(w *world) { w.add("serviceaccounts", "empty", "ci", map[string]any{}) }, "[]"},
		"a name of a ConfigMap": {func(w *world) { w.add("serviceaccounts", "empty", "kube-root-ca.crt", map[string]any{}) }, "[]"},
		"a custom object": {func(w *world) {
			w.served = append(w.served, resource("example.com", "runners", "Runner", true))
			w.add("runners", "empty", "r", map[string]any{})
		}, "[]"},
		"a kind that cannot be deleted": {func(w *world) {
			runners := resource("example.com", "runners", "Runner", true)
			runners.Undeletable = true
			w.served = append(w.served, runners)
			w.add("runners", "empty", "r", map[string]any{})
		}, "[]"},
		"a Lease": {func(w *world) {
			w.served = append(w.served, resource("coordination.k8s.io", "leases", "Lease", true))
			w.add("leases", "empty", "leader", map[string]any{})
		}, "[]"},
		"metrics of Pods": {func(w *world) {
			w.served = append(w.served, resource("metrics.k8s.io", "pods", "PodMetrics", true))
			w.add("pods", "empty", "p", map[string]any{})
		}, "[empty]"},
		"Leases are silent":  {func(w *world) { w.silent = cleanup.SilentGroups{"coordination.k8s.io"} }, "[]"},
		"metrics are silent": {func(w *world) { w.silent = cleanup.SilentGroups{"metrics.k8s.io"} }, "[empty]"},
	} {
		w := newWorld()
		c.world(w)
		row.edit(w)
		p := policyIn(t, []string{""}, v1alpha1.CleanupSpec{}, []string{"namespaces"}, c.condition)
		if _, listed, live, err := w.survey(t, p); fmt.Sprint(listed) != row.want || fmt.Sprint(live) != row.want || err != nil {
			t.Errorf("%s: deletes %v and %v, %v; want %s", name, listed, live, err, row.want)
		}
	}
}

// A policy deletes the custom objects whose references name nothing, and no others: neither what
// refers to objects that exist, nor kinds whose KindProfile has no references.
func TestDanglingCustomObjects(t *testing.T) {
	for name, spec := range map[string]map[string]any{
		"dangles":           {"settings": "none"},
		"dangles-elsewhere": {"settings": "here", "in": "dev"},
		"dangles-of-kind":   {"settings": "secret"},
		"dangles-by-class":  {"settings": "here", "class": "here"},
		"refers":            {"settings": "here"},
		"refers-elsewhere":  {"settings": "there", "in": "dev"},
		"refers-to-class":   {"class": "gold"},
		"refers-to-nothing": {},
		"unknown":           {"settings": "{{name}}"},
	} {
		w := newWorld()
		w.snapshot = platform.SnapshotOf([]*expression.Profile{runnerProfile()}, nil)
		w.served = append(w.served, resource("example.com", "runners", "Runner", true), resource("example.com", "others", "Other", true), resource("storage.k8s.io", "storageclasses", "StorageClass", false))
		w.add("configmaps", "prod", "here", map[string]any{})
		w.add("configmaps", "dev", "there", map[string]any{})
		w.add("secrets", "prod", "secret", map[string]any{})
		w.add("storageclasses", "", "gold", map[string]any{})
		w.add("runners", "prod", name, with(map[string]any{"spec": spec}))
		w.add("others", "prod", "other", with(map[string]any{"spec": spec}))
		want := "[]"
		if strings.HasPrefix(name, "dangles") {
			want = "[" + name + "]"
		}
		for _, condition := range []string{"lookup.dangling", "[true].all(x, lookup.dangling)"} {
			p := policyIn(t, []string{"example.com"}, v1alpha1.CleanupSpec{}, []string{"runners", "others"}, condition)
			if s, listed, live, err := w.survey(t, p); fmt.Sprint(listed) != want || fmt.Sprint(live) != want || err != nil {
				t.Errorf("%s, %s: WRONG DELETE of %v and %v, %v, %v; want %s", name, condition, listed, live, err, s.Skipped, want)
			} else if got := s.Skipped[cleanup.SkipEvaluation]; got == nil || !strings.Contains(got.Message, "custom kinds whose KindProfile has references, not for a Other") && name != "unknown" {
				t.Errorf("%s: %+v, want a kind without references kept", name, got)
			}
		}
	}
}

// A CustomResourceDefinition is reported if its resource is served and has no objects, also if
// policies delete none.
func TestDefinitionsAreReported(t *testing.T) {
	object := &v1alpha1.ClusterCleanupPolicy{}
	object.Spec.Schedule = "@yearly"
	object.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}}}
	object.Spec.Conditions = []v1alpha1.CleanupCondition{{Name: "empty", Expression: "!lookup.instances"}}
	for name, c := range map[string]struct {
		served, objects bool
		want            string
	}{
		"without objects": {true, false, "[runners.example.com]"},
		"with an object":  {true, true, "[]"},
		"not served":      {false, false, "[]"},
	} {
		w := newWorld()
		w.served = append(w.served, resource("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", false))
		w.add("customresourcedefinitions", "", "runners.example.com", old())
		if c.served {
			w.served = append(w.served, resource("example.com", "runners", "Runner", true))
		}
		if c.objects {
			w.add("runners", "ci", "r", map[string]any{})
		}
		p, errs := cleanup.CompileReport(expression.NewCompiler(10), object)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if _, listed, _, err := w.survey(t, p); fmt.Sprint(listed) != c.want || err != nil {
			t.Errorf("%s: reports %v, %v; want %s", name, listed, err, c.want)
		}
	}
}

// A kind that the policy ignores may be one that cannot be listed, and what it uses is unused. An
// object of it that another one refers to may exist.
func TestIgnoredKinds(t *testing.T) {
	runners := resource("example.com", "runners", "Runner", true)
	ignored := v1alpha1.CleanupSpec{Lookups: &v1alpha1.CleanupLookups{IgnoreKinds: []v1alpha1.GroupKind{{Group: "example.com", Kind: "Runner"}}}}
	for name, c := range map[string]struct {
		spec v1alpha1.CleanupSpec
		want string
	}{
		"ignored": {ignored, "[settings]"},
		"not":     {v1alpha1.CleanupSpec{}, "[]"},
		"others":  {v1alpha1.CleanupSpec{Lookups: &v1alpha1.CleanupLookups{IgnoreKinds: []v1alpha1.GroupKind{{Group: "example.org", Kind: "Runner"}}}}, "[]"},
	} {
		for _, edit := range []func(w *world){
			func(w *world) { w.refers("runners", "prod") },
			func(w *world) {
				w.fails["runners"] = apierrors.NewForbidden(schema.GroupResource{Resource: "runners"}, "", errors.New("no"))
			},
		} {
			w := unreferenced()
			w.served = append(w.served, runners)
			edit(w)
			p := policyIn(t, []string{""}, c.spec, []string{"configmaps"}, "!lookup.referenced")
			if _, listed, live, err := w.survey(t, p); fmt.Sprint(listed) != c.want || fmt.Sprint(live) != c.want || err != nil {
				t.Errorf("%s: deletes %v and %v, %v; want %s", name, listed, live, err, c.want)
			}
		}
	}
	w := newWorld()
	w.served = append(w.served, runners)
	unusedObjects["an autoscaler"].world(w)
	target := w.objects["horizontalpodautoscalers"][0].Object["spec"].(map[string]any)["scaleTargetRef"].(map[string]any)
	target["apiVersion"], target["kind"] = "example.com/v1", "Runner"
	for want, spec := range map[string]v1alpha1.CleanupSpec{"[web]": {}, "[]": ignored} {
		p := policyIn(t, []string{"autoscaling"}, spec, []string{"horizontalpodautoscalers"}, "lookup.dangling")
		if _, listed, live, err := w.survey(t, p); fmt.Sprint(listed) != want || fmt.Sprint(live) != want || err != nil {
			t.Errorf("an autoscaler of an ignored kind: deletes %v and %v, %v; want %s", listed, live, err, want)
		}
	}
}
