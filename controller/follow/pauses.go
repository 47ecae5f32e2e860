package follow

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// pauses are the conditions Paused that policies are to have, by name. Of those that are not here,
// the condition is left as it stands.
type pauses struct {
	mu   sync.Mutex
	have map[string]metav1.Condition
}

func (p *pauses) of(name string) (metav1.Condition, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	condition, ok := p.have[name]
	return condition, ok
}

func (p *pauses) set(name string, condition metav1.Condition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have == nil {
		p.have = map[string]metav1.Condition{}
	}
	condition.Type = v1alpha1.ConditionPaused
	p.have[name] = condition
}

func (p *pauses) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.have, name)
}

// Write has the condition Paused of one policy written with the rest of its status. It implements
// notice.Conditions, as do Left and All.
func (p *Policies) Write(_ context.Context, name string, condition metav1.Condition) error {
	known, ok := p.mirror.Get(name)
	if !ok || p.status == nil {
		return nil
	}
	p.pauses.set(name, condition)
	p.writeStatus(name, &known)
	return nil
}

// Left returns the policies whose condition Paused is True, no matter who wrote it.
func (p *Policies) Left(context.Context) ([]string, error) {
	all, err := p.mirror.All()
	if err != nil {
		return nil, err
	}
	var out []string
	for name, compiled := range all {
		if meta.IsStatusConditionTrue(compiled.object.Status.Conditions, v1alpha1.ConditionPaused) {
			out = append(out, name)
		}
	}
	return out, nil
}

// All are the names of all policies that are known.
func (p *Policies) All() []string {
	all, err := p.mirror.All()
	if err != nil {
		return nil
	}
	out := make([]string, 0, len(all))
	for name := range all {
		out = append(out, name)
	}
	return out
}

// UID is that of a policy, "" where it is not known.
func (p *Policies) UID(name string) types.UID {
	known, ok := p.mirror.Get(name)
	if !ok {
		return ""
	}
	return known.object.UID
}
