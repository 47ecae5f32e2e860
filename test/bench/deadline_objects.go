package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// runs are objects of a kind that no controller knows. Their start time is written by the bench, so
// that all deadlines pass in one second; a deadline of an hour keeps them from passing before.
var runs = schema.GroupVersionResource{Group: "bench.example.com", Version: "v1", Resource: "runs"}

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

// connectJSON is connect for a kind that knows no protobuf.
func connectJSON(config *rest.Config) *rest.Config {
	config = connect(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return config
}

func (d *markContest) namespace(ctx context.Context) error {
	namespaces := d.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": benchNamespace}}}
	if _, err := namespaces.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", benchNamespace, err)
	}
	return nil
}

// create makes objects that have not started.
func (d *markContest) create(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := d.client.Resource(runs).Namespace(benchNamespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": runs.GroupVersion().String(), "kind": "Run",
			"metadata": map[string]any{"name": name, "annotations": map[string]any{wellknown.AnnotationActiveDeadline: ttl.String()}},
			"spec":     map[string]any{"image": "registry.example/work:1", "command": []any{"work", "--once"}},
		}}, metav1.CreateOptions{})
		return err
	})
}

// begin writes a start time with which all are past their deadline at the given second.
func (d *markContest) begin(ctx context.Context, set jobSet, due time.Time) error {
	patch := fmt.Appendf(nil, `{"status":{"startTime":%q,"conditions":[{"type":"Failed","status":"False","reason":"Running","message":"",`+
		`"lastTransitionTime":%q}]}}`, due.Add(-ttl).UTC().Format(time.RFC3339), due.Add(-ttl).UTC().Format(time.RFC3339))
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := d.client.Resource(runs).Namespace(benchNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

func (d *markContest) clear(ctx context.Context, set jobSet) error {
	err := set.each(ctx, loaders, func(ctx context.Context, name string) error {
		err := d.client.Resource(runs).Namespace(benchNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete the objects: %w", err)
	}
	return nil
}

// markLoopCommand is the first argument that turns this program into the bare loop.
const markLoopCommand = "mark-loop"

func init() { commands[markLoopCommand] = runMarkLoop }

// runMarkLoop is the limit: parallel patches of the status by client-go's dynamic client, over
// names that are known beforehand, with the watch open beside it that every contestant has. It
// judges nothing, and writes over whatever is there.
func runMarkLoop(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet(markLoopCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "the cluster")
	set := jobSet{}
	fs.StringVar(&set.prefix, "prefix", "", "what the objects' names begin with")
	fs.IntVar(&set.count, "objects", 0, "how many there are")
	parallel := fs.Int("parallel", 16, "calls at a time")
	at := fs.Int64("at", 0, "the Unix second at which to begin")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := dynamic.NewForConfig(connectJSON(config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	watch, err := client.Resource(runs).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watch.Stop()
	go func() {
		for range watch.ResultChan() {
		}
	}()
	if err := pause(ctx, time.Until(time.Unix(*at, 0))); err != nil {
		return err
	}
	began := time.Now()
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Failed","status":"True","reason":%q,"message":"was active for 1h0m0s, longer than its deadline of 1h0m0s",`+
		`"lastTransitionTime":%q}]}}`, policy.ReasonDeadlineExceeded, began.UTC().Format(time.RFC3339))
	err = set.each(ctx, *parallel, func(ctx context.Context, name string) error {
		_, err := client.Resource(runs).Namespace(benchNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return json.NewEncoder(out).Encode(loopReport{Deletes: set.count, Seconds: time.Since(began).Seconds()})
}

// markObserver watches the objects of a set and notes when each was first seen marked. It is the
// same for every contestant.
type markObserver struct {
	watch  resumed
	cancel context.CancelFunc
	prefix string
	want   int
	full   chan struct{}
	done   chan struct{}

	mu   sync.Mutex
	seen map[string]time.Time
	err  error
}

// observe begins to watch, from now on.
func (d *markContest) observe(ctx context.Context, set jobSet) (*markObserver, error) {
	list, err := d.client.Resource(runs).Namespace(benchNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list for the observer: %w", err)
	}
	config := connectJSON(d.env.config)
	config.APIPath, config.GroupVersion = "/apis", new(runs.GroupVersion())
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the observer's client: %w", err)
	}
	open := func(ctx context.Context, resourceVersion string) (io.ReadCloser, error) {
		return client.Get().Namespace(benchNamespace).Resource(runs.Resource).Param("watch", "true").
			Param("resourceVersion", resourceVersion).Stream(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx, list.GetResourceVersion())
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch for the observer: %w", err)
	}
	o := &markObserver{watch: resumed{open: open, at: list.GetResourceVersion()}, cancel: cancel, prefix: set.prefix + "-", want: set.count, full: make(chan struct{}), done: make(chan struct{}), seen: map[string]time.Time{}}
	go func() {
		defer close(o.done)
		err := o.watch.run(ctx, stream, o.read)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = fmt.Errorf("the observer's watch ended: %w", err)
	}()
	return o, nil
}

// read notes marks until the stream ends. An event is one line.
func (o *markObserver) read(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 1<<18)
	for {
		line, err := in.ReadBytes('\n')
		at := time.Now()
		if err != nil {
			return err
		}
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
				Status   struct{ Conditions []metav1.Condition }
			}
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("decode an event: %w", err)
		}
		if event.Type == "ERROR" {
			return errors.New("the API server says that something is wrong")
		}
		o.watch.reached(event.Object.Metadata.ResourceVersion)
		name := event.Object.Metadata.Name
		if !strings.HasPrefix(name, o.prefix) || event.Type == "DELETED" {
			continue
		}
		for _, c := range event.Object.Status.Conditions {
			if c.Type == "Failed" && c.Status == metav1.ConditionTrue && c.Reason == policy.ReasonDeadlineExceeded {
				o.note(name, at)
			}
		}
	}
}

func (o *markObserver) note(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.seen[name]; again {
		return
	}
	o.seen[name] = at
	if len(o.seen) == o.want {
		close(o.full)
	}
}

// await returns when all are marked.
func (o *markObserver) await(ctx context.Context) error {
	select {
	case <-o.full:
		return nil
	case <-o.done:
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.err
	case <-ctx.Done():
		return fmt.Errorf("%d of %d objects are marked: %w", len(o.instants()), o.want, ctx.Err())
	}
}

func (o *markObserver) instants() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []time.Time
	for _, at := range o.seen {
		out = append(out, at)
	}
	return out
}

func (o *markObserver) close() {
	o.cancel()
	<-o.done
}
