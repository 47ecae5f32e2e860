package main

import (
	"context"
	"flag"
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

// cleanupOptions are the flags of the drain by a cleanup policy.
var cleanupOptions struct{ objects, rounds int }

func init() {
	register(bench{
		name: "cleanup", about: "ConfigMaps that a cleanup policy deletes, beside as many that it keeps", position: 35, run: runCleanup,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&cleanupOptions.objects, "cleanup-objects", 100000, "how many ConfigMaps match; as many do not")
			fs.IntVar(&cleanupOptions.rounds, "cleanup-rounds", 3, "how many rounds")
		},
	})
}

// extraMost is what a run may need at most beyond the idle controller, in MB.
const extraMost = 64

func runCleanup(ctx context.Context, e *environment) (results []result, err error) {
	o := cleanupOptions
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
		others: jobSet{prefix: "other", count: o.objects}}
	// As for labels: another cargo, another best number of calls.
	before := e.parallel
	e.parallel = e.calls
	defer func() { e.parallel = before }()
	var memory extraMemory
	field := []contestant{
		{name: theLimit, about: labelField[0].about, ends: true, start: startLoop},
		{name: theCurfew, about: "Curfew", start: memory.start},
	}
	d := &contest{env: e, name: "cleanup", jobs: o.objects, rounds: o.rounds, load: c}
	all, _, err := d.drain(ctx, e, field)
	if err == nil {
		err = c.allKept(ctx)
	}
	if cleared := c.labelled.clear(ctx, c.others); err == nil {
		err = cleared
	}
	if err != nil {
		return nil, err
	}
	return summarizeCleanup(all, o.objects, memory.extra()), nil
}

func summarizeCleanup(all []measurement, objects int, extra []float64) []result {
	rates := map[string][]float64{}
	for _, m := range all {
		rates[m.Contestant] = append(rates[m.Contestant], m.PerSecond)
	}
	var results []result
	if len(rates[theCurfew]) > 0 && len(rates[theLimit]) > 0 {
		results = append(results, compare("cleanup.drain."+sizeName(objects)+".vs_limit", "deletes/s", rates[theCurfew], labelField[0].about, rates[theLimit]))
	}
	return append(results, memoryRow("cleanup.memory.extra_mb", extra)...)
}

// memoryRow compares what runs needed beyond the idle controller with the limit.
func memoryRow(name string, extra []float64) []result {
	if len(extra) == 0 {
		return nil
	}
	return []result{compare(name, "MB", extra, "the limit", slices.Repeat([]float64{extraMost}, len(extra)))}
}

// cleaned makes ConfigMaps fall due by the run of a cleanup policy, beside others that it has to
// look at and to keep.
type cleaned struct {
	labelled
	policies dynamic.ResourceInterface
	others   jobSet
	made     bool
}

// namespace makes the namespace, and once the others.
func (c *cleaned) namespace(ctx context.Context) error {
	if err := c.labelled.namespace(ctx); err != nil || c.made {
		return err
	}
	c.made = true
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
func (*cleaned) dueFrom(at time.Time) time.Time {
	return at.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
}

// finish creates the policy.
func (c *cleaned) finish(ctx context.Context, set jobSet, due time.Time) error {
	return c.apply(ctx, policyOf(set.prefix, scheduleAt(due)))
}

// scheduleAt is the schedule of a policy that is due at an instant.
func scheduleAt(due time.Time) string {
	at := due.UTC()
	return fmt.Sprintf("%d %d %d %d *", at.Minute(), at.Hour(), at.Day(), int(at.Month()))
}

func (c *cleaned) apply(ctx context.Context, policy *unstructured.Unstructured) error {
	if _, err := c.policies.Create(ctx, policy, metav1.CreateOptions{}); err != nil {
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
	p, err := startCurfew()(ctx, e, h)
	if err != nil {
		return nil, err
	}
	go func() {
		var idle, most int64
		for pause(ctx, 100*time.Millisecond) == nil {
			select {
			case <-p.ended:
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
