package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

func TestResourcesStay(t *testing.T) {
	application := schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
	secret, configMap := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	const path = "warning metadata.labels[curfew.dev/ttl]: when this "
	argo := []string{path + "Application is deleted, Argo CD keeps its resources: add finalizer resources-finalizer.argocd.argoproj.io"}
	labels := func(pairs ...string) map[string]any {
		out := map[string]any{}
		for i := 0; i+1 < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	const ttl, helm = wellknown.LabelTTL, "sh.helm.release.v1.web.v1"
	for name, test := range map[string]struct {
		kind       schema.GroupVersionKind
		name       string
		labels     map[string]any
		finalizers []any
		want       []string
	}{
		"an Application":                    {kind: application, labels: labels(ttl, "1d"), want: argo},
		"an Application, another finalizer": {kind: application, labels: labels(ttl, "1d"), finalizers: []any{"post-delete-finalizer.argocd.argoproj.io"}, want: argo},
		"… with its resources":              {kind: application, labels: labels(ttl, "1d"), finalizers: []any{"resources-finalizer.argocd.argoproj.io"}},
		"… in the background":               {kind: application, labels: labels(ttl, "1d"), finalizers: []any{"resources-finalizer.argocd.argoproj.io/background"}},
		"… without a label":                 {kind: application, labels: labels("a", "b")},
		"… with one that cannot be read":    {kind: application, labels: labels(ttl, "soon")},
		"another kind of that name":         {kind: schema.GroupVersionKind{Group: "app.k8s.io", Version: "v1beta1", Kind: "Application"}, labels: labels(ttl, "1d")},
		"a Velero Backup":                   {kind: schema.GroupVersionKind{Group: "velero.io", Version: "v1", Kind: "Backup"}, labels: labels(ttl, "1d"), want: []string{path + "Backup is deleted, its data stays, and Velero creates it again: set spec.ttl, or use velero backup delete"}},
		"a Helm release":                    {kind: secret, name: helm, labels: labels(ttl, "1d", "owner", "helm"), want: []string{path + "Secret is deleted, the objects of its Helm release stay: use helm uninstall"}},
		"a Helm release in a ConfigMap":     {kind: configMap, name: helm, labels: labels(ttl, "1d", "owner", "helm"), want: []string{path + "ConfigMap is deleted, the objects of its Helm release stay: use helm uninstall"}},
		"a Secret of another name":          {kind: secret, name: "a", labels: labels(ttl, "1d", "owner", "helm")},
		"a Secret of another owner":         {kind: secret, name: helm, labels: labels(ttl, "1d")},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"metadata": map[string]any{"name": test.name, "namespace": "ci", "labels": test.labels, "finalizers": test.finalizers}}
			equal(t, judge(resourcesStay, policy.Profiles{}.For(test.kind), Request{Now: noon}, nil, object), test.want)
		})
	}
}
