package policy

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/lifetime"
)

// FactsOfJob reads a Job as the controller's feed holds it.
func FactsOfJob(job *batchv1.Job) *Facts {
	facts := FactsOfMeta(JobProfile, &job.ObjectMeta)
	facts.NativeTTL = lifetime.Native(job.Spec.TTLSecondsAfterFinished)
	facts.NativeDeadline = lifetime.Native(job.Spec.ActiveDeadlineSeconds)
	if job.Spec.ManagedBy != nil {
		facts.ManagedBy = *job.Spec.ManagedBy
	}
	facts.State = StateOfJob(job)
	facts.correctTimes()
	return &facts
}

// StateOfJob follows jobutil.FinishedCondition of Kubernetes: Complete or Failed is True.
// SuccessCriteriaMet and FailureTarget only announce the end (S4). completionTime is not the finish
// time: a failed Job has none.
func StateOfJob(job *batchv1.Job) State {
	var state State
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		state.Suspended = true
	} else if job.Status.StartTime != nil {
		state.Started = job.Status.StartTime.Time
	}
	for i := range job.Status.Conditions {
		condition := &job.Status.Conditions[i]
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return state.finished(lifetime.Succeeded, condition.LastTransitionTime.Time)
		case batchv1.JobFailed:
			return state.finished(lifetime.Failed, condition.LastTransitionTime.Time)
		}
	}
	return state
}

func (s State) finished(outcome lifetime.Outcome, at time.Time) State {
	s.Finished, s.Outcome, s.FinishTime = true, outcome, at
	return s
}
