package cleanup

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Whatever cannot be deleted is still known to lookups, and policies do not match it. The versions
// of the rest are those in which it can be deleted.
func TestUndeletable(t *testing.T) {
	all := metav1.Verbs{"list", "get", "delete"}
	version := func(name string, verbs metav1.Verbs) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: "a/" + name, APIResources: []metav1.APIResource{{Name: "runners", Kind: "Runner", Namespaced: true, Verbs: verbs}}}
	}
	group := &metav1.APIGroup{
		Name: "a", PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "a/v1"},
		Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "a/v1"}, {GroupVersion: "a/v2"}},
	}
	for name, c := range map[string]struct {
		one, two    metav1.Verbs
		versions    []string
		undeletable bool
		listable    []string
	}{
		"both":                   {all, all, []string{"v1", "v2"}, false, []string{"v1", "v2"}},
		"first":                  {all, metav1.Verbs{"list"}, []string{"v1"}, false, []string{"v1", "v2"}},
		"second":                 {metav1.Verbs{"list"}, all, []string{"v2"}, false, []string{"v1", "v2"}},
		"second, never listed":   {metav1.Verbs{"create"}, all, []string{"v2"}, false, []string{"v2"}},
		"neither":                {metav1.Verbs{"list", "get"}, metav1.Verbs{"list"}, []string{"v1", "v2"}, true, []string{"v1", "v2"}},
		"neither, first listed":  {metav1.Verbs{"list"}, metav1.Verbs{"create"}, []string{"v1", "v2"}, true, []string{"v1"}},
		"neither, second listed": {metav1.Verbs{"create"}, metav1.Verbs{"list"}, []string{"v1", "v2"}, true, []string{"v2"}},
		"neither is listed":      {metav1.Verbs{"create"}, metav1.Verbs{"create"}, []string{"v1", "v2"}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Resources([]*metav1.APIGroup{group}, []*metav1.APIResourceList{version("v1", c.one), version("v2", c.two)})
			want := []Resource{{
				GroupResource: schema.GroupResource{Group: "a", Resource: "runners"}, Kind: "Runner", Namespaced: true, Versions: c.versions, Undeletable: c.undeletable, Listable: c.listable,
			}}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
