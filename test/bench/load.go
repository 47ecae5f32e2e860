package main

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	benchNamespace = "bench"
	// loaders is how many requests prepare Jobs at a time.
	loaders = 32
	// ttl of Jobs that do not say otherwise. Their finish time is written so that they fall due when
	// the contest wants it. It is short: a finish time from before a Job's creation counts as its
	// creation.
	ttl = 2 * time.Second
)

// cargo is what falls due in a drain.
type cargo interface {
	namespace(ctx context.Context) error
	create(ctx context.Context, set jobSet) error
	// finish makes all of the set due at one second.
	finish(ctx context.Context, set jobSet, due time.Time) error
	// clear deletes the remaining objects of a set.
	clear(ctx context.Context, set jobSet) error
	observe(ctx context.Context, config *rest.Config, set jobSet) (*observer, error)
}

// load makes Jobs and lets them be finished.
type load struct {
	client kubernetes.Interface
	// byDefault: the namespace says when the Jobs are due, and they do not.
	byDefault bool
}

func (l load) namespace(ctx context.Context) error {
	_, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", benchNamespace, err)
	}
	return nil
}

func (l load) observe(ctx context.Context, config *rest.Config, set jobSet) (*observer, error) {
	return observe(ctx, config, set)
}

// create makes unfinished Jobs with a TTL. spec.managedBy keeps the Job controller away from them:
// no Pods, no finalizer, and only the bench writes their status.
func (l load) create(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}},
			Spec: batchv1.JobSpec{
				ManagedBy:               ptr.To("bench.curfew.dev/none"),
				TTLSecondsAfterFinished: ptr.To(int32(set.life().Seconds())),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "work", Image: "registry.example/work:1", Command: []string{"work", "--once"}}},
				}},
			},
		}
		if l.byDefault {
			// A Job of another manager has no default. While it is suspended it has no Pods either.
			job.Spec.ManagedBy, job.Spec.TTLSecondsAfterFinished, job.Spec.Suspend = nil, nil, ptr.To(true)
		}
		_, err := l.client.BatchV1().Jobs(benchNamespace).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
}

// finish writes into the status what the Job controller would have written, with the finish time
// that makes the Jobs due at the given second.
func (l load) finish(ctx context.Context, set jobSet, due time.Time) error {
	end := metav1.NewTime(due.Add(-set.life()))
	start := metav1.NewTime(end.Add(-time.Minute))
	status := batchv1.JobStatus{
		StartTime: &start, CompletionTime: &end, Succeeded: 1,
		Conditions: []batchv1.JobCondition{
			// The API server wants to see the one before or with the other.
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastProbeTime: end, LastTransitionTime: end, Reason: "CompletionsReached"},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastProbeTime: end, LastTransitionTime: end, Reason: "CompletionsReached"},
		},
	}
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		// Without resourceVersion: there is no other writer. The update of a status takes nothing else
		// from the object, but wants a valid one.
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: benchNamespace}, Status: status}
		_, err := l.client.BatchV1().Jobs(benchNamespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
		return err
	})
}

// clear deletes the remaining objects of a set, and waits until the last one is gone: one that is
// deleted in the foreground waits for the garbage collector, which must not work into the next
// contestant's time.
func (l load) clear(ctx context.Context, set jobSet) error {
	policy := metav1.DeletePropagationBackground
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for first := true; ; first = false {
		list, err := l.client.BatchV1().Jobs(benchNamespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return fmt.Errorf("list the Jobs that are left: %w", err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		if first {
			err := set.each(ctx, loaders, func(ctx context.Context, name string) error {
				err := l.client.BatchV1().Jobs(benchNamespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("delete the Jobs that are left: %w", err)
			}
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d Jobs do not go away: %w", len(list.Items), err)
		}
	}
}
