package tally

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const namespace = "ci"

var errLost = errors.New("the answer was lost")

// world is an API server in memory, which checks that each Pod is counted once.
type world struct {
	// lock is nil where one goroutine does everything, hooks included. Elsewhere it holds off requests
	// while another is answered, and while the test looks.
	lock    *sync.Mutex
	fail    func(format string, args ...any)
	clock   *clocktesting.FakeClock
	version int
	uids    int
	pods    map[string]*corev1.Pod
	tallies map[string]*StoredTally
	nodes   map[string]NodeState // NodeGone where there is none
	// lost are Pods that could not run any more when a process read their Node.
	lost map[types.UID]bool
	// events are all that watches show.
	events []watch.Event
	// around is called before and after the effect of each request; an error takes the place of the
	// answer.
	around func(request string, before bool) error
	// counted is by which tally a Pod was counted, and owed those whose finalizer was removed so that
	// a tally has to count them.
	counted map[types.UID]types.UID
	owed    map[types.UID]types.UID
	// disowned are unfinished Pods that Curfew was about to delete.
	disowned map[types.UID]bool
	// known are the tallies that the process which sends a request has read.
	known    map[types.UID]bool
	requests int
}

func newWorld(fail func(string, ...any)) *world {
	return &world{
		fail: fail, clock: clocktesting.NewFakeClock(time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)), version: 100,
		pods: map[string]*corev1.Pod{}, tallies: map[string]*StoredTally{}, nodes: map[string]NodeState{"n": NodeReady, "gone": NodeGone}, lost: map[types.UID]bool{},
		counted: map[types.UID]types.UID{}, owed: map[types.UID]types.UID{}, disowned: map[types.UID]bool{},
		around: func(string, bool) error { return nil },
	}
}

func (w *world) next() string { w.version++; return strconv.Itoa(w.version) }

// mayRelease reports whether a Pod may lose its finalizer without being counted: no tally that the
// process has heard of counts it.
func (w *world) mayRelease(pod *corev1.Pod) bool {
	owner := w.owner(pod)
	return owner == nil || w.known != nil && !w.known[owner.UID]
}

// owner is the tally that counts a Pod.
func (w *world) owner(pod *corev1.Pod) *match.Tally {
	var all []*match.Tally
	for _, name := range slices.Sorted(maps.Keys(w.tallies)) {
		compiled, _ := match.Compile(&w.tallies[name].PodTally)
		all = append(all, compiled)
	}
	return match.Owner(all, policy.FactsOfPod(pod))
}

func (w *world) addTally(name, value string) {
	w.uids++
	object := &StoredTally{}
	object.Namespace, object.Name, object.UID, object.Generation = namespace, name, types.UID(fmt.Sprint("tally-", w.uids)), 1
	object.CreationTimestamp, object.ResourceVersion = metav1.NewTime(w.clock.Now()), w.next()
	object.Spec.Selector.MatchLabels = map[string]string{"app": value}
	w.tallies[name] = object
}

// create creates a Pod as admission lets it: with the finalizer if admission works.
func (w *world) create(name, app string, admitted bool) {
	if w.pods[name] != nil {
		return
	}
	w.uids++
	pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
	pod.Namespace, pod.Name, pod.UID = namespace, name, types.UID(fmt.Sprint("pod-", w.uids))
	pod.Labels = map[string]string{"app": app}
	if admitted && w.owner(pod) != nil {
		pod.Finalizers = []string{wellknown.FinalizerTally}
	}
	w.store(pod, watch.Added)
}

// store writes a Pod, and removes it if nothing keeps it.
func (w *world) store(pod *corev1.Pod, event watch.EventType) {
	pod.ResourceVersion = w.next()
	w.pods[pod.Name] = pod
	if pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 {
		delete(w.pods, pod.Name)
		event = watch.Deleted
	}
	w.events = append(w.events, watch.Event{Type: event, Object: pod.DeepCopy()})
}

// change changes a Pod, if it exists.
func (w *world) change(name string, how func(*corev1.Pod)) {
	if pod := w.pods[name]; pod != nil {
		pod = pod.DeepCopy()
		how(pod)
		w.store(pod, watch.Modified)
	}
}

func (w *world) remove(name string) {
	w.change(name, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp == nil {
			t := metav1.NewTime(w.clock.Now())
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &t, ptr.To[int64](30)
		}
	})
}

// force removes a Pod without a grace period.
func (w *world) force(name string) {
	w.remove(name)
	w.change(name, func(pod *corev1.Pod) { pod.DeletionGracePeriodSeconds = ptr.To[int64](0) })
}

func (w *world) finish(name string, phase corev1.PodPhase) {
	w.change(name, func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pod.Status.Phase = phase
		}
	})
}

// end lets a Pod that runs finish.
func (w *world) end(name string, phase corev1.PodPhase) {
	w.change(name, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp == nil {
			pod.Spec.NodeName = "n"
		}
	})
	w.finish(name, phase)
}

