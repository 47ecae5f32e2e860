package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// RegisterKind makes a kind known for a trigger and returns its handle. The same Resource, Trigger
// and Scope again replace the options and keep the handle and what is tracked.
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
		// Of the same resource and trigger, so that what is still under way for the one that is
		// gone cannot be mistaken for anything else.
		i = Kind(max(0, slices.IndexFunc(e.kinds, func(s *kindState) bool {
			return s != nil && s.forgotten && s.opts.Resource == k.Resource && s.trigger == t
		})))
	}
	if i != 0 {
		if !e.kinds[i].forgotten {
			e.forget(&e.kinds[i].last, e.changes.count.Add(1)) // What is tracked was judged by other rules.
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

// ForgetKind drops all that is tracked of a kind, as when its CRD is gone. Its feed must have
// ended: the handle may be another scope's from now on. Namespaces come and go by the thousand,
// each with handles of its own for every kind that is watched in it alone.
func (e *Engine) ForgetKind(k Kind) {
	e.sweep(k, func(*entry) bool { return true })
	e.mu.Lock()
	defer e.unlock()
	was := e.kinds[k]
	for _, scope := range e.breakers.forget(k) {
		e.publish(scope.event(false, "", was.opts.Kind, e.opts.Clock.Now()))
	}
	// What is kept of it holds on to no feed.
	was.opts = &KindOptions{Type: was.opts.Type, Trigger: was.opts.Trigger, Scope: was.opts.Scope,
		Judge: func(context.Context, Object) (Judgement, error) {
			return Judgement{}, errors.New("the kind is not known any more")
		}}
	was.forgotten, was.held = true, false
	e.forget(&was.last, was.last.all)
}
