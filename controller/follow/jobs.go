package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Jobs keeps what Jobs say about their Pods. Most Jobs say nothing, and cost nothing. It implements
// feed.Observer: the feed of Jobs shows it each Job, so that Jobs are watched once.
type Jobs struct {
	// Owners reads a Job live.
	Owners *Owners

	mu sync.RWMutex
	of map[types.UID]seenJob
	// list is the number of the newest list. listing is true during one, and changed if it showed a
	// Job that says something new.
	list             int
	listing, changed bool
	onChange         []func(namespace string, job types.UID, labelled bool)
}

// seenJob is the newest state of a Job that says something.
type seenJob struct {
	*resolution.PodCounter
	namespace, version string
	// counted means that some of its Pods may have been counted.
	counted bool
	list    int
}

// NewJobs makes a follower.
func NewJobs(owners *Owners) *Jobs {
	return &Jobs{Owners: owners, of: map[types.UID]seenJob{}}
}

// OnChange registers a function that has the finished Pods of a Job judged again, because the Job
// says something else about them. labelled is false if they need not carry the Job's label. With an
// empty UID these are all Pods of the namespace, or of the cluster.
func (j *Jobs) OnChange(f func(namespace string, job types.UID, labelled bool)) {
	j.onChange = append(j.onChange, f)
}

// Begin implements feed.Observer.
func (j *Jobs) Begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list++
	j.listing, j.changed = true, false
}

// End implements feed.Observer.
func (j *Jobs) End() {
	j.mu.Lock()
	for uid, seenJob := range j.of {
		if seenJob.list < j.list {
			delete(j.of, uid)
		}
	}
	changed := j.changed
	j.listing, j.changed = false, false
	j.mu.Unlock()
	if changed {
		j.notify("", "", false)
	}
}

// Forget implements feed.Observer.
func (j *Jobs) Forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.of, uid)
}

// See implements feed.Observer. The watch of Pods may be ahead of the watch of Jobs. So the Pods of
// a Job are judged again when it is first seen to have counted some, even if it says nothing new.
func (j *Jobs) See(object runtime.Object) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return
	}
	now := seenJob{PodCounter: resolution.CounterOfJob(job), namespace: job.Namespace, version: job.ResourceVersion, counted: hasCounted(job)}
	if now.TTL != nil { // No valid text is cut, and the state of a Job stays while it is being deleted.
		now.TTL.Text = quote.Shorten(now.TTL.Text)
	}
	j.mu.Lock()
	now.list = j.list
	old, known := j.of[job.UID]
	if known && now.olderThan(&old) {
		j.mu.Unlock()
		return
	}
	says := now.TTL != nil || now.FailsByPods || now.Manager != ""
	if says {
		j.of[job.UID] = now
	} else {
		delete(j.of, job.UID)
	}
	again := now.counted && (says != known || known && (!old.counted || !now.same(&old)))
	j.changed = j.changed || again
	listing := j.listing
	j.mu.Unlock()
	if again && !listing {
		// Another controller may create the Pods, with labels of its own.
		managed := policy.FactsOfJob(job).ForeignManager(false) != ""
		j.notify(job.Namespace, job.UID, !ptr.Deref(job.Spec.ManualSelector, false) && !managed)
	}
}

func (j *Jobs) notify(namespace string, job types.UID, labelled bool) {
	for _, f := range j.onChange {
		f(namespace, job, labelled)
	}
}

// olderThan reports whether a state is older than another, as a list can show it beside a watch.
func (s *seenJob) olderThan(other *seenJob) bool {
	order, err := resourceversion.CompareResourceVersion(s.version, other.version)
	return err == nil && order < 0
}

func (s *seenJob) same(other *seenJob) bool {
	if s.FailsByPods != other.FailsByPods || s.Manager != other.Manager || (s.TTL == nil) != (other.TTL == nil) {
		return false
	}
	return s.TTL == nil || s.TTL.Text == other.TTL.Text
}

// hasCounted reports whether some Pods of the Job may have been counted. The Pods of a finished Job
// have been, no matter what another controller wrote into its status.
func hasCounted(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	waiting := uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0
	return job.Status.Succeeded+job.Status.Failed > 0 || waiting || policy.FactsOfJob(job).Finished
}

