package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/wellknown"
)

// owners is an OwnerReader with one answer.
type owners struct {
	mu     sync.Mutex
	object map[string]any
	err    error
	reads  int
}

func (o *owners) Read(context.Context, string, *metav1.OwnerReference) (map[string]any, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	return o.object, o.err
}

func (o *owners) Existing(_ context.Context, _ string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error) {
	return owners, nil
}

func (o *owners) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reads
}

func (o *owners) answer(object map[string]any, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.object, o.err = object, err
}

func templated(under, key, value string) map[string]any {
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{under: map[string]any{key: value}}}}}
}

func ownedBy(apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "uid-owner", Controller: ptr.To(true)}}
}

// A child whose key comes from its owner's template is kept; one whose key is its own is deleted,
// and so is an orphan.
func TestKeyFromAnOwnersTemplate(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "replicasets"}, "owner", errors.New("no"))
	for name, test := range map[string]struct {
		owner map[string]any
		err   error
		there bool
	}{
		"from the template":          {templated("labels", wellknown.LabelTTL, "1m"), nil, true},
		"its own":                    {templated("labels", "app", "web"), nil, false},
		"the owner is gone":          {nil, nil, false},
		"the owner may not be read":  {nil, forbidden, true},
		"the owner is too large":     {nil, fmt.Errorf("reading: %w", apierrors.NewRequestEntityTooLargeError("3 MB")), true},
		"the owner's kind is no one": {nil, &meta.NoKindMatchError{}, true},
		"no answer":                  {nil, errors.New("connection refused"), true},
	} {
		inBubble(t, name, func(t *testing.T) {
			s, o := newStore(), &owners{object: test.owner, err: test.err}
			child := config("child", wellknown.LabelTTL, "1m")
			child.CreationTimestamp = metav1.Now()
			child.OwnerReferences = ownedBy("apps/v1", "ReplicaSet")
			s.put(child)
			plain := config("plain", wellknown.LabelTTL, "1m")
			plain.CreationTimestamp = metav1.Now()
			s.put(plain)
			stock(t, s, none(), func(options *Options) { options.Owners = o }, LabelledKind{})
			at(59 * time.Second)
			if o.count() != 0 {
				t.Error("the owner was read before anything was due")
			}
			at(30 * time.Second)
			expectOn(t, s, "ci/child", test.there)
			expectOn(t, s, "ci/plain", false)
			if o.count() == 0 {
				t.Error("the owner was not read")
			}
			o.answer(nil, nil) // Once there is an answer, it decides.
			at(time.Hour)
			expectOn(t, s, "ci/child", false)
		})
	}
}

// claimTemplates are labels of the only claim template, by the name of the StatefulSet.
type claimTemplates map[string]string

func (s claimTemplates) Read(_ context.Context, _ string, owner *metav1.OwnerReference) (map[string]any, error) {
	label, ok := s[owner.Name]
	if !ok || owner.Kind != "StatefulSet" {
		return nil, nil
	}
	return map[string]any{"spec": map[string]any{"volumeClaimTemplates": []any{
		map[string]any{"metadata": map[string]any{"name": "data", "labels": map[string]any{wellknown.LabelTTL: label}}}}}}, nil
}

func (s claimTemplates) Existing(_ context.Context, _ string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error) {
	return slices.DeleteFunc(owners, func(owner *metav1.OwnerReference) bool { return s[owner.Name] == "" }), nil
}

// counted counts the reads.
type counted struct {
	claimTemplates
	reads atomic.Int32
}

func (c *counted) Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error) {
	c.reads.Add(1)
	return c.claimTemplates.Read(ctx, namespace, owner)
}

// S9: the name of a claim that fits many StatefulSets costs reads of those alone that exist.
func TestClaimThatFitsManyStatefulSets(t *testing.T) {
	claims := schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	for label, there := range map[string]bool{"1m": true, "1h": false} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newStore(), &counted{claimTemplates: claimTemplates{"a-a": label, "web": "1m"}}
			name := strings.Repeat("a-", 31) + "0"
			s.put(config(name, wellknown.LabelTTL, "1m"))
			stock(t, s, none(), func(options *Options) { options.Owners = c }, LabelledKind{Kind: claims, Resource: "persistentvolumeclaims"})
			at(2 * time.Minute)
			expectOn(t, s, "ci/"+name, there)
			if n := c.reads.Load(); n == 0 || n > 2 {
				t.Errorf("%d StatefulSets were read, want the one that exists", n)
			}
		})
	}
}

// A claim names no owner. One whose label comes from the claim template of a StatefulSet, as its
// name says, is kept while that exists: its Pods need the volume.
func TestClaimOfAStatefulSet(t *testing.T) {
	claims := schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	for name, there := range map[string]bool{
		"data-web-0": true, "data-my-web-11": true, "my-data-my-web-2": true,
		"data-other-0": false, // whose label is another
		"data-gone-0":  false,
		"web-0":        false, // There is no name of a template.
		"data-web":     false,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newStore()
			s.put(config(name, wellknown.LabelTTL, "1m"))
			templates := claimTemplates{"web": "1m", "my-web": "1m", "other": "1h"}
			stock(t, s, none(), func(options *Options) { options.Owners = templates }, LabelledKind{Kind: claims, Resource: "persistentvolumeclaims"})
			at(2 * time.Minute)
			expectOn(t, s, "ci/"+name, there)
		})
	}
	// A claim of the same name for another kind has no owner.
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put(config("data-web-0", wellknown.LabelTTL, "1m"))
		stock(t, s, none(), func(options *Options) { options.Owners = claimTemplates{"web": "1m"} }, LabelledKind{})
		at(2 * time.Minute)
		expectOn(t, s, "ci/data-web-0", false)
	})
}

// TTLs after finished: an annotation from the template, a native field, and a CronJob's Job, whose
// jobTemplate is explicit.
func TestTTLFromAnOwnersTemplate(t *testing.T) {
	for name, test := range map[string]struct {
		apiVersion, kind string
		native           int32
		there            bool
		reads            bool
	}{
		"annotation":       {"jobset.x-k8s.io/v1alpha2", "JobSet", -1, true, true},
		"native field":     {"jobset.x-k8s.io/v1alpha2", "JobSet", 5, false, false},
		"Job of a CronJob": {"batch/v1", "CronJob", -1, false, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, o := newWorld(), &owners{object: templated("annotations", wellknown.AnnotationTTL, "5s")}
			job := finished("ci", "a", "uid-a", test.native)
			job.OwnerReferences = ownedBy(test.apiVersion, test.kind)
			if test.native < 0 {
				job.Annotations = map[string]string{wellknown.AnnotationTTL: "5s"}
			}
			w.put(job)
			start(t, w, none(), func(options *Options) { options.Owners = o })
			at(10 * time.Second)
			expect(t, w, "a", test.there)
			if (o.reads > 0) != test.reads {
				t.Errorf("the owner was read %d times", o.reads)
			}
		})
	}
}
