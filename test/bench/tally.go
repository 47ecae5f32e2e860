package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// tallyOptions are the flags of the contest about counting.
var tallyOptions struct{ pods, rounds int }

func init() {
	register(bench{
		name: "tally", about: "finished Pods that a new PodTally counts, beside a loop that removes their finalizers", position: 38, run: runTally,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&tallyOptions.pods, "tally-pods", 10000, "how many Pods are counted")
			fs.IntVar(&tallyOptions.rounds, "tally-rounds", 5, "how many rounds")
		},
	})
}

const tallyResult = "tally.count.vs_limit"

// tallyContest is its state.
type tallyContest struct {
	env     *environment
	pods    int
	heats   int
	typed   kubernetes.Interface
	partial metadata.Interface
	tallies dynamic.ResourceInterface
}

func runTally(ctx context.Context, e *environment) ([]result, error) {
	o := tallyOptions
	if o.pods < 100 || o.rounds < 1 {
		return nil, fmt.Errorf("-tally-pods %d in -tally-rounds %d: give at least 100 Pods and 1 round", o.pods, o.rounds)
	}
	t := &tallyContest{env: e, pods: o.pods}
	if err := t.install(ctx); err != nil {
		return nil, err
	}
	parallel := e.calls
	if parallel == 0 {
		var err error
		if parallel, err = t.probe(ctx); err != nil {
			return nil, err
		}
	}
	var limit, curfew []float64
	for n := range o.rounds {
		bare, err := t.heat(ctx, func(ctx context.Context, set jobSet) error { return t.loop(ctx, set, parallel) })
		if err != nil {
			return nil, err
		}
		counted, err := t.heat(ctx, t.count)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(e.out, "round %d of %d: the loop with %d calls at a time %.0f Pods/s, Curfew %.0f\n", n+1, o.rounds, parallel, bare, counted)
		limit, curfew = append(limit, bare), append(curfew, counted)
	}
	return []result{compare(tallyResult, "Pods/s", curfew, "bare loop of parallel finalizer patches", limit)}, nil
}

// probe finds the number of parallel calls that serves the bare loop best on this machine.
func (t *tallyContest) probe(ctx context.Context) (parallel int, err error) {
	best := 0.0
	for _, candidate := range []int{8, 16, 32, 64} {
		rate, err := t.heat(ctx, func(ctx context.Context, set jobSet) error { return t.loop(ctx, set, candidate) })
		if err != nil {
			return 0, err
		}
		if rate > best {
			best, parallel = rate, candidate
		}
	}
	return parallel, nil
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
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}
	if _, err := t.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", benchNamespace, err)
	}
	return nil
}

// heat makes finished Pods with the finalizer and has them released. The rate is that at which a
// watch sees the finalizers vanish, which is the same for every contestant.
func (t *tallyContest) heat(ctx context.Context, run func(context.Context, jobSet) error) (rate float64, err error) {
	t.heats++
	set := jobSet{prefix: fmt.Sprintf("t%d", t.heats), count: t.pods}
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
	// The API server ends the watch of a client that is slow for a moment, so it has to go on from there.
	watching, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "bench=" + set.prefix
			return t.pod().Watch(ctx, options)
		}})
	if err != nil {
		return 0, fmt.Errorf("watch Pods: %w", err)
	}
	defer watching.Stop()
	seen := make(chan []time.Time, 1)
	go func() {
		var times []time.Time
		for event := range watching.ResultChan() {
			of, ok := event.Object.(*metav1.PartialObjectMetadata)
			if ok && !slices.Contains(of.Finalizers, wellknown.FinalizerTally) {
				if times = append(times, time.Now()); len(times) == set.count {
					break
				}
			}
		}
		seen <- times
	}()
	if err := run(ctx, set); err != nil {
		return 0, err
	}
	ended := time.AfterFunc(patience, watching.Stop)
	defer ended.Stop()
	times := <-seen
	if len(times) < set.count {
		return 0, fmt.Errorf("%d of %d Pods were seen to be released", len(times), set.count)
	}
	return float64(len(times)-1) / times[len(times)-1].Sub(times[0]).Seconds(), nil
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
func (t *tallyContest) loop(ctx context.Context, set jobSet, parallel int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q],"annotations":{%q:"bench"}}}`, wellknown.FinalizerTally, wellknown.AnnotationCountedBy)
	return set.each(ctx, parallel, func(ctx context.Context, name string) error {
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
	p, err := startCurfew()(ctx, t.env, heat{log: t.env.logPath("tally-" + set.prefix)})
	if err != nil {
		return err
	}
	defer p.stop()
	for until := time.Now().Add(patience); time.Now().Before(until); {
		live, err := t.tallies.Get(ctx, set.prefix, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the PodTally: %w", err)
		}
		if counted, _, _ := unstructured.NestedInt64(live.Object, "status", "succeeded"); counted == int64(set.count) {
			return t.tallies.Delete(ctx, set.prefix, metav1.DeleteOptions{})
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not all Pods were counted in %s", patience)
}
