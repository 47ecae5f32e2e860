package follow

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestOwners(t *testing.T) {
	sets := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{sets.GroupVersion()})
	mapper.Add(sets, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Zone"}, meta.RESTScopeRoot)
	object := func(apiVersion, kind, namespace string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
		out.SetName("owner")
		out.SetNamespace(namespace)
		out.SetUID("uid")
		return out
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), object("apps/v1", "ReplicaSet", "ci"), object("example.com/v1", "Zone", ""))
	refused := errors.New("")
	for name, test := range map[string]struct {
		namespace, apiVersion, kind, name, uid string
		fails                                  error
		there, noMatch                         bool
	}{
		"there":                           {namespace: "ci", apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", uid: "uid", there: true},
		"in a version that was served":    {namespace: "ci", apiVersion: "apps/v1beta1", kind: "ReplicaSet", name: "owner", uid: "uid", there: true},
		"cluster-scoped":                  {namespace: "ci", apiVersion: "example.com/v1", kind: "Zone", name: "owner", uid: "uid", there: true},
		"of whatever UID":                 {namespace: "ci", apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", there: true},
		"another one of the name":         {namespace: "ci", apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", uid: "older"},
		"gone":                            {namespace: "ci", apiVersion: "apps/v1", kind: "ReplicaSet", name: "other", uid: "uid"},
		"a kind that is not served":       {namespace: "ci", apiVersion: "gone.io/v1", kind: "Thing", name: "owner", uid: "uid", noMatch: true},
		"nonsense":                        {namespace: "ci", apiVersion: "a/b/c", kind: "Thing", name: "owner", uid: "uid", noMatch: true},
		"a namespaced owner of no one's":  {apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", uid: "uid", noMatch: true},
		"the kind is not served any more": {namespace: "ci", apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", uid: "uid", fails: refused},
	} {
		t.Run(name, func(t *testing.T) {
			if test.fails != nil {
				client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "replicasets"}, "owner", "404 page not found", 0, true)
				})
				defer func() { client.ReactionChain = client.ReactionChain[1:] }()
			}
			owners := &Owners{Client: client, Mapper: mapper}
			got, err := owners.Read(t.Context(), test.namespace, &metav1.OwnerReference{APIVersion: test.apiVersion, Kind: test.kind, Name: test.name, UID: types.UID(test.uid)})
			if (got != nil) != test.there {
				t.Errorf("the owner is %v, want one: %t", got, test.there)
			}
			if meta.IsNoMatchError(err) != test.noMatch || (err != nil) != (test.noMatch || test.fails != nil) {
				t.Errorf("error %v, want that the kind is unknown: %t, want one of the read: %t", err, test.noMatch, test.fails != nil)
			}
		})
	}
}

// S9: many who ask which StatefulSets exist share a list a namespace. Where that is forbidden, any
// may exist.
func TestStatefulSetsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"namespace": "ci", "name": "web"}}}
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{statefulSets: "StatefulSetList"}, object)
		lists, forbidden := 0, error(nil)
		client.PrependReactor("list", "statefulsets", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Second)
			lists++
			return forbidden != nil, nil, forbidden
		})
		owners := &Owners{Client: client}
		asked := func() []*metav1.OwnerReference {
			return []*metav1.OwnerReference{{Kind: "Thing", Name: "a", UID: "uid"}, {Kind: "StatefulSet", Name: "web"}, {Kind: "StatefulSet", Name: "other"}}
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				got, err := owners.Existing(t.Context(), "ci", asked())
				if err != nil {
					t.Error(err)
				} else if len(got) != 2 || got[0].Name != "a" || got[1].Name != "web" {
					t.Errorf("existing are %v, want a and web", got)
				}
			})
		}
		group.Wait()
		if lists > 2 {
			t.Errorf("%d lists for 100 who ask at the same time", lists)
		}
		forbidden = apierrors.NewForbidden(statefulSets.GroupResource(), "", errors.New("no"))
		if got, err := owners.Existing(t.Context(), "ci", asked()); err != nil || len(got) != 3 {
			t.Errorf("owners %v, error %v; want all 3 when a kind cannot be listed", got, err)
		}
	})
}
