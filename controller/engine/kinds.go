package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// RegisterKind registers a kind for a trigger and returns its handle. Registering the same
// Resource, Trigger and Scope again replaces the options and keeps the handle and its objects.
func (e *Engine) RegisterKind(k KindOptions) (Kind, error) {
	if k.Resource.Resource == "" || k.Resource.Version == "" {
		return 0, fmt.Errorf("engine: KindOptions.Resource is %q: give version and plural resource", k.Resource)
	}
	if k.Kind == "" {
		return 0, fmt.Errorf("engine: KindOptions.Kind of %s is empty: give the kind's name", k.Resource)
	}
	if k.Judge == nil {
		return 0, fmt.Errorf("engine: KindOptions.Judge of %s is nil: give a function that reads one object live", k.Resource)
	}
	t := e.triggerNamed(k.Trigger)
	if t == nil {
		return 0, fmt.Errorf("engine: KindOptions.Trigger of %s is %q: give one of Options.Triggers", k.Resource, k.Trigger)
	}
	e.mu.Lock()
	defer e.unlock()
	i := e.kindOf(&k)
	if i == 0 {
		// Reuse a handle of the same resource and trigger only: jobs of the forgotten scope may
		// still be under way.
		i = Kind(max(0, slices.IndexFunc(e.kinds, func(s *kindState) bool {
			return s != nil && s.forgotten && s.opts.Resource == k.Resource && s.trigger == t
		})))
	}
	if i != 0 {
		if !e.kinds[i].forgotten {
			e.forget(&e.kinds[i].last, e.changes.count.Add(1)) // Its objects were judged by other rules.
		}
		e.kinds[i].opts, e.kinds[i].forgotten = &k, false
		return i, nil
	}
	if len(e.kinds) > 65535 {
		return 0, errors.New("engine: more than 65535 kinds are registered: restart the controller")
	}
	e.kinds = append(e.kinds, &kindState{opts: &k, trigger: t})
	e.index.of = append(e.index.of, e.queueFor(&k, t))
	return Kind(len(e.kinds) - 1), nil
}

func (e *Engine) kindOf(o *KindOptions) Kind {
	return Kind(max(0, slices.IndexFunc(e.kinds, func(k *kindState) bool {
		return k != nil && k.opts.Resource == o.Resource && k.opts.Trigger == o.Trigger && k.opts.Scope == o.Scope
	})))
}

// lookup finds the entry of a UID for the trigger of a kind.
func (e *Engine) lookup(k Kind, uid types.UID) (uint32, bool) {
	if k == 0 || int(k) >= len(e.kinds) {
		return 0, false
	}
	return e.index.lookup(uid, e.kinds[k].trigger.id)
}

// ForgetKind drops all objects of a kind, for instance when its CRD is gone. Its feed must have
// ended: another scope may get the handle from now on. Handles are reused because thousands of
// namespaces may come and go, each with its own handles for the kinds that are watched by
// namespace.
func (e *Engine) ForgetKind(k Kind) {
	e.sweep(k, func(*entry) bool { return true })
	e.mu.Lock()
	defer e.unlock()
	was := e.kinds[k]
	for _, scope := range e.breakers.forget(k) {
		e.publish(scope.event(false, "", was.opts.Kind, e.opts.Clock.Now()))
	}
	// The options that remain must not hold on to a feed.
	was.opts = &KindOptions{Type: was.opts.Type, Trigger: was.opts.Trigger, Scope: was.opts.Scope,
		Judge: func(context.Context, Object) (Judgement, error) {
			return Judgement{}, errors.New("the kind is not known any more")
		}}
	was.forgotten, was.held = true, false
	e.forget(&was.last, was.last.all)
}
