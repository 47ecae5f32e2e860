package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// server is an API server in memory with one ClusterCleanupPolicy, its report pages and the objects
// of a cluster. It checks resourceVersions and UIDs, so that the real store works on it.
type server struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	policy  *unstructured.Unstructured // nil: there is none
	pages   map[string]*unstructured.Unstructured
	objects map[string]*metav1.PartialObjectMetadata
	// sent has how often Curfew's DELETEs have deleted an object.
	sent map[types.UID]int
	// statuses are all that there were, by the resourceVersion of the policy.
	statuses map[string]v1alpha1.CleanupPolicyStatus
	// events are the Events that a test records.
	events []string
}

func newServer(t *testing.T) *server {
	s := &server{t: t, version: 100, pages: map[string]*unstructured.Unstructured{}, objects: newCluster(t).objects, sent: map[types.UID]int{}, statuses: map[string]v1alpha1.CleanupPolicyStatus{}}
	s.create("policy", func(*v1alpha1.CleanupSpec) {})
	return s
}

// create creates the policy, which exists for a month.
func (s *server) create(uid types.UID, edit func(*v1alpha1.CleanupSpec)) {
	live := &v1alpha1.ClusterCleanupPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, Generation: 1, CreationTimestamp: metav1.NewTime(start.AddDate(0, -1, 0))}}
	live.Spec.Schedule = "0 2 * * *"
	live.Spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"tmp-*"}}}
	edit(&live.Spec.CleanupSpec)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	must(s.t, err)
	s.policy = &unstructured.Unstructured{Object: content}
	s.policy.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterCleanupPolicy"))
	s.written()
}

// written gives the policy a new resourceVersion.
func (s *server) written() {
	s.policy.SetResourceVersion(s.next())
	s.statuses[s.policy.GetResourceVersion()] = s.status()
}

func (s *server) next() string { s.version++; return strconv.Itoa(s.version) }

func (s *server) status() v1alpha1.CleanupPolicyStatus {
	status, err := statusOf(s.policy)
	must(s.t, err)
	return status
}

// setStatus has another writer replace the status.
func (s *server) setStatus(status v1alpha1.CleanupPolicyStatus) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupPolicy{Status: status})
	must(s.t, err)
	s.policy.Object["status"] = content["status"]
	s.written()
}

// leader is a process that works for the policy.
type leader struct {
	*server
	id int
	// send has the API server carry out a request, and returns the answer or why there is none.
	send func(effect func() error) error
	// observe is called with each request and its answer. It may be nil.
	observe func(*request) (answered func(error))
	// sentPages are the report pages as the process last sent them.
	sentPages map[string]*v1alpha1.CleanupReportFields
}

// request is what a process asks for that concerns the counts.
type request struct {
	verb string // "delete", "get" or "status"
	uid  types.UID
	// base is the resourceVersion that a status replaces.
	base   string
	status v1alpha1.CleanupPolicyStatus
	// next is the resourceVersion after it has taken effect.
	next string
}

// controller is the process, with the real store and a fake engine.
func (l *leader) controller() *Controller {
	l.sentPages = map[string]*v1alpha1.CleanupReportFields{}
	out := newCluster(l.t).controller()
	account, err := out.options.Account(types.NamespacedName{})
	must(l.t, err)
	account.Metadata, account.Delete = configMaps{l: l}, l
	out.options.Objects, out.compiler = resources{l: l}, expression.NewCompiler(10)
	return out
}

func (l *leader) do(r *request, effect func() error) error {
	if l.observe == nil {
		return l.send(effect)
	}
	answered := l.observe(r)
	err := l.send(effect)
	answered(err)
	return err
}

// Do implements deletion.Action: a DELETE with preconditions.
func (l *leader) Do(_ context.Context, due deletion.Due) deletion.Answer {
	resource := schema.GroupResource{Resource: "configmaps"}
	err := l.do(&request{verb: "delete", uid: due.UID}, func() error {
		object := l.objects[due.Name]
		switch {
		case object == nil:
			return apierrors.NewNotFound(resource, due.Name)
		case object.UID != due.UID || object.ResourceVersion != due.ResourceVersion:
			return apierrors.NewConflict(resource, due.Name, errors.New("precondition"))
		}
		l.sent[object.UID]++
		l.remove(due.Name)
		return nil
	})
	switch {
	case err == nil:
		return deletion.Answer{Outcome: deletion.Done}
	case apierrors.IsNotFound(err):
		return deletion.Answer{Outcome: deletion.Gone}
	case apierrors.IsConflict(err):
		return deletion.Answer{Outcome: deletion.Conflict}
	}
	return deletion.Answer{Outcome: deletion.Failed, Err: err}
}

// remove deletes an object, or has it wait for its finalizers.
func (s *server) remove(name string) {
	object := s.objects[name].DeepCopy()
	if s.objects[name] = object; len(object.Finalizers) == 0 {
		delete(s.objects, name)
		return
	}
	object.DeletionTimestamp, object.ResourceVersion = new(metav1.NewTime(start)), s.next()
}

// configMaps reads the objects.
type configMaps struct {
	metadata.Getter
	l *leader
}

