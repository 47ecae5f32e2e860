package webhook

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// installer is a cluster in which the CRDs may be missing.
type installer struct {
	installed atomic.Bool
	handlers  []toolscache.ResourceEventHandler
}

func (i *installer) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if !i.installed.Load() {
		return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "curfew.dev"}}
	}
	return &informer{installer: i}, nil
}

type informer struct {
	cache.Informer
	installer *installer
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.installer.handlers = append(i.installer.handlers, handler)
	return &registration{}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (*registration) HasSynced() bool { return true }

func TestWatchWaitsForTheCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, err := platform.New(builtinProfiles(t))
		if err != nil {
			t.Fatal(err)
		}
		cluster := &installer{}
		watch := NewCatalogWatch(known, cluster, logr.Discard())
		if watch.Ready() == nil {
			t.Error("ready before it looked")
		}
		ended := make(chan error, 1)
		go func() { ended <- watch.Start(t.Context()) }()
		synctest.Wait()
		if err := watch.Ready(); err != nil {
			t.Errorf("not ready without the CRDs: %v", err)
		}
		cluster.installed.Store(true)
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Hour):
			t.Fatal("the watches never began")
		}
		policies := cluster.handlers[0]
		policies.OnAdd(parsed[v1alpha1.LifecyclePolicy](t, platformWide), true)
		if got := known.Snapshot().Policies; len(got) != 1 || got[0].Name != "platform" {
			t.Errorf("policies are %v", got)
		}
		policies.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "platform", Obj: parsed[v1alpha1.LifecyclePolicy](t, platformWide)})
		if got := known.Snapshot().Policies; len(got) != 0 {
			t.Errorf("policies are %v after the deletion", got)
		}
		crd, err := StripDefinition(jobSetDefinition())
		if err != nil {
			t.Fatal(err)
		}
		jobSet, definitions := schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}, cluster.handlers[2]
		definitions.OnAdd(crd, true)
		if got := known.Snapshot().Profiles[jobSet]; got.TTL != nil {
			t.Errorf("native TTL is %s in a version that has none", got.TTL)
		}
		definitions.OnDelete(crd)
		if got := known.Snapshot().Profiles[jobSet]; got.TTL == nil {
			t.Error("no native TTL once the definition is gone")
		}
	})
}

// jobSetDefinition is that of a version without a TTL.
func jobSetDefinition() *unstructured.Unstructured {
	out := Definitions()
	out.SetName("jobsets.jobset.x-k8s.io")
	out.Object["spec"] = map[string]any{"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": "JobSet", "plural": "jobsets"},
		"versions": []any{map[string]any{"name": "v1alpha2", "served": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object"}}}}}}}
	out.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	return out
}
