package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// tallyContest is its state.
type tallyContest struct {
	env     *environment
	heats   int
	typed   kubernetes.Interface
	partial metadata.Interface
	tallies dynamic.ResourceInterface
}

// runTally lets a new PodTally count finished Pods, beside a loop that removes their finalizers.
func runTally(ctx context.Context, e *environment) ([]result, error) {
	t := &tallyContest{env: e}
	if err := t.install(ctx); err != nil {
		return nil, err
	}
	var limit, curfew []float64
	for n := range e.rounds {
		bare, err := t.heat(ctx, t.loop)
		if err != nil {
			return nil, err
		}
		counted, err := t.heat(ctx, t.count)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(e.out, "round %d of %d: the loop with %d calls at a time %.0f Pods/s, Curfew %.0f\n", n+1, e.rounds, e.calls, bare, counted)
		limit, curfew = append(limit, bare), append(curfew, counted)
	}
	return []result{compare("tally.count.vs_limit", "Pods/s", curfew, "bare loop of parallel finalizer patches", limit)}, nil
}

func (t *tallyContest) install(ctx context.Context) (err error) {
	if t.typed, err = kubernetes.NewForConfig(connect(t.env.config)); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if t.partial, err = metadata.NewForConfig(connect(t.env.config)); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	plain, err := dynamic.NewForConfig(t.env.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	t.tallies = plain.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.PodTallies)).Namespace(benchNamespace)
	return load{t.typed}.prepare(ctx)
}

// heat makes finished Pods with the finalizer and has them released. The rate is that at which a
// watch sees the finalizers vanish, which is the same for every contestant.
func (t *tallyContest) heat(ctx context.Context, run func(context.Context, jobSet) error) (rate float64, err error) {
	t.heats++
	set := jobSet{prefix: fmt.Sprintf("t%d", t.heats), count: t.env.objects}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, t.clear(ctx, set))
		}
	}()
	if err := t.create(ctx, set); err != nil {
		return 0, err
	}
	list, err := t.pod().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("list Pods: %w", err)
	}
	counted := func(_ watch.Event, pod metav1.Object) bool {
		return !slices.Contains(pod.GetFinalizers(), wellknown.FinalizerTally)
	}
	watching, err := observe(ctx, set, list.ResourceVersion, t.pod().Watch, counted)
	if err != nil {
		return 0, err
	}
	defer watching.close()
	if err := run(ctx, set); err != nil {
		return 0, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-watching.full:
	case <-watching.ended:
		return 0, watching.failure()
	case <-timer.C:
		return 0, fmt.Errorf("%d of %d Pods were seen to be released", len(watching.sightings()), set.count)
	}
	seen := watching.sightings()
	return float64(len(seen)-1) / seen[len(seen)-1].at.Sub(seen[0].at).Seconds(), nil
}

func (t *tallyContest) pod() metadata.ResourceInterface {
	return t.partial.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(benchNamespace)
}

func (t *tallyContest) create(ctx context.Context, set jobSet) error {
	pods := t.typed.CoreV1().Pods(benchNamespace)
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		pod := &corev1.Pod{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: "registry.example/work:1"}},
		}}
		pod.Name, pod.Labels, pod.Finalizers = name, map[string]string{"bench": set.prefix}, []string{wellknown.FinalizerTally}
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		created.Status.Phase = corev1.PodSucceeded
		_, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
		return err
	})
}

func (t *tallyContest) clear(ctx context.Context, set jobSet) error {
	now := int64(0)
	return t.pod().DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "bench=" + set.prefix})
}

// loop is the limit: parallel patches over names that are known. It counts nothing.
func (t *tallyContest) loop(ctx context.Context, set jobSet) error {
	patch := fmt.Appendf(nil, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q],"annotations":{%q:"bench"}}}`, wellknown.FinalizerTally, wellknown.AnnotationCountedBy)
	return set.each(ctx, t.env.calls, func(ctx context.Context, name string) error {
		_, err := t.pod().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// count lets Curfew count the Pods by a tally of theirs.
func (t *tallyContest) count(ctx context.Context, set jobSet) error {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodTally", "metadata": map[string]any{"name": set.prefix},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"bench": set.prefix}}},
	}}
	if _, err := t.tallies.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the PodTally: %w", err)
	}
	p, err := startCurfew(ctx, t.env, heat{log: t.env.logPath("tally-" + set.prefix)})
	if err != nil {
		return err
	}
	defer p.stop()
	return p.poll(ctx, patience, 100*time.Millisecond, func(ctx context.Context) error {
		live, err := t.tallies.Get(ctx, set.prefix, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the PodTally: %w", err)
		}
		counted, _, _ := unstructured.NestedInt64(live.Object, "status", "succeeded")
		if counted != int64(set.count) {
			return fmt.Errorf("%d of %d Pods are counted", counted, set.count)
		}
		return t.tallies.Delete(ctx, set.prefix, metav1.DeleteOptions{})
	})
}
