package feed

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// store is an API server with the metadata of the objects of one kind.
type store struct {
	*api[*metav1.PartialObjectMetadata]
	wholes atomic.Int32 // objects that were read whole
	spec   map[string]any
}

func newStore() *store {
	return &store{api: newAPI("configmaps", func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
		func() client.ObjectList { return &metav1.PartialObjectMetadataList{} })}
}

func (s *store) label(key, value string) {
	s.change(key, func(o *metav1.PartialObjectMetadata) {
		if value == "" {
			delete(o.Labels, wellknown.LabelTTL)
		} else {
			o.Labels = map[string]string{wellknown.LabelTTL: value}
		}
	})
}

func (s *store) whole(ctx context.Context, namespace, key string) (runtime.Object, error) {
	object, err := s.get(ctx, namespace, key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wholes.Add(1)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	content["spec"] = s.spec
	return &unstructured.Unstructured{Object: content}, err
}

// config is an object that is created now, with labels.
func config(name string, pairs ...string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.Namespace, o.Name, o.UID = "ci", name, types.UID("uid-"+name)
	o.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	o.Labels = map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Labels[pairs[i]] = pairs[i+1]
	}
	return o
}

// nothing is a metadata client that is never asked: the tests bring functions of their own.
type nothing struct{ metadata.Interface }

func (nothing) Resource(schema.GroupVersionResource) metadata.Getter { return nil }

// in is the label's form of an instant.
func in(d time.Duration) string { return lifetime.TTLLabel{At: time.Now().Add(d)}.String() }

// stock runs feeds over a store, and their engine, until the test ends. Call it inside a synctest
// bubble.
func stock(t *testing.T, s *store, n *namespaces, change func(*Options), kinds ...LabelledKind) ([]*Feed, *expire.Engine) {
	t.Helper()
	engine, err := expire.New(expire.Options{Triggers: triggers(s), Clock: clock.RealClock{}})
	must(t, err)
	options := Options{Engine: engine, Clock: clock.RealClock{}, Log: logr.Discard(), Protect: []string{"curfew-system", "kube-system"}}
	over(&options, func(r *reads) { r.namespaces = n })
	if change != nil {
		change(&options)
	}
	running(t, options.Engine.Run, nothingToCut)
	var feeds []*Feed
	for _, labelled := range kinds {
		if labelled.Resource == "" {
			labelled.Kind, labelled.Resource = configMap, "configmaps"
		}
		kind := Labelled(nothing{}, nil, labelled)
		kind.List, kind.Watch, kind.Get, kind.Whole = s.list, s.watch, s.get, s.whole
		feed, err := New(kind, options)
		must(t, err)
		feeds = append(feeds, feed)
		running(t, feed.Run, s.cut)
	}
	return feeds, options.Engine
}

func expectOn(t *testing.T, s *store, key string, there bool) {
	t.Helper()
	if s.has(key) != there {
		t.Errorf("at %s: %s exists: %v, want %v", time.Now().Format("15:04:05.000"), key, !there, there)
	}
}