func (c configMaps) Resource(schema.GroupVersionResource) metadata.Getter { return c }
func (c configMaps) Namespace(string) metadata.ResourceInterface          { return c }

func (c configMaps) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	var found *metav1.PartialObjectMetadata
	err := c.l.do(&request{verb: "get", uid: types.UID("uid-" + name)}, func() error {
		if c.l.objects[name] == nil || c.l.objects[name].DeletionTimestamp != nil {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
		}
		found = c.l.objects[name].DeepCopy()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (c configMaps) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	out := &metav1.PartialObjectMetadataList{}
	err := c.l.send(func() error {
		for _, name := range slices.Sorted(maps.Keys(c.l.objects)) {
			out.Items = append(out.Items, *c.l.objects[name].DeepCopy())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// resources reads and writes the policy and its report pages.
type resources struct {
	dynamic.NamespaceableResourceInterface
	l  *leader
	of schema.GroupResource
}

func (r resources) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return resources{l: r.l, of: resource.GroupResource()}
}
func (r resources) Namespace(string) dynamic.ResourceInterface { return r }

// at is where an object is, nil for none.
func (r resources) at(name string) *unstructured.Unstructured {
	if r.of.Resource == v1alpha1.ClusterCleanupPolicies {
		return r.l.policy
	}
	return r.l.pages[name]
}

func (r resources) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	err := r.l.send(func() error {
		if found = r.at(name).DeepCopy(); found == nil {
			return apierrors.NewNotFound(r.of, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (r resources) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	err = r.l.send(func() error {
		for _, name := range slices.Sorted(maps.Keys(r.l.pages)) {
			if page := r.l.pages[name]; selector.Matches(labels.Set(page.GetLabels())) {
				out.Items = append(out.Items, *page.DeepCopy())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// patched is an empty object after a JSON Patch.
func patched(patch []byte) (*unstructured.Unstructured, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	text, err := operations.Apply([]byte(`{"metadata": {}}`))
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, utiljson.Unmarshal(text, &out.Object) // Whole numbers are int64.
}

// patchStatus writes the status of the policy.
func (r resources) patchStatus(name string, patch []byte) (*unstructured.Unstructured, error) {
	object, err := patched(patch)
	if err != nil {
		return nil, err
	}
	status, err := statusOf(object)
	if err != nil {
		return nil, err
	}
	var written *unstructured.Unstructured
	did := &request{verb: "status", base: object.GetResourceVersion(), status: status}
	err = r.l.do(did, func() error {
		live := r.l.policy
		switch {
		case live == nil:
			return apierrors.NewNotFound(r.of, name)
		case live.GetUID() != object.GetUID() || live.GetResourceVersion() != object.GetResourceVersion():
			return apierrors.NewConflict(r.of, name, errors.New("it was changed"))
		}
		r.l.setStatus(status)
		written, did.next = live.DeepCopy(), live.GetResourceVersion()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// note notes what a page is about to say.
func (r resources) note(page *unstructured.Unstructured) error {
	cleanupReport := &v1alpha1.CleanupReport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(page.Object, cleanupReport); err != nil {
		return err
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.l.sentPages[page.GetName()] = &cleanupReport.CleanupReportFields
	return nil
}

func (r resources) Create(_ context.Context, page *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	page = page.DeepCopy()
	if err := r.note(page); err != nil {
		return nil, err
	}
	var created *unstructured.Unstructured
	err := r.l.send(func() error {
		if r.l.pages[page.GetName()] != nil {
			return apierrors.NewAlreadyExists(r.of, page.GetName())
		}
		created = page.DeepCopy()
		created.SetUID(types.UID("page-" + r.l.next()))
		created.SetResourceVersion(r.l.next())
		created.SetCreationTimestamp(metav1.NewTime(start))
		r.l.pages[page.GetName()] = created
		return nil
	})
	if err != nil {
		return nil, err
	}
	return created.DeepCopy(), nil
}

// Patch merges into a page, in the version that it names, or writes the status of the policy.
func (r resources) Patch(_ context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	if kind == types.JSONPatchType {
		return r.patchStatus(name, data)
	}
	sent := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, sent); err != nil {
		return nil, err
	}
	if err := r.note(sent); err != nil {
		return nil, err
	}
	var merged *unstructured.Unstructured
	err := r.l.send(func() error {
		live := r.l.pages[name]
		if live == nil {
			return apierrors.NewNotFound(r.of, name)
		}
		if version := sent.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
			return apierrors.NewConflict(r.of, name, errors.New("it was changed"))
		}
		text, err := json.Marshal(live)
		if err != nil {
			return err
		}
		if text, err = jsonpatch.MergePatch(text, data); err != nil {
			return err
		}
		merged = &unstructured.Unstructured{}
		if err := json.Unmarshal(text, merged); err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(merged, live) { // Nothing new has no new version.
			merged.SetResourceVersion(r.l.next())
		}
		r.l.pages[name] = merged
		return nil
	})
	if err != nil {
		return nil, err
	}
	return merged.DeepCopy(), nil
}

func (r resources) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	return r.l.send(func() error { delete(r.l.pages, name); return nil })
}