func (w *world) request(name string, effect func() error) error {
	if w.lock != nil {
		w.lock.Lock()
		defer w.lock.Unlock()
	}
	w.requests++
	if err := w.around(name, true); err != nil {
		return err
	}
	answer := effect()
	if err := w.around(name, false); err != nil {
		return err
	}
	return answer
}

var (
	podKind   = schema.GroupResource{Resource: "pods"}
	tallyKind = schema.GroupResource{Group: wellknown.Group, Resource: v1alpha1.PodTallies}
)

func (s *StoredTally) copied() *StoredTally {
	out := *s
	out.PodTally = *s.PodTally.DeepCopy()
	return &out
}

func (w *world) Tallies(context.Context, string) (out []*StoredTally, err error) {
	err = w.request("tallies", func() error {
		for _, name := range slices.Sorted(maps.Keys(w.tallies)) {
			out = append(out, w.tallies[name].copied())
		}
		return nil
	})
	return out, err
}

func (w *world) Tally(_ context.Context, _, name string) (out *StoredTally, err error) {
	err = w.request("tally", func() error {
		if w.tallies[name] == nil {
			return apierrors.NewNotFound(tallyKind, name)
		}
		out = w.tallies[name].copied()
		return nil
	})
	return out, err
}

func (w *world) WriteStatus(_ context.Context, _, name string, uid types.UID, version string, status *v1alpha1.PodTallyStatus) (out string, err error) {
	err = w.request("status", func() error {
		object := w.tallies[name]
		switch {
		case object == nil:
			return apierrors.NewNotFound(tallyKind, name)
		case object.UID != uid || object.ResourceVersion != version:
			return apierrors.NewConflict(tallyKind, name, errors.New("changed"))
		}
		w.check(object, status)
		object.Status, object.ResourceVersion, object.Editor = *status.DeepCopy(), w.next(), ""
		out = object.ResourceVersion
		return nil
	})
	return out, err
}

// check checks a status against the one that it replaces.
func (w *world) check(object *StoredTally, status *v1alpha1.PodTallyStatus) {
	if object.Editor != "" {
		return
	}
	old, now := readLedger(&object.Status), readLedger(status)
	listed := map[types.UID]bool{}
	for _, each := range now.uncounted {
		if listed[each.uid] {
			w.fail("Pod %s is listed twice", each.uid)
		}
		listed[each.uid] = true
		if w.disowned[each.uid] {
			w.fail("Pod %s is listed although Curfew deleted it", each.uid)
		}
		if by := w.counted[each.uid]; by != "" {
			w.fail("Pod %s was counted by %s and is listed again by %s", each.uid, by, object.UID)
		}
		for _, other := range w.tallies {
			if other != object && slices.ContainsFunc(readLedger(&other.Status).uncounted, func(e entry) bool { return e.uid == each.uid }) {
				w.fail("Pod %s is listed by %s and by %s", each.uid, other.UID, object.UID)
			}
		}
		w.checkOutcome(each)
	}
	for _, entry := range old.uncounted {
		if listed[entry.uid] {
			continue
		}
		if by, ok := w.counted[entry.uid]; ok {
			w.fail("Pod %s was counted by %s and is counted again by %s", entry.uid, by, object.UID)
		}
		for _, pod := range w.pods {
			if pod.UID == entry.uid && slices.Contains(pod.Finalizers, wellknown.FinalizerTally) {
				w.fail("Pod %s is counted although it carries the finalizer", entry.uid)
			}
		}
		w.counted[entry.uid] = object.UID
		if entry.outcome == succeeded {
			old.succeeded++
		} else {
			old.failed++
		}
	}
	if old.succeeded != now.succeeded || old.failed != now.failed {
		w.fail("%s: %d succeeded and %d failed, want %d and %d", object.UID, now.succeeded, now.failed, old.succeeded, old.failed)
	}
	if data, err := json.Marshal(status); err != nil || len(data) > 20_000 || len(now.uncounted) > v1alpha1.MaxUncountedPods {
		w.fail("a status of %d bytes with %d UIDs", len(data), len(now.uncounted))
	}
}

// checkOutcome checks how a Pod that a status lists has finished.
func (w *world) checkOutcome(e entry) {
	for _, pod := range w.pods {
		switch {
		case pod.UID != e.uid, w.lost[e.uid], w.runsNoMore(pod) && pod.Spec.NodeName == "":
		case e.outcome == succeeded && pod.Status.Phase != corev1.PodSucceeded, e.outcome == failed && pod.Status.Phase != corev1.PodFailed:
			w.fail("Pod %s is listed as %d in phase %q", e.uid, e.outcome, pod.Status.Phase)
		}
	}
}

