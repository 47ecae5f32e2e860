package follow

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/contexts"
)

func TestContexts(t *testing.T) {
	for name, test := range contexts.Cases {
		inBubble(t, name, func(t *testing.T) {
			cached, snapshot := following(t, test)
			facts, object := test.Facts(t, snapshot)
			for who, from := range map[string]platform.Source{"cached": cached, "live": cached.Live()} {
				found, err := platform.ContextOf(t.Context(), from, platform.Whole(facts, object))
				if err != nil {
					t.Fatal(err)
				}
				if have := contexts.Render(&found.Scope, len(found.Failures)); have != test.Want {
					t.Errorf("%s: have %s\nwant %s", who, have, test.Want)
				}
			}
		})
	}
}

// following follows the objects of a case.
func following(t *testing.T, test contexts.Case) (Cached, *platform.Snapshot) {
	t.Helper()
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]*source{v1alpha1.LifecyclePolicies: newSource(), v1alpha1.KindProfiles: newSource()}
	for resource, texts := range map[string][]string{v1alpha1.LifecyclePolicies: test.Policies, v1alpha1.KindProfiles: test.Profiles} {
		for _, text := range texts {
			sources[resource].Put(&unstructured.Unstructured{Object: contexts.Parse(t, text)})
		}
	}
	var runtimes []runtime.Object
	if test.Runtime != "" {
		runtimes = append(runtimes, &unstructured.Unstructured{Object: contexts.Parse(t, test.Runtime)})
	}
	p, err := NewPlatform(Options{
		Builtin: builtin, Client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), runtimes...), Clock: clock.RealClock{}, Log: logr.Discard(),
		Source: func(resource schema.GroupVersionResource) Source {
			if known := sources[resource.Resource]; known != nil {
				return known
			}
			return newSource()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, p)
	after(time.Second)
	var objects []client.Object
	meta := test.Meta(t)
	if meta != nil {
		objects = append(objects, &metav1.PartialObjectMetadata{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta})
	}
	namespaces, _ := stamped(t, objects...)
	if meta != nil {
		namespaces.observe(meta)
	}
	return Cached{Platform: p, Namespaces: namespaces}, p.Store().Snapshot()
}
