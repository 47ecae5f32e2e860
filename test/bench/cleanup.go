package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy/v1alpha1"
)

// extraMost is what a run may need at most beyond the idle controller, in MB.
const extraMost = 64

func runCleanup(ctx context.Context, e *environment) (results []result, err error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	policies, err := dynamic.NewForConfig(e.config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c := &cleaned{labelled: labelled{client}, policies: policies.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)),
		others: jobSet{prefix: "other", count: e.objects}}
	var memory extraMemory
	field := []contestant{bareLoop, {name: theCurfew, about: "Curfew", start: memory.start}}
	all, err := (&contest{env: e, name: "cleanup", cargo: c, field: field}).runAll(ctx)
	if err == nil {
		err = c.allKept(ctx)
	}
	if err := errors.Join(err, c.labelled.clear(ctx, c.others)); err != nil {
		return nil, err
	}
	results = summarizeRate("cleanup.drain", all, e.objects)
	if extra := memory.extra(); len(extra) > 0 {
		results = append(results, compare("cleanup.memory.extra_mb", "MB", extra, "the limit", slices.Repeat([]float64{extraMost}, len(extra))))
	}
	return results, nil
}

// cleaned makes ConfigMaps fall due by the run of a cleanup policy, beside others that it has to
// look at and to keep.
type cleaned struct {
	labelled
	policies dynamic.ResourceInterface
	others   jobSet
}

// prepare makes the namespace and the others.
func (c *cleaned) prepare(ctx context.Context) error {
	if err := c.labelled.prepare(ctx); err != nil {
		return err
	}
	return c.create(ctx, c.others)
}

// allKept returns an error unless the others are all there: a run that deletes too much is faster
// than it should be.
func (c *cleaned) allKept(ctx context.Context) error {
	list, err := c.client.CoreV1().ConfigMaps(benchNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("count what was kept: %w", err)
	}
	left := len(list.Items)
	if list.RemainingItemCount != nil {
		left += int(*list.RemainingItemCount)
	}
	if left < c.others.count {
		return fmt.Errorf("%d of %d ConfigMaps that do not match are left", left, c.others.count)
	}
	return nil
}

// dueFrom is the first whole minute from an instant on: no schedule is finer.
func (*cleaned) dueFrom(t time.Time) time.Time {
	return t.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
}

// finish creates the policy.
func (c *cleaned) finish(ctx context.Context, set jobSet, due time.Time) error {
	t := due.UTC()
	schedule := fmt.Sprintf("%d %d %d %d *", t.Minute(), t.Hour(), t.Day(), int(t.Month()))
	if _, err := c.policies.Create(ctx, policyOf(set.prefix, schedule), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the policy: %w", err)
	}
	return nil
}

// policyOf matches the objects of a set by name, which no selector of the API server can: the
// others are listed, too.
func policyOf(prefix, schedule string) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"schedule": schedule,
		"matchConstraints": map[string]any{
			"resourceRules":     []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}}},
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": benchNamespace}},
		},
		"conditions": []any{map[string]any{"name": "matches", "expression": fmt.Sprintf("object.metadata.name.startsWith(%q)", prefix+"-")}},
	}}}
	policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterCleanupPolicy"))
	policy.SetName(prefix)
	return policy
}

// clear deletes the policy and the remaining objects of a set.
func (c *cleaned) clear(ctx context.Context, set jobSet) error {
	if err := c.policies.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + set.prefix}); err != nil {
		return fmt.Errorf("delete the policy: %w", err)
	}
	return c.labelled.clear(ctx, set)
}

// extraMemory is what controllers needed beyond what they needed idle.
type extraMemory struct {
	mu    sync.Mutex
	bytes []int64
}

// start starts Curfew and looks at its resident memory until it ends.
func (m *extraMemory) start(ctx context.Context, e *environment, h heat) (*process, error) {
	p, err := startCurfew(ctx, e, h)
	if err != nil {
		return nil, err
	}
	go func() {
		var idle, most int64
		for pause(ctx, 100*time.Millisecond) == nil {
			select {
			case <-p.Ended():
				m.mu.Lock()
				defer m.mu.Unlock()
				m.bytes = append(m.bytes, most-idle)
				return
			default:
			}
			now, err := p.resident()
			switch {
			case err != nil: // It ends.
			case time.Now().Before(h.due):
				idle = now
			default:
				most = max(most, now)
			}
		}
	}()
	return p, nil
}

// extra is what each of them needed, in MB.
func (m *extraMemory) extra() []float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []float64
	for _, bytes := range m.bytes {
		out = append(out, round(float64(bytes)/1e6))
	}
	return out
}
