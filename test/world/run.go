package world

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations on Pods, and on the Pod templates of Jobs: for how many seconds the Pod runs, and
// whether it fails then.
const (
	AnnotationRuns  = "world/runs"
	AnnotationFails = "world/fails"
)

// Users of the controllers.
const (
	KubeController = "system:kube-controller-manager"
	Kubelet        = "system:node:node-1"
)

// finalizerTracking is on Pods that the Job controller has not counted yet.
const finalizerTracking = "batch.kubernetes.io/job-tracking"

// Run runs the controllers of Kubernetes until ctx is done. They react to changes after a time that
// the seed decides.
func (w *World) Run(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1)) // #nosec G404
	for ctx.Err() == nil {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		w.pass()
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
		case <-changed:
			_ = wait(ctx, time.Duration(20+random.IntN(300))*time.Millisecond)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass lets each controller do what it can do now.
func (w *World) pass() {
	for _, pod := range w.Objects("pods") {
		w.kubelet(pod)
	}
	for _, job := range w.Objects("jobs.batch") {
		w.jobController(job)
	}
	w.releasePods()
	w.collectGarbage()
}

// kubelet starts Pods, ends them, and removes those that are being deleted.
func (w *World) kubelet(pod *unstructured.Unstructured) {
	node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	finished := phase == "Succeeded" || phase == "Failed"
	now := w.Now()
	switch {
	case node == "" && pod.GetDeletionTimestamp() == nil:
		w.Edit(Kubelet, "pods", pod.GetNamespace(), pod.GetName(), "", func(live *unstructured.Unstructured) {
			set(live, "node-1", "spec", "nodeName")
		})
		w.setPhase(pod, "Running", map[string]any{"startTime": timestamp(now)})
	case node == "":
	case !finished && pod.GetDeletionTimestamp() != nil:
		w.setPhase(pod, "Failed", finishedContainer(now))
	case pod.GetDeletionTimestamp() != nil:
		if grace := pod.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
			_ = w.Remove(Kubelet, "pods", pod.GetNamespace(), pod.GetName(), metav1.DeleteOptions{
				GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: new(pod.GetUID())}})
		}
	case !finished:
		text, _, _ := unstructured.NestedString(pod.Object, "status", "startTime")
		began, _ := time.Parse(time.RFC3339, text)
		runs, err := strconv.Atoi(pod.GetAnnotations()[AnnotationRuns])
		if err != nil || text == "" || now.Before(began.Add(time.Duration(runs)*time.Second)) {
			return
		}
		phase := "Succeeded"
		if pod.GetAnnotations()[AnnotationFails] != "" {
			phase = "Failed"
		}
		w.setPhase(pod, phase, finishedContainer(now))
	}
}

func finishedContainer(t time.Time) map[string]any {
	return map[string]any{"containerStatuses": []any{map[string]any{"name": "main", "ready": false, "restartCount": int64(0), "image": "", "imageID": "",
		"state": map[string]any{"terminated": map[string]any{"exitCode": int64(0), "finishedAt": timestamp(t)}}}}}
}

func (w *World) setPhase(pod *unstructured.Unstructured, phase string, more map[string]any) {
	w.Edit(Kubelet, "pods", pod.GetNamespace(), pod.GetName(), "status", func(live *unstructured.Unstructured) {
		if live.GetUID() != pod.GetUID() {
			return
		}
		set(live, phase, "status", "phase")
		for key, value := range more {
			set(live, value, "status", key)
		}
	})
}