// PodCounter returns what the Job of a Pod said when it was last seen; nil if it said nothing. A
// Job that has not been seen yet says nothing either: it is read live before a Pod is deleted.
func (j *Jobs) PodCounter(pod *policy.Facts) *resolution.PodCounter {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.of[pod.Owner.UID].PodCounter
}

// LivePodCounter asks the API server. It is nil if the Job is gone: its Pods go with it.
func (j *Jobs) LivePodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	job, err := j.Owners.Read(ctx, pod.Namespace, pod.Owner)
	if err != nil {
		return nil, err
	}
	return resolution.CounterOfOwner(job)
}

// Owners reads the controller owners of objects, of whatever kind. It implements feed.OwnerReader.
type Owners struct {
	// Client is a [watch.Cap].
	Client dynamic.Interface
	Mapper meta.RESTMapper
	// Whole reads all fields, of objects that are not large. The controller needs few.
	Whole bool

	statefulSets shared[map[string]bool]
	reads        shared[*unstructured.Unstructured]
}

// counterFields are what [resolution.CounterOfJob] reads of a Job, beside its metadata.
var counterFields = readFields{
	{"spec", "managedBy"}, {"spec", "podFailurePolicy", "rules", "*", "action"}, {"status", "conditions", "*", "type"},
	{"status", "conditions", "*", "status"}, {"status", "conditions", "*", "lastTransitionTime"},
}

// ownerField reports whether a judgement reads a field of an owner: what identifies it, Curfew's
// keys in its templates, and what a Job says about its Pods.
func ownerField(path []string) bool {
	key := path[len(path)-1]
	return named(path) || strings.HasPrefix(key, wellknown.Prefix) || key == wellknown.LabelKyvernoTTL || counterFields.has(path)
}

// named reports whether a field identifies an object.
func named(path []string) bool { return len(path) == 1 || len(path) == 2 && path[0] == "metadata" }

var statefulSets = appsv1.SchemeGroupVersion.WithResource("statefulsets")

// Existing implements feed.OwnerReader. A role that permits no list lets all be read one by one.
func (o *Owners) Existing(ctx context.Context, namespace string, owners []*metav1.OwnerReference) ([]*metav1.OwnerReference, error) {
	names, err := o.statefulSets.get(ctx, namespace, func(ctx context.Context) (map[string]bool, error) {
		names := map[string]bool{}
		list := o.Client.Resource(statefulSets).Namespace(namespace).List
		_, err := watch.Each(watch.Fields(ctx, named), metav1.ListOptions{}, list, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				names[page.Items[i].GetName()] = true
			}
			return nil
		})
		return names, err
	})
	switch {
	case apierrors.IsForbidden(err):
		return owners, nil
	case err != nil:
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	return slices.DeleteFunc(owners, func(owner *metav1.OwnerReference) bool {
		return owner.UID == "" && owner.Kind == policy.StatefulSetProfile.Kind.Kind && !names[owner.Name]
	}), nil
}

// Read implements feed.OwnerReader.
func (o *Owners) Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error) {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: owner.APIVersion, Kind: owner.Kind}}
	}
	kind := group.WithKind(owner.Kind)
	mapping, err := o.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = o.Mapper.RESTMapping(kind.GroupKind()) // It may be served in another version by now.
	}
	if err != nil {
		return nil, err
	}
	var client dynamic.ResourceInterface = o.Client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if namespace == "" { // A reference that the garbage collector cannot follow either.
			return nil, &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
		}
		client = o.Client.Resource(mapping.Resource).Namespace(namespace)
	}
	key := fmt.Sprintf("%q", []string{mapping.Resource.String(), namespace, owner.Name})
	read, err := o.reads.get(ctx, key, func(ctx context.Context) (*unstructured.Unstructured, error) {
		if o.Whole {
			ctx = watch.Bound(ctx, maxWhole)
		} else {
			ctx = watch.Bound(watch.Fields(ctx, ownerField), maxObject)
		}
		return client.Get(ctx, owner.Name, metav1.GetOptions{})
	})
	switch {
	case IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", owner.Kind, owner.Name, err)
	case owner.UID != "" && read.GetUID() != owner.UID: // Without one, the name alone is known.
		return nil, nil
	}
	return read.Object, nil
}

// IsGone reports whether an error says that an object is not there. A 404 of a proxy, or for a kind
// that is not served, does not say so.
func IsGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
