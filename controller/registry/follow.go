package registry

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/expression"
)

// followed is a kind of runtime that is mirrored for as long as a fed kind may refer to it.
type followed struct {
	mirror *follow.Mirror[map[string]any]
	cancel context.CancelFunc
	done   chan struct{}
}

// Cached implements [follow.RuntimeCache].
func (r *Registry) Cached(resource schema.GroupVersionResource, key string) map[string]any {
	r.mu.Lock()
	of := r.runtimes[resource]
	r.mu.Unlock()
	if of == nil {
		return nil
	}
	known, _ := of.mirror.Get(key)
	return known
}

// runtimeDeadline reports whether some runtime has a deadline, as far as the runtimes are known.
func (r *Registry) runtimeDeadline(of *expression.Runtime) (says, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = true
	for _, resource := range of.Resources() {
		followed := r.runtimes[resource]
		if followed == nil {
			known = false
			continue
		}
		all, err := followed.mirror.All()
		known = known && err == nil
		for _, runtime := range all {
			says = says || of.HasDeadline(runtime)
		}
	}
	return says, known
}

// RuntimesKnown reports whether all runtimes are known that objects of the kinds that are served may use.
func (r *Registry) RuntimesKnown() bool {
	definitions, byKind, err := r.known()
	if err != nil {
		return false
	}
	for _, definition := range definitions {
		profile, ok := byKind[definition.Kind]
		if !ok || profile.Runtime == nil {
			continue
		}
		if _, known := r.runtimeDeadline(profile.Runtime); !known {
			return false
		}
	}
	return true
}

// OnRuntimes registers a function that is told when runtimes come, change or go. Call it before Run.
func (r *Registry) OnRuntimes(f func()) { r.onRuntimes = append(r.onRuntimes, f) }

// followRuntimes mirrors the runtimes of the kinds that are fed. The registry's mutex is held.
func (r *Registry) followRuntimes(ctx context.Context) {
	if r.options.Runtime == nil {
		return
	}
	wanted := map[schema.GroupVersionResource][]schema.GroupKind{}
	for at, k := range r.running {
		if k.profile.Runtime == nil {
			continue
		}
		for _, resource := range k.profile.Runtime.Resources() {
			wanted[resource] = append(wanted[resource], at)
		}
	}
	for resource, of := range r.runtimes {
		if wanted[resource] == nil {
			of.cancel()
			delete(r.runtimes, resource)
		}
	}
	for resource := range wanted {
		if r.runtimes[resource] != nil {
			r.runtimes[resource].mirror.Wake()
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		of := &followed{cancel: cancel, done: make(chan struct{})}
		of.mirror = follow.NewMirror(r.options.Runtime(resource), func(object *unstructured.Unstructured) map[string]any {
			object.SetManagedFields(nil)
			return object.Object
		}, r.options.Clock, r.log)
		of.mirror.OnChange(func(key string, _, _ *map[string]any) { r.runtimeChanged(resource, key) })
		r.runtimes[resource] = of
		go func() {
			defer close(of.done)
			of.mirror.Run(ctx)
		}()
	}
}

// runtimeChanged has those judged again that may use the runtime: in its namespace, or everywhere.
func (r *Registry) runtimeChanged(resource schema.GroupVersionResource, key string) {
	for _, f := range r.onRuntimes {
		f()
	}
	namespace, _, namespaced := strings.Cut(key, "/")
	r.each(func(k *kind) {
		if k.profile.Runtime == nil || !slices.Contains(k.profile.Runtime.Resources(), resource) {
			return
		}
		k.tell(func(feed Running) {
			if namespaced {
				feed.RejudgeNamespace(namespace)
			} else {
				feed.RejudgeAll()
			}
		})
	})
}