// jobController creates the Pods of a Job, counts them, and ends the Job.
func (w *World) jobController(job *unstructured.Unstructured) {
	suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
	if job.GetDeletionTimestamp() != nil || Finished(job) != "" || suspended {
		return
	}
	completions, _, _ := unstructured.NestedInt64(job.Object, "spec", "completions")
	succeeded, _, _ := unstructured.NestedInt64(job.Object, "status", "succeeded")
	failed, _, _ := unstructured.NestedInt64(job.Object, "status", "failed")
	open := int64(0)
	for _, pod := range w.controlled(job.GetUID()) {
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		tracked := slices.Contains(pod.GetFinalizers(), finalizerTracking)
		switch {
		case !tracked:
		case phase == "Succeeded":
			succeeded++
			w.count(job, pod, succeeded, failed)
		case phase == "Failed":
			failed++
			w.count(job, pod, succeeded, failed)
		default:
			open++
		}
	}
	switch {
	case failed > 0:
		w.endJob(job, "Failed", "BackoffLimitExceeded")
	case succeeded >= completions:
		w.endJob(job, "Complete", "CompletionsReached")
	case open+succeeded < completions:
		w.createPod(job, strconv.FormatInt(open+succeeded, 10))
	}
}

// controlled are the Pods that an object controls.
func (w *World) controlled(by types.UID) (out []*unstructured.Unstructured) {
	for _, pod := range w.Objects("pods") {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID == by {
			out = append(out, pod)
		}
	}
	return out
}

func (w *World) createPod(job *unstructured.Unstructured, index string) {
	annotations, _, _ := unstructured.NestedMap(job.Object, "spec", "template", "metadata", "annotations")
	metadata := map[string]any{
		"namespace": job.GetNamespace(), "generateName": job.GetName() + "-" + index + "-", "annotations": annotations,
		"labels":     map[string]any{"batch.kubernetes.io/job-name": job.GetName(), "batch.kubernetes.io/controller-uid": string(job.GetUID())},
		"finalizers": []any{finalizerTracking},
		"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": job.GetName(), "uid": string(job.GetUID()),
			"controller": true, "blockOwnerDeletion": true}},
	}
	spec := map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "main"}}}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": spec}}
	_, _ = w.Do(KubeController, Request{Verb: "create", Resource: w.Resource("pods"), Namespace: job.GetNamespace(), Object: object})
}

// count writes the counts of a Job, and then lets the Pod go.
func (w *World) count(job, pod *unstructured.Unstructured, succeeded, failed int64) {
	w.Edit(KubeController, "jobs.batch", job.GetNamespace(), job.GetName(), "status", func(live *unstructured.Unstructured) {
		set(live, succeeded, "status", "succeeded")
		set(live, failed, "status", "failed")
	})
	w.dropFinalizer("pods", pod, finalizerTracking)
}

func (w *World) dropFinalizer(resource string, object *unstructured.Unstructured, finalizer string) {
	w.Edit(KubeController, resource, object.GetNamespace(), object.GetName(), "", func(live *unstructured.Unstructured) {
		live.SetFinalizers(slices.DeleteFunc(live.GetFinalizers(), func(n string) bool { return n == finalizer }))
	})
}

func (w *World) endJob(job *unstructured.Unstructured, condition, reason string) {
	now := timestamp(w.Now())
	w.Edit(KubeController, "jobs.batch", job.GetNamespace(), job.GetName(), "status", func(live *unstructured.Unstructured) {
		set(live, []any{map[string]any{
			"type": condition, "status": "True", "reason": reason, "lastTransitionTime": now, "lastProbeTime": now}}, "status", "conditions")
		if condition == "Complete" {
			set(live, now, "status", "completionTime")
		}
	})
}

// Finished returns the condition by which a Job has finished, or "".
func Finished(job *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	for _, condition := range conditions {
		condition, _ := condition.(map[string]any)
		if kind, _ := condition["type"].(string); condition["status"] == "True" && (kind == "Complete" || kind == "Failed") {
			return kind
		}
	}
	return ""
}

// releasePods removes the tracking finalizer from Pods of Jobs that are gone or being deleted.
func (w *World) releasePods() {
	jobs := map[types.UID]bool{}
	for _, job := range w.Objects("jobs.batch") {
		jobs[job.GetUID()] = job.GetDeletionTimestamp() == nil
	}
	for _, pod := range w.Objects("pods") {
		owner := metav1.GetControllerOf(pod)
		if slices.Contains(pod.GetFinalizers(), finalizerTracking) && (owner == nil || owner.Kind == "Job" && !jobs[owner.UID]) {
			w.dropFinalizer("pods", pod, finalizerTracking)
		}
	}
}
