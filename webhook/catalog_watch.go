package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// retryAbsent is how often Curfew looks whether its CRDs have been installed since.
const retryAbsent = 10 * time.Second

// Informers gives out informers, as the cache of a manager does.
type Informers interface {
	GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// CatalogWatch keeps a catalog in step with the LifecyclePolicies and KindProfiles of a cluster, and with the kinds that it serves. A
// cluster without the CRDs has the built-in profiles and no policies, until the CRDs are there.
type CatalogWatch struct {
	catalog   *platform.Store
	informers Informers
	log       logr.Logger
	kinds     []*watchedKind
}

type watchedKind struct {
	name    string
	object  client.Object
	handler toolscache.ResourceEventHandler
	// synced is nil until the watch has begun; absent means that the CRD is not installed.
	synced atomic.Pointer[func() bool]
	absent atomic.Bool
}

// NewCatalogWatch returns a runnable for the manager that gives out the informers.
func NewCatalogWatch(known *platform.Store, informers Informers, log logr.Logger) *CatalogWatch {
	out := &CatalogWatch{catalog: known, informers: informers, log: log}
	out.kinds = []*watchedKind{
		{name: v1alpha1.LifecyclePolicies, object: &v1alpha1.LifecyclePolicy{}, handler: handle(out,
			func(object *v1alpha1.LifecyclePolicy) field.ErrorList { return known.SetPolicy(object) }, known.RemovePolicy)},
		{name: v1alpha1.KindProfiles, object: &v1alpha1.KindProfile{}, handler: handle(out,
			func(object *v1alpha1.KindProfile) field.ErrorList { return known.SetProfile(object) }, known.RemoveProfile)},
		{name: "customresourcedefinitions", object: Definitions(), handler: handle(out, func(object *definition) field.ErrorList {
			known.SetDefinition(object.Name, object.says)
			return nil
		}, known.RemoveDefinition)},
	}
	return out
}

// NeedLeaderElection is false: every replica answers requests.
func (w *CatalogWatch) NeedLeaderElection() bool { return false }

// Start begins the watches and returns once both run, or ctx ends.
func (w *CatalogWatch) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, retryAbsent, true, func(ctx context.Context) (bool, error) {
		begun := 0
		for _, kind := range w.kinds {
			if kind.synced.Load() != nil || w.begin(ctx, kind) {
				begun++
			}
		}
		return begun == len(w.kinds), nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (w *CatalogWatch) begin(ctx context.Context, kind *watchedKind) bool {
	informer, err := w.informers.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		if !kind.absent.Swap(true) {
			w.log.Info("CRD is not installed: none of its objects count until it is", "resource", kind.name+"."+v1alpha1.GroupVersion.Group)
		}
		return false
	}
	if err != nil {
		w.log.Error(err, "watch could not begin, will be tried again", "resource", kind.name)
		return false
	}
	registration, err := informer.AddEventHandler(kind.handler)
	if err != nil {
		w.log.Error(err, "watch could not begin, will be tried again", "resource", kind.name)
		return false
	}
	synced := registration.HasSynced
	kind.synced.Store(&synced)
	if kind.absent.Swap(false) {
		w.log.Info("CRD is installed", "resource", kind.name)
	}
	return true
}

// Ready says why the catalog may not know all that the cluster has, or returns nil.
func (w *CatalogWatch) Ready() error {
	var errs []error
	for _, kind := range w.kinds {
		if synced := kind.synced.Load(); kind.absent.Load() || (synced != nil && (*synced)()) {
			continue
		}
		errs = append(errs, fmt.Errorf("not all %s are known yet", kind.name))
	}
	return errors.Join(errs...)
}

// handle makes an event handler of what sets an object and what removes one by name.
func handle[T client.Object](w *CatalogWatch, set func(T) field.ErrorList, remove func(name string)) toolscache.ResourceEventHandler {
	take := func(object any) {
		typed, ok := object.(T)
		if !ok {
			return
		}
		if err := set(typed).ToAggregate(); err != nil {
			w.log.Info("object cannot be used as it stands: what it speaks of is kept", "name", typed.GetName(), "reason", err.Error())
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, object any) { take(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if typed, ok := object.(T); ok {
				remove(typed.GetName())
			}
		},
	}
}
