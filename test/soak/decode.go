package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Resources of the soak's objects, as they stand in etcd's keys.
const (
	jobs    = "jobs"
	pods    = "pods"
	batches = "batches"
)

// batch is the soak's own kind, in the form that etcd holds.
type batch struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		TTLSeconds  *int64 `json:"ttlSeconds"`
		KeepSeconds *int64 `json:"keepSeconds"`
	} `json:"spec"`
	Status struct {
		Outcome    string       `json:"outcome"`
		FinishedAt *metav1.Time `json:"finishedAt"`
		VerifiedAt *metav1.Time `json:"verifiedAt"`
	} `json:"status"`
}

// proto is a built-in object as etcd holds it.
type proto interface{ Unmarshal([]byte) error }

func unmarshal(value []byte, into proto) error {
	inner, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return fmt.Errorf("no protobuf of Kubernetes: %.20q", value)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(inner); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}

// decode reads one revision of one object.
func decode(kind string, item *kv, seen time.Time) (*state, error) {
	s := &state{kind: kind, revision: item.ModRevision, seen: seen}
	switch kind {
	case jobs:
		var job batchv1.Job
		if err := unmarshal(item.Value, &job); err != nil {
			return nil, err
		}
		s.meta(&job.ObjectMeta)
		if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil {
			seconds := int64(*ttl)
			s.nativeTTL = &seconds
		}
		for _, condition := range job.Status.Conditions {
			if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
				s.finished, s.failed, s.finish = true, condition.Type == batchv1.JobFailed, condition.LastTransitionTime.Time
			}
		}
	case pods:
		var pod corev1.Pod
		if err := unmarshal(item.Value, &pod); err != nil {
			return nil, err
		}
		s.meta(&pod.ObjectMeta)
		s.always = pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
		s.failed = pod.Status.Phase == corev1.PodFailed
		s.finished = s.failed || pod.Status.Phase == corev1.PodSucceeded
		s.finish = podEnd(&pod)
	case batches:
		var object batch
		if err := json.Unmarshal(item.Value, &object); err != nil {
			return nil, err
		}
		s.meta(&object.ObjectMeta)
		s.custom = &object
	}
	return s, nil
}

func (s *state) meta(meta *metav1.ObjectMeta) {
	s.namespace, s.name, s.uid = meta.Namespace, meta.Name, string(meta.UID)
	s.created = meta.CreationTimestamp.Time
	s.deleting = meta.DeletionTimestamp != nil
	s.annotations, s.finalizers = meta.Annotations, meta.Finalizers
	for _, owner := range meta.OwnerReferences {
		s.jobPod = s.jobPod || owner.Kind == "Job" && owner.Controller != nil && *owner.Controller
	}
}

// podEnd is the end of a Pod's last container, init and ephemeral ones included; where none ran,
// the last transition of a condition; where there is none of those either, what Curfew wrote down.
func podEnd(pod *corev1.Pod) time.Time {
	var last time.Time
	later := func(at metav1.Time) {
		if at.Unix() > 0 && at.After(last) {
			last = at.Time
		}
	}
	status := &pod.Status
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses} {
		for _, container := range list {
			if ended := container.State.Terminated; ended != nil {
				later(ended.FinishedAt)
			}
		}
	}
	if last.IsZero() {
		for _, condition := range status.Conditions {
			later(condition.LastTransitionTime)
		}
	}
	if last.IsZero() {
		at, err := time.Parse(time.RFC3339, pod.Annotations[prefix+"finished-at"])
		if err == nil {
			last = at
		}
	}
	return last
}

// decodeNamespace reads one revision of a Namespace.
func decodeNamespace(item *kv, seen time.Time) (string, *surroundings, error) {
	var namespace corev1.Namespace
	if err := unmarshal(item.Value, &namespace); err != nil {
		return "", nil, err
	}
	return namespace.Name, &surroundings{revision: item.ModRevision, seen: seen, labels: namespace.Labels, annotations: namespace.Annotations}, nil
}

// decodeRule reads one revision of the LifecyclePolicy, of the form in which the soak writes it.
func decodeRule(item *kv, seen time.Time) (*rule, error) {
	var object struct {
		Spec struct {
			Match struct {
				NamespaceSelector struct {
					MatchLabels map[string]string `json:"matchLabels"`
				} `json:"namespaceSelector"`
			} `json:"match"`
			Defaults struct {
				TTL struct {
					Value string `json:"value"`
				} `json:"ttl"`
			} `json:"defaults"`
		} `json:"spec"`
		Status struct {
			Defaults struct {
				SinceTime time.Time `json:"sinceTime"`
			} `json:"defaults"`
		} `json:"status"`
	}
	if err := json.Unmarshal(item.Value, &object); err != nil {
		return nil, err
	}
	out := &rule{revision: item.ModRevision, seen: seen}
	for key, value := range object.Spec.Match.NamespaceSelector.MatchLabels {
		out.label = key + "=" + value
	}
	ttl, answer := read(object.Spec.Defaults.TTL.Value)
	if answer.never != "" {
		return nil, fmt.Errorf("the policy's TTL %q: %s", object.Spec.Defaults.TTL.Value, answer.never)
	}
	out.ttl = ttl
	out.since = object.Status.Defaults.SinceTime
	return out, nil
}

// decodeProfile reads one revision of the KindProfile of the soak's own kind.
func decodeProfile(item *kv, seen time.Time) (*correction, error) {
	var object struct {
		Spec struct {
			State struct {
				Finished   string `json:"finished"`
				FinishTime string `json:"finishTime"`
			} `json:"state"`
			Fields struct {
				TTL string `json:"ttl"`
			} `json:"fields"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(item.Value, &object); err != nil {
		return nil, err
	}
	says := meaning{finished: object.Spec.State.Finished, finishTime: object.Spec.State.FinishTime, ttl: object.Spec.Fields.TTL}
	if !slices.Contains(meanings, says) {
		return nil, fmt.Errorf("the KindProfile says %+v, which the judge does not know", says)
	}
	return &correction{meaning: says, revision: item.ModRevision, seen: seen}, nil
}
