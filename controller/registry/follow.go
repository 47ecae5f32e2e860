package registry

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/feedset"
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

// followRuntimes mirrors the runtimes of the kinds that have feeds.
func (r *Registry) followRuntimes(ctx context.Context, feeds []*feedset.Spec) {
	if r.options.Runtime == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := map[schema.GroupVersionResource]bool{}
	for _, spec := range feeds {
		if spec.Profile.Runtime == nil {
			continue
		}
		for _, resource := range spec.Profile.Runtime.Resources() {
			wanted[resource] = true
		}
	}
	for resource, of := range r.runtimes {
		if !wanted[resource] {
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
	if !namespaced {
		namespace = ""
	}
	r.options.Feeds.Rejudge(namespace, func(spec *feedset.Spec) bool {
		return spec.Profile != nil && spec.Profile.Runtime != nil && slices.Contains(spec.Profile.Runtime.Resources(), resource)
	})
}

// stopRuntimes waits until no runtime is followed any more.
func (r *Registry) stopRuntimes() {
	r.mu.Lock()
	var all []*followed
	for _, one := range r.runtimes {
		one.cancel()
		all = append(all, one)
	}
	r.mu.Unlock()
	for _, one := range all {
		<-one.done
	}
}