func (w *world) Pods(context.Context, string, metav1.ListOptions) (out *corev1.PodList, err error) {
	err = w.request("list", func() error {
		out = &corev1.PodList{}
		out.ResourceVersion = strconv.Itoa(w.version)
		for _, name := range slices.Sorted(maps.Keys(w.pods)) {
			out.Items = append(out.Items, *w.pods[name].DeepCopy())
		}
		return nil
	})
	return out, err
}

func (w *world) Watch(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("tests deliver events themselves")
}

func (w *world) Pod(_ context.Context, _, name string) (out *corev1.Pod, err error) {
	err = w.request("pod", func() error {
		if w.pods[name] == nil {
			return apierrors.NewNotFound(podKind, name)
		}
		out = w.pods[name].DeepCopy()
		return nil
	})
	return out, err
}

func (w *world) Metadata(_ context.Context, _ metav1.ListOptions) (out *metav1.PartialObjectMetadataList, err error) {
	err = w.request("metadata", func() error {
		out = &metav1.PartialObjectMetadataList{}
		for _, name := range slices.Sorted(maps.Keys(w.pods)) {
			out.Items = append(out.Items, metav1.PartialObjectMetadata{ObjectMeta: *w.pods[name].ObjectMeta.DeepCopy()})
		}
		return nil
	})
	return out, err
}

func (w *world) Node(_ context.Context, name string) (out NodeState, err error) {
	err = w.request("node", func() error {
		out = w.nodes[name]
		for _, pod := range w.pods {
			if pod.Spec.NodeName == name && w.runsNoMore(pod) {
				w.lost[pod.UID] = true
			}
		}
		return nil
	})
	return out, err
}

// runsNoMore reports whether an unfinished Pod will never finish.
func (w *world) runsNoMore(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return pod.DeletionTimestamp != nil
	}
	state := w.nodes[pod.Spec.NodeName]
	forced := ptr.Deref(pod.DeletionGracePeriodSeconds, 30) == 0 && slices.Equal(pod.Finalizers, []string{wellknown.FinalizerTally})
	return state == NodeGone || state == NodeNotReady && forced
}

// Patch applies the few things that patches say.
func (w *world) Patch(_ context.Context, _, name string, patch []byte) (out *metav1.PartialObjectMetadata, err error) {
	var body struct{ Metadata patchMeta }
	if err := json.Unmarshal(patch, &body); err != nil {
		return nil, err
	}
	meta := &body.Metadata
	step := "release"
	switch {
	case len(meta.Finalizers) > 0:
		step = "adopt"
	case len(meta.Annotations) > 0:
		step = "count"
	}
	err = w.request(step, func() error {
		pod := w.pods[name]
		switch {
		case pod == nil:
			return apierrors.NewNotFound(podKind, name)
		case pod.UID != meta.UID || meta.ResourceVersion != "" && meta.ResourceVersion != pod.ResourceVersion:
			return apierrors.NewConflict(podKind, name, errors.New("precondition"))
		case pod.DeletionTimestamp != nil && len(meta.Finalizers) > 0:
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)
		}
		held := slices.Contains(pod.Finalizers, wellknown.FinalizerTally)
		_, was := pod.Annotations[wellknown.AnnotationCountedBy]
		pod = pod.DeepCopy()
		for _, add := range meta.Finalizers {
			if !slices.Contains(pod.Finalizers, add) {
				pod.Finalizers = append(pod.Finalizers, add)
			}
		}
		pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return slices.Contains(meta.Remove, f) })
		for key, value := range meta.Annotations {
			if value == nil {
				delete(pod.Annotations, key)
			} else {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, *value)
			}
		}
		switch by := ptr.Deref(meta.Annotations[wellknown.AnnotationCountedBy], ""); {
		case step == "adopt":
			delete(w.disowned, pod.UID)
		case by != "" && by != wellknown.CountedByNone:
			w.owed[pod.UID] = types.UID(by)
		case by != "":
			w.disowned[pod.UID] = true
			if old := w.pods[name]; old.Status.Phase == corev1.PodSucceeded || old.Status.Phase == corev1.PodFailed || old.DeletionTimestamp != nil {
				w.fail("Pod %s is taken from its tally although it has finished, or is being deleted", pod.UID)
			}
		case by == "" && len(meta.Remove) > 0 && held && !was && !w.mayRelease(pod):
			w.fail("Pod %s is released although it is tallied", pod.UID)
		}
		if slices.Equal(pod.Finalizers, w.pods[name].Finalizers) && maps.Equal(pod.Annotations, w.pods[name].Annotations) {
			out = &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}
			return nil
		}
		w.store(pod, watch.Modified)
		out = &metav1.PartialObjectMetadata{ObjectMeta: *pod.ObjectMeta.DeepCopy()}
		return nil
	})
	return out, err
}

// Defined implements Cluster.
func (w *world) Defined(context.Context) (defined bool, err error) {
	err = w.request("defined", func() error { defined = true; return nil })
	return defined, err
}
