package resolution

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// PodCounter is the object that counts a finished Pod: its Job, or the PodTally that counted it.
type PodCounter struct {
	// Source names it: job/build.
	Source lifetime.Source
	// TTL is the TTL that it sets for the Pods that it has counted; nil if it sets none.
	TTL *lifetime.Setting
	// FailsByPods means that the Job controller still reads the failed Pods of the Job.
	FailsByPods bool
	// Manager is another controller that runs the Job (spec.managedBy), until the Job has finished.
	// It need not use the tracking finalizer, so nothing shows which Pods it has counted.
	Manager string
	// Err says why it cannot be read. It may say never, so that the Pod is kept (S6).
	Err error
}

// CounterOfJob reads the settings of a Job for its Pods.
func CounterOfJob(job *batchv1.Job) *PodCounter {
	out := &PodCounter{
		Source: lifetime.Source{Level: lifetime.LevelJob, Name: job.Name}, FailsByPods: failsByPods(job),
		TTL: lifetime.TTLSetting("metadata.annotations", job.Annotations, wellknown.AnnotationPodTTL),
	}
	if manager := job.Spec.ManagedBy; manager != nil && *manager != wellknown.JobController && !policy.StateOfJob(job).Finished {
		out.Manager = *manager
	}
	if out.TTL != nil {
		out.TTL.Source = out.Source
	}
	return out
}

// CounterOfOwner is [CounterOfJob] for a Job in its JSON form; nil stands for one that is gone.
func CounterOfOwner(object map[string]any) (*PodCounter, error) {
	if object == nil {
		return nil, nil
	}
	job := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, job); err != nil {
		return nil, fmt.Errorf("reading the Job: %w", err)
	}
	return CounterOfJob(job), nil
}

// UnreadableCounter stands for a Job or PodTally that counts a Pod and cannot be read.
func UnreadableCounter(pod *policy.Facts, err error) *PodCounter {
	if pod.OwnedByJob() {
		return UnreadableJob(pod.Owner.Name, err)
	}
	return &PodCounter{Source: lifetime.Source{Level: lifetime.LevelTally},
		Err: fmt.Errorf("the PodTally that counted it cannot be read, and its ttlAfterCounted may say never: %w", err)}
}

// UnreadableJob stands for the Job of a Pod that cannot be read.
func UnreadableJob(name string, err error) *PodCounter {
	return &PodCounter{Source: lifetime.Source{Level: lifetime.LevelJob, Name: name},
		Err: fmt.Errorf("Job %s cannot be read, and its %s may say never: %w", name, wellknown.AnnotationPodTTL, err)}
}

// failsByPods reports whether the Job controller still looks for a failed Pod that fails the Job
// (podFailurePolicy with action FailJob). It may account for such a Pod in one sync, and find it
// again in the next to set FailureTarget (getFailJobMessage in pkg/controller/job of Kubernetes
// 1.37). All else it takes from the Job's status.
func failsByPods(job *batchv1.Job) bool {
	podFailurePolicy := job.Spec.PodFailurePolicy
	if podFailurePolicy == nil || !slices.ContainsFunc(podFailurePolicy.Rules, func(rule batchv1.PodFailurePolicyRule) bool {
		return rule.Action == batchv1.PodFailurePolicyActionFailJob
	}) {
		return false
	}
	return !slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		switch condition.Type {
		case batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, batchv1.JobFailed:
			return condition.Status == corev1.ConditionTrue
		default:
			return false
		}
	})
}

// level is the counter as a level of precedence.
func (c *PodCounter) level() level {
	return level{source: c.Source, set: lifetime.TTLSet{All: c.TTL}, final: c.Err != nil}
}

// counted is the value that the Pod's Job or tally sets. It can change without the Pod.
func (w *walk) counted(setting *lifetime.Setting) Value {
	value := Value{Set: true, Source: w.winner.source, Live: true}
	if setting == nil {
		value.Err = w.scope.Counter.Err
		return value
	}
	if value = value.holding(setting); value.Err == nil {
		value.Err = setting.Echo(w.scope.BoundsFor(w.facts, EnforcedBounds).CheckTTL(value.TTL))
	}
	return value
}

// Keeps is why a finished Pod must stay without a tracking finalizer, whatever its TTL (S5); "" if
// it need not.
func (c *PodCounter) Keeps(outcome lifetime.Outcome) string {
	switch {
	case c == nil || c.Source.Level != lifetime.LevelJob:
		return ""
	case c.Err != nil:
		return "its Job cannot be read"
	case c.Manager != "":
		return fmt.Sprintf("Job %s is managed by %s, which may not have counted it: its Pods stay until it has finished",
			c.Source.Name, c.Manager)
	case c.FailsByPods && outcome == lifetime.Failed:
		return fmt.Sprintf("Job %s may fail by its podFailurePolicy: failed Pods stay until it has finished", c.Source.Name)
	}
	return ""
}
