package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is what a watch told.
type Event struct {
	// At is when it told it.
	At   time.Time
	Type watch.EventType
	// Kind is Job or Pod, or what Follow was told.
	Kind string
	metav1.Object
}

// Job is the object of an event about a Job, else nil.
func (e Event) Job() *batchv1.Job { job, _ := e.Object.(*batchv1.Job); return job }

// Pod is the object of an event about a Pod, else nil.
func (e Event) Pod() *corev1.Pod { pod, _ := e.Object.(*corev1.Pod); return pod }

// Observer keeps all that the API server tells of the Jobs and Pods of a namespace, and of what
// else it is made to follow.
type Observer struct {
	mu      sync.Mutex
	events  []Event
	changed chan struct{} // closed and replaced with each event
	err     error
}

// Observe watches a namespace until the context ends.
func (c *Cluster) Observe(ctx context.Context, namespace string) (*Observer, error) {
	observer := &Observer{changed: make(chan struct{})}
	for kind, begin := range map[string]func(context.Context, metav1.ListOptions) (watch.Interface, error){
		"Job": c.Client.BatchV1().Jobs(namespace).Watch, "Pod": c.Client.CoreV1().Pods(namespace).Watch,
	} {
		watcher, err := begin(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("watch the %ss of %s: %w", kind, namespace, err)
		}
		go func() {
			for err == nil && !observer.Follow(kind, watcher) {
				watcher, err = begin(ctx, metav1.ListOptions{})
			}
			observer.update(func() {
				observer.err = errors.Join(observer.err, fmt.Errorf("the watch of %ss ended", kind), err)
			})
		}()
	}
	return observer, nil
}

// Follow keeps what one more watch tells, until that ends: its kind may go. It returns false if the
// watch never began, because the API server's cache lagged too far behind etcd.
func (o *Observer) Follow(kind string, watcher watch.Interface) (began bool) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if status, failed := event.Object.(*metav1.Status); failed && !began && apierrors.HasStatusCause(apierrors.FromObject(status), metav1.CauseTypeResourceVersionTooLarge) {
			return false
		}
		began = true
		if !ok {
			o.update(func() { o.err = fmt.Errorf("the watch of %ss told %s: %v", kind, event.Type, event.Object) })
			return true
		}
		o.update(func() {
			o.events = append(o.events, Event{At: time.Now(), Type: event.Type, Kind: kind, Object: object})
		})
	}
	return true
}

func (o *Observer) update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

// Await returns the first event, past or to come, that the condition holds for.
func (o *Observer) Await(ctx context.Context, condition func(Event) bool) (Event, error) {
	for seen := 0; ; {
		o.mu.Lock()
		events, changed, broken := o.events[seen:], o.changed, o.err
		o.mu.Unlock()
		for _, event := range events {
			if condition(event) {
				return event, nil
			}
		}
		seen += len(events)
		if broken != nil {
			return Event{}, broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// All is all that was told so far, in the order in which it came.
func (o *Observer) All() []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// History is all that was told of one object so far.
func (o *Observer) History(uid types.UID) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	var found []Event
	for _, event := range o.events {
		if event.GetUID() == uid {
			found = append(found, event)
		}
	}
	return found
}

// JobFinish is the finish time of a Job and whether it has one.
func JobFinish(job *batchv1.Job) (time.Time, bool) {
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// PodFinish is the finish time of a Pod whose containers say it, and whether it has one.
func PodFinish(pod *corev1.Pod) (time.Time, bool) {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return time.Time{}, false
	}
	var latest time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(latest) {
			latest = ended.FinishedAt.Time
		}
	}
	return latest, !latest.IsZero()
}
