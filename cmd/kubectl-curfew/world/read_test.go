package world

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A list that outlives the API server's snapshot has all objects: it goes on at the continue token
// of the error, or begins again. An unchanged object comes once.
func TestPages(t *testing.T) {
	object := func(name, version string) unstructured.Unstructured {
		out := unstructured.Unstructured{Object: map[string]any{}}
		out.SetName(name)
		out.SetUID(types.UID("uid-" + name))
		out.SetResourceVersion(version)
		return out
	}
	a, b, changed, c := object("a", "1"), object("b", "1"), object("b", "2"), object("c", "1")
	expired := func(token string) error {
		err := apierrors.NewResourceExpired("too old")
		err.ErrStatus.Continue = token
		return err
	}
	for name, test := range map[string]struct {
		expired error
		after   []unstructured.Unstructured
		want    []string
		tokens  []string
	}{
		"with a continue token":    {expired("later"), []unstructured.Unstructured{c}, []string{"a 1", "b 1", "c 1"}, []string{"", "more", "later"}},
		"without a continue token": {expired(""), []unstructured.Unstructured{a, changed, c}, []string{"a 1", "b 1", "b 2", "c 1"}, []string{"", "more", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens, have []string
			list := func(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
				tokens = append(tokens, options.Continue)
				switch len(tokens) {
				case 1:
					out := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{a, b}}
					out.SetContinue("more")
					return out, nil
				case 2:
					return nil, test.expired
				}
				return &unstructured.UnstructuredList{Items: test.after}, nil
			}
			err := Pages(t.Context(), list, metav1.ListOptions{}, func(item runtime.Object) error {
				one, _ := item.(*unstructured.Unstructured)
				have = append(have, one.GetName()+" "+one.GetResourceVersion())
				return nil
			})
			must(t, err)
			if !slices.Equal(have, test.want) {
				t.Errorf("objects are %q, want %q", have, test.want)
			}
			if !slices.Equal(tokens, test.tokens) {
				t.Errorf("continue tokens are %q, want %q", tokens, test.tokens)
			}
		})
	}
	t.Run("the first page", func(t *testing.T) {
		list := func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			return nil, expired("")
		}
		err := Pages(t.Context(), list, metav1.ListOptions{}, func(runtime.Object) error { return nil })
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("error is %v, want the 410 of the first page", err)
		}
	})
}
