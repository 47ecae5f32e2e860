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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// load makes Jobs and lets them be finished.
type load struct{ client kubernetes.Interface }

func (load) resource() string { return resourceJobs }

func (l load) prepare(ctx context.Context) error {
	_, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: benchNamespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", benchNamespace, err)
	}
	return nil
}

func (l load) observe(ctx context.Context, set jobSet) (*observer, error) {
	jobs := l.client.BatchV1().Jobs(benchNamespace)
	list, err := jobs.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list Jobs for the observer: %w", err)
	}
	return observe(ctx, set, list.ResourceVersion, jobs.Watch, deleted)
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
	policy, jobs := metav1.DeletePropagationBackground, l.client.BatchV1().Jobs(benchNamespace)
	list, err := jobs.List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: 1})
	if err == nil && len(list.Items) > 0 {
		err = set.each(ctx, loaders, func(ctx context.Context, name string) error {
			return client.IgnoreNotFound(jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &policy}))
		})
	}
	if err != nil {
		return fmt.Errorf("delete the Jobs that are left: %w", err)
	}
	return (*process)(nil).poll(ctx, 5*time.Minute, 100*time.Millisecond, func(ctx context.Context) error {
		list, err := jobs.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Jobs are left", len(list.Items))
		}
		return err
	})
}
