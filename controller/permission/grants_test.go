package permission

import (
	"context"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// granted are the rules of each namespace; the rules of [Nowhere] are granted everywhere.
type granted map[string]Grants

func (g granted) Rules(_ context.Context, namespace string) (Grants, error) { return g[namespace], nil }

func (g granted) MayDelete(context.Context, schema.GroupVersionResource, string) (bool, error) {
	return false, nil
}

// A right to single objects is none to all of them.
func TestCoverOfAllObjects(t *testing.T) {
	rule := authorizationv1.ResourceRule{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	pods := schema.GroupResource{Resource: "pods"}
	if !(Grants{Rules: []authorizationv1.ResourceRule{rule}}).Cover(pods) {
		t.Error("a right to all Pods counts for nothing")
	}
	rule.ResourceNames = []string{"one"}
	if (Grants{Rules: []authorizationv1.ResourceRule{rule}}).Cover(pods) {
		t.Error("a right to one Pod counts for all")
	}
}

// What is granted everywhere is asked about in no namespace.
func TestAsk(t *testing.T) {
	may := Grants{Rules: []authorizationv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	for name, test := range map[string]struct {
		everywhere    Grants
		clusterScoped bool
		want          []string
	}{
		"everywhere":                     {everywhere: may, want: []string{""}},
		"cluster-scoped":                 {everywhere: may, clusterScoped: true, want: []string{""}},
		"in a namespace":                 {want: []string{"a"}},
		"in a namespace, cluster-scoped": {clusterScoped: true},
	} {
		t.Run(name, func(t *testing.T) {
			answers, err := Ask(t.Context(), granted{Nowhere: test.everywhere, "a": may}, []string{"a", "b"})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := answers.Namespaces(t.Context(), secrets, test.clusterScoped); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}
