package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
)

// shelf is a Reader with numbered objects. Pages of more than most are too large.
type shelf struct {
	Reader
	total, most int
	limits      []int64
}

func (r *shelf) List(_ context.Context, _ schema.GroupVersionResource, _ string, _ bool, options metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
	r.limits = append(r.limits, options.Limit)
	if int(options.Limit) > r.most {
		return nil, "", apierrors.NewRequestEntityTooLargeError("too large")
	}
	from, _ := strconv.Atoi(options.Continue)
	to := min(r.total, from+int(options.Limit))
	page := make([]unstructured.Unstructured, to-from)
	for i := range page {
		page[i].Object = map[string]any{}
		page[i].SetName(strconv.Itoa(from + i))
	}
	if to == r.total {
		return page, "", nil
	}
	return page, strconv.Itoa(to), nil
}

// Every object is listed once, whatever pages are too large or take too long, and others may work
// between two pages.
func TestPages(t *testing.T) {
	for name, c := range map[string]struct {
		most   int
		whole  bool
		spent  time.Duration // on an object
		limits []int64
	}{
		"small":         {1000, false, 0, []int64{500, 500, 500}},
		"whole":         {1000, true, 0, []int64{50, 100, 200, 400, 500}},
		"too large":     {200, true, 0, []int64{50, 100, 200, 400, 100, 200, 400, 100, 200, 400, 100}},
		"one at a time": {1, true, 0, nil},
		"slow":          {1000, false, 10 * time.Millisecond, []int64{500, 100, 100, 100, 100, 100, 100, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			reader, between, seen := &shelf{total: 1150, most: c.most}, 0, 0
			p := newPages(reader, c.whole)
			p.yield = func(context.Context, bool) error { between++; return nil }
			err := p.each(t.Context(), schema.GroupVersionResource{}, "", metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
				if object.GetName() != strconv.Itoa(seen) {
					return fmt.Errorf("%s after %d objects", object.GetName(), seen)
				}
				seen++
				*p.spent += c.spent
				return nil
			})
			if err != nil || seen != 1150 || between < 2 || c.limits != nil && !slices.Equal(reader.limits[:min(len(c.limits), len(reader.limits))], c.limits) {
				t.Errorf("%d objects, %v; %d times between pages; limits %v, want %v", seen, err, between, reader.limits, c.limits)
			}
		})
	}
	p, ended := newPages(&shelf{total: 1000, most: 1000}, false), errors.New("it is over")
	p.yield = func(context.Context, bool) error { return ended }
	if err := p.each(t.Context(), schema.GroupVersionResource{}, "", metav1.ListOptions{}, func(*unstructured.Unstructured) error { return nil }); !errors.Is(err, ended) {
		t.Errorf("%v, want that it is over", err)
	}
}

// keeping keeps the last page of each resource.
type keeping struct {
	*world
	pages map[string][]unstructured.Unstructured
}

func (k keeping) List(ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
	page, next, err := k.world.List(ctx, resource, namespace, whole, options)
	k.pages[resource.Resource] = page
	return page, next, err
}

// An object is dropped once a lookup has read it: a page of whole objects takes megabytes.
func TestScannedObjectsAreReleased(t *testing.T) {
	k := keeping{unreferenced(), map[string][]unstructured.Unstructured{}}
	for range 3 {
		k.refers("deployments", "prod")
	}
	chosen := 0
	err := open(t, unused(t, "!lookup.referenced", "configmaps"), k, k.options()).Choose(t.Context(), func(*cleanup.Target, *unstructured.Unstructured, cleanup.Decision) error {
		chosen++
		return nil
	})
	if err != nil || chosen > 0 || len(k.pages["deployments"]) != 3 {
		t.Errorf("%d are chosen: %v; %d referrers were listed", chosen, err, len(k.pages["deployments"]))
	}
	for i := range k.pages["deployments"] {
		if k.pages["deployments"][i].Object != nil {
			t.Errorf("object %d is kept", i)
		}
	}
}
