package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// runDeadline lets many deadlines pass in the same second and counts the objects marked as failed:
// one status write each. Nothing runs below the objects, so that there is nothing to stop.
func runDeadline(ctx context.Context, e *environment) ([]result, error) {
	runs, err := newRuns(e.config)
	if err != nil {
		return nil, err
	}
	runs.env = e
	loop := contestant{name: theLimit, about: "bare loop of parallel status patches", ends: true, start: startLoop}
	all, err := (&contest{env: e, name: "deadline", cargo: runs, field: []contestant{loop, curfew}}).runAll(ctx)
	return summarizeMarks(all, loop, e.objects), err
}

func summarizeMarks(all []measurement, loop contestant, objects int) []result {
	return against("deadline.mark."+sizeName(objects)+".vs_limit", "marks/s", series(all, perSecond), theCurfew, loop)
}

// runs are objects of a kind that no controller knows. Their start time is written by the bench, so
// that all deadlines pass in one second.
type runs struct {
	env    *environment
	client dynamic.ResourceInterface
}

const runKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runs.bench.example.com}
spec:
  group: bench.example.com
  scope: Namespaced
  names: {plural: runs, singular: run, kind: Run}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench-runs}
rules:
  - {apiGroups: [bench.example.com], resources: [runs], verbs: [get, list, watch, delete, patch]}
  - {apiGroups: [bench.example.com], resources: [runs/status], verbs: [patch]}
---
# Bound directly, so that it holds at once.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench-runs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench-runs}
subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]
---
apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: runs.bench.example.com}
spec:
  kind: {group: bench.example.com, version: v1, kind: Run, resource: runs}
  state:
    finished: object.?status.?conditions.orValue([]).exists(c, c.type in ["Complete", "Failed"] && c.status == "True")
    finishTime: object.?status.?conditions.orValue([]).filter(c, c.type in ["Complete", "Failed"] && c.status == "True")[?0].?lastTransitionTime
    outcome: 'object.status.conditions.exists(c, c.type == "Complete" && c.status == "True") ? "Succeeded" : "Failed"'
    started: object.?status.?startTime.orValue(null)
  deadline:
    enforcement:
      - by: Curfew
        stop: [{action: MarkFailed}]
`

// newRuns makes a client of the kind, which knows no protobuf.
func newRuns(config *rest.Config) (*runs, error) {
	config = connect(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	resource := schema.GroupVersionResource{Group: "bench.example.com", Version: "v1", Resource: resourceRuns}
	return &runs{client: client.Resource(resource).Namespace(benchNamespace)}, nil
}

func (*runs) resource() string { return resourceRuns }

// prepare makes the kind known: its definition, the permission and the profile.
func (r *runs) prepare(ctx context.Context) error {
	path := filepath.Join(r.env.dir, "runs.yaml")
	if err := os.WriteFile(path, []byte(runKind), 0o644); err != nil {
		return fmt.Errorf("write the manifests of the kind: %w", err)
	}
	for _, step := range [][]string{{"apply", "-f", path}, {"wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"}} {
		if err := r.env.command(ctx, r.env.state.Kubectl, append([]string{"--kubeconfig", r.env.state.Kubeconfig}, step...)...); err != nil {
			return err
		}
	}
	typed, err := kubernetes.NewForConfig(connect(r.env.config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return load{typed}.prepare(ctx)
}

// create makes objects that have not started.
func (r *runs) create(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := r.client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "bench.example.com/v1", "kind": "Run",
			"metadata": map[string]any{"name": name, "annotations": map[string]any{wellknown.AnnotationActiveDeadline: ttl.String()}},
			"spec":     map[string]any{"image": "registry.example/work:1", "command": []any{"work", "--once"}},
		}}, metav1.CreateOptions{})
		return err
	})
}

// finish writes a start time with which all are past their deadline at the given second.
func (r *runs) finish(ctx context.Context, set jobSet, due time.Time) error {
	started := due.Add(-ttl).UTC().Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"status":{"startTime":%q,"conditions":[{"type":"Failed","status":"False","reason":"Running","message":"",`+
		`"lastTransitionTime":%q}]}}`, started, started)
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := r.client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func (r *runs) clear(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		return client.IgnoreNotFound(r.client.Delete(ctx, name, metav1.DeleteOptions{}))
	})
}

func (r *runs) observe(ctx context.Context, set jobSet) (*observer, error) {
	list, err := r.client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list for the observer: %w", err)
	}
	return observe(ctx, set, list.GetResourceVersion(), r.client.Watch, marked)
}

// marked reports whether the deadline of an object has marked it as failed.
func marked(event watch.Event, object metav1.Object) bool {
	obj, ok := object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Deleted {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(value any) bool {
		c, _ := value.(map[string]any)
		return c["type"] == "Failed" && c["status"] == "True" && c["reason"] == policy.ReasonDeadlineExceeded
	})
}

// loopOverRuns is the limit of the marks: patches of the status that write over whatever is there.
func loopOverRuns(ctx context.Context, config *rest.Config) (watch.Interface, func(context.Context, string) error, error) {
	r, err := newRuns(config)
	if err != nil {
		return nil, nil, err
	}
	watching, err := r.client.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("watch: %w", err)
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Failed","status":"True","reason":%q,"message":"was active for 2s, longer than its deadline of 2s",`+
		`"lastTransitionTime":%q}]}}`, policy.ReasonDeadlineExceeded, time.Now().UTC().Format(time.RFC3339))
	return watching, func(ctx context.Context, name string) error {
		_, err := r.client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}, nil
}
