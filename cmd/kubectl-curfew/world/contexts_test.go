package world

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
	"curfew.dev/curfew/test/contexts"
)

func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		t.Run(name, func(t *testing.T) {
			w := reading(t, test)
			facts, object := test.Facts(t, w.platform)
			scope, err := w.scopeOf(t.Context(), facts, object)
			must(t, err)
			failures := 0
			for _, note := range w.Notes() {
				if strings.HasSuffix(note, "objects that it may concern are kept") {
					failures++
				}
			}
			if have := contexts.Render(scope, failures); have != test.Want {
				t.Errorf("have %s\nwant %s", have, test.Want)
			}
		})
	}
}

// reading is a command in a cluster that has the objects of a case.
func reading(t *testing.T, test contexts.Case) *World {
	t.Helper()
	builtin, err := profiles.All()
	must(t, err)
	var objects, namespaces []runtime.Object
	add := func(kind string, texts ...string) {
		for _, text := range texts {
			object := &unstructured.Unstructured{Object: contexts.Parse(t, text)}
			if kind != "" {
				object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			}
			objects = append(objects, object)
		}
	}
	add("LifecyclePolicy", test.Policies...)
	add("KindProfile", test.Profiles...)
	if test.Runtime != "" {
		add("", test.Runtime)
	}
	if meta := test.Meta(t); meta != nil {
		namespaces = append(namespaces, meta)
	}
	lists := map[schema.GroupVersionResource]string{
		v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies): "LifecyclePolicyList",
		v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles):      "KindProfileList",
	}
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	w := &World{options: Options{Builtin: builtin}, cluster: cluster{
		unfed:    map[schema.GroupKind]bool{},
		clients:  Clients{Objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), Metadata: metadatafake.NewSimpleMetadataClient(scheme, namespaces...)},
		discover: func() (discovered, error) { return discovered{}, nil },
	}}
	must(t, w.readPlatform(t.Context()))
	return w
}

var must = builders.Must
