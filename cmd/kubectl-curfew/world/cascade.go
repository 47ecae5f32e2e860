package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
)

// ownersDeep bounds how many levels of owners are followed, such as Pod, Job, JobSet, TrainJob.
const ownersDeep = 6

// maxOwners bounds how many owners one command reads.
const maxOwners = 1000

// Cascade is the deletion of an object together with another one: its Namespace, or its last
// owner.
type Cascade struct {
	// Kind, Namespace and Name are the other object, whose own deletion comes first.
	Kind            Kind
	Namespace, Name string
	// Entry is the expiry of the other object; nil where that is gone, or being deleted, already.
	Entry *Entry
	// Deleting: it is being deleted already. Gone: all owners are gone.
	Deleting, Gone bool
}

// fate is what becomes of an object, itself or with another one. unknown says what the user may not
// read.
type fate struct {
	cascade *Cascade
	unknown []string
}

// Cascade is the earliest deletion of another object that deletes this one as well; nil for none.
// unknown says what the user may not read.
func (w *World) Cascade(ctx context.Context, object map[string]any, now time.Time) (with *Cascade, unknown []string, err error) {
	found, err := w.cascade(ctx, object, now, ownersDeep)
	return found.cascade, found.unknown, err
}

func (w *World) cascade(ctx context.Context, object map[string]any, now time.Time, depth int) (fate, error) {
	u := &unstructured.Unstructured{Object: object}
	var out fate
	if namespace := u.GetNamespace(); namespace != "" {
		found, err := w.fateOf(ctx, namespaceResource.GroupVersion().WithKind("Namespace"), "", namespace, "", now, depth)
		if err != nil {
			return fate{}, err
		}
		out.unknown = found.unknown
		if found.cascade != nil && !found.cascade.Gone {
			out.cascade = found.cascade
		}
	}
	owners, err := w.owners(ctx, u, now, depth)
	out.unknown = append(slices.Clone(out.unknown), owners.unknown...)
	if c := owners.cascade; c != nil && (out.cascade == nil || c.at().Before(out.cascade.at())) {
		out.cascade = c
	}
	return out, err
}

// owners is the fate of the owner that is deleted last. The garbage collector deletes an object
// once all its owners are gone.
func (w *World) owners(ctx context.Context, u *unstructured.Unstructured, now time.Time, depth int) (fate, error) {
	var last *Cascade
	for _, owner := range u.GetOwnerReferences() {
		groupVersion, err := schema.ParseGroupVersion(owner.APIVersion)
		if err != nil || depth == 0 {
			return fate{}, nil
		}
		found, err := w.fateOf(ctx, groupVersion.WithKind(owner.Kind), u.GetNamespace(), owner.Name, string(owner.UID), now, depth-1)
		if err != nil || found.cascade == nil {
			return found, err
		}
		if last == nil || last.at().Before(found.cascade.at()) {
			last = found.cascade
		}
	}
	return fate{cascade: last}, nil
}

// at is when the other object is deleted. One that is to finish first comes last.
func (c *Cascade) at() time.Time {
	switch {
	case c.Entry == nil:
		return time.Time{}
	case c.Entry.Expiry.IsZero():
		return time.Unix(1<<40, 0)
	default:
		return c.Entry.Expiry
	}
}

// fateOf is the deletion of an owner or Namespace that its dependents follow; nil where it stays,
// or leaves them behind.
func (w *World) fateOf(ctx context.Context, gvk schema.GroupVersionKind, namespace, name, uid string, now time.Time, depth int) (
	fate, error) {
	return w.fates.get(gvk.String()+" "+namespace+"/"+name+" "+uid, func() (fate, error) {
		kind, err := w.kindOf(gvk.GroupKind())
		if err != nil {
			return fate{}, nil // It is not served, or can never be deleted.
		}
		switch {
		case kind.ClusterScoped:
			namespace = ""
		case namespace == "":
			return fate{}, nil // The garbage collector ignores such a reference.
		}
		unknown := func(format string, why any) (fate, error) {
			return fate{unknown: []string{fmt.Sprintf("whether it is deleted with %s %s: "+format, gvk.Kind, name, why)}}, nil
		}
		if uid != "" && w.ownersRead.Add(1) > maxOwners {
			return unknown("only %d owners are read", maxOwners)
		}
		read, err := w.objects(kind.At(), namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
			return unknown("you may not get %s", kind.GroupResource())
		case apierrors.IsNotFound(err), err == nil && uid != "" && string(read.GetUID()) != uid:
			return fate{cascade: &Cascade{Kind: kind, Namespace: namespace, Name: name, Gone: true}}, nil
		case err != nil:
			return fate{}, fmt.Errorf("reading %s: %w", kind.Name(name), err)
		}
		return w.dependents(ctx, kind, read, now, depth)
	})
}

// dependents is the fate of an object as its dependents share it.
func (w *World) dependents(ctx context.Context, kind Kind, u *unstructured.Unstructured, now time.Time, depth int) (fate, error) {
	own := &Cascade{Kind: kind, Namespace: u.GetNamespace(), Name: u.GetName()}
	if slices.Contains(u.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		return fate{}, nil // It leaves them behind.
	}
	if u.GetDeletionTimestamp() != nil {
		own.Deleting = true
		return fate{cascade: own}, nil
	}
	entries, err := w.Entries(ctx, kind, u.Object, now)
	if err != nil {
		return fate{}, err
	}
	out, err := w.cascade(ctx, u.Object, now, depth)
	if err != nil || len(entries) == 0 {
		return out, err
	}
	entry := &entries[0]
	own.Entry = entry
	never := entry.Expiry.IsZero() && entry.Value.Never
	if judging.Stops(entry.Trigger) || never || entry.Blocker() != nil || out.cascade != nil && out.cascade.at().Before(own.at()) {
		return out, nil
	}
	orphans, err := w.orphans(ctx, kind, u.Object, entry, now)
	if err != nil || orphans {
		return out, err
	}
	out.cascade = own
	return out, nil
}

// orphans reports whether the deletion of an object leaves its dependents behind.
func (w *World) orphans(ctx context.Context, kind Kind, object map[string]any, entry *Entry, now time.Time) (bool, error) {
	if entry.Native != nil || kind.IsNamespace() {
		return false, nil
	}
	explained, err := w.Explain(ctx, kind, object, now)
	if err != nil {
		return false, err
	}
	bySettings, _, _ := explained.Scope.Propagation()
	byProfile, _ := w.platform.Propagation(kind.GroupKind())
	return cmp.Or(bySettings, byProfile) == metav1.DeletePropagationOrphan, nil
}

// First reports whether the other object is deleted before an entry of this one expires, so that
// this one is deleted with it. held means that something keeps Curfew from this one.
func (c *Cascade) First(entry *Entry, held bool) bool {
	other := c.Entry
	switch {
	case entry.Native == nil && held, entry.Expiry.IsZero() && entry.Value.Never, other == nil:
		return true
	case entry.Expiry.IsZero():
		return !other.Expiry.IsZero()
	default:
		return !other.Expiry.IsZero() && other.Expiry.Before(entry.Expiry)
	}
}

// Follow gives the entries of an object the expiry of its Namespace or its last owner, where that
// is known and deletes the object first.
func (w *World) Follow(ctx context.Context, object map[string]any, entries []Entry, now time.Time) error {
	if !slices.ContainsFunc(entries, func(entry Entry) bool { return !judging.Stops(entry.Trigger) }) {
		return nil
	}
	with, unknown, err := w.Cascade(ctx, object, now)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		w.Note("some owners were not read; objects may be deleted earlier, together with an owner: kubectl curfew explain names the owners")
	}
	for i := range entries {
		entry := &entries[i]
		if with == nil || judging.Stops(entry.Trigger) || !with.First(entry, entry.Blocker() != nil) {
			continue
		}
		other := with.Entry
		if other == nil { // It is being deleted, or gone.
			other = &Entry{Expiry: now}
		}
		if other.Expiry.IsZero() {
			continue
		}
		// Nothing that keeps Curfew from an object keeps the garbage collector from it.
		entry.With, entry.Native, entry.Obstacles = with, nil, nil
		entry.Expiry, entry.Estimated, entry.Uncertain = other.Expiry, other.Estimated, other.Uncertain
	}
	return nil
}

// listsAtOnce is how many kinds are listed at the same time.
const listsAtOnce = 8

// Dependents counts the objects that an object owns, directly or through others. It lists the
// namespace. unread are resources that it cannot list, and forbidden those that the user may not.
// Few users may list every kind, so forbidden names only the kinds that own or are Pods.
func (w *World) Dependents(ctx context.Context, namespace string, owner types.UID) (n int, forbidden, unread []string, err error) {
	kinds, err := w.Kinds()
	if err != nil {
		return 0, nil, nil, err
	}
	var mu sync.Mutex
	owned := map[types.UID][]types.UID{} // by owner
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listsAtOnce)
	for _, kind := range kinds {
		if kind.ClusterScoped || kind.Resource == "events" {
			continue
		}
		group.Go(func() error {
			err := w.eachMetadata(ctx, kind.At(), namespace, metav1.ListOptions{}, func(object *metav1.PartialObjectMetadata) error {
				mu.Lock()
				defer mu.Unlock()
				for _, by := range object.OwnerReferences {
					owned[by.UID] = append(owned[by.UID], object.UID)
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			switch status := apierrors.APIStatus(nil); { // Others can still be counted.
			case Gone(err):
			case apierrors.IsForbidden(err) && kind.Profile.State == nil && kind.Group != "apps":
			case apierrors.IsForbidden(err):
				forbidden = append(forbidden, kind.At().GroupResource().String())
			case errors.As(err, &status):
				unread = append(unread, kind.At().GroupResource().String())
			default:
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, nil, nil, err
	}
	slices.Sort(forbidden)
	slices.Sort(unread)
	return descendants(owned, owner), forbidden, unread, nil
}

// descendants counts the objects below an owner.
func descendants(owned map[types.UID][]types.UID, owner types.UID) int {
	counted := map[types.UID]bool{owner: true}
	for next := []types.UID{owner}; len(next) > 0; next = next[1:] {
		for _, uid := range owned[next[0]] {
			if !counted[uid] {
				counted[uid] = true
				next = append(next, uid)
			}
		}
	}
	return len(counted) - 1
}

// HistoryLimits says how many finished Jobs the CronJob that owns a Job keeps; "" for none, and
// where the user may not list CronJobs.
func (w *World) HistoryLimits(ctx context.Context, facts *policy.Facts) (string, error) {
	name := cronJobOf(facts)
	if name == "" {
		return "", nil
	}
	limits, err := w.historyLimits(ctx, facts.Namespace)
	return limits[types.NamespacedName{Namespace: facts.Namespace, Name: name}], err
}

// AddHistory sets History of the Jobs that CronJobs own. It lists the CronJobs of the namespace, or
// with "" of all, once, and only if there are such Jobs.
func (w *World) AddHistory(ctx context.Context, namespace string, entries []*Entry) error {
	for _, entry := range entries {
		if entry.CronJob == "" {
			continue
		}
		limits, err := w.historyLimits(ctx, namespace)
		if err != nil {
			return err
		}
		entry.History = limits[types.NamespacedName{Namespace: entry.Namespace, Name: entry.CronJob}]
	}
	return nil
}

// historyLimits are the limits of the CronJobs of a namespace, or with "" of all, in words.
func (w *World) historyLimits(ctx context.Context, namespace string) (map[types.NamespacedName]string, error) {
	return w.histories.get(namespace, func() (map[types.NamespacedName]string, error) {
		all, _, err := Items[batchv1.CronJob](ctx, w, batchv1.SchemeGroupVersion.WithResource("cronjobs"), namespace, "")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && !Gone(err) {
			w.Note("history limits of CronJobs are not known: " + err.Error())
		} else if err != nil && !Gone(err) {
			return nil, err
		}
		out := map[types.NamespacedName]string{}
		for _, cronJob := range all {
			out[types.NamespacedName{Namespace: cronJob.Namespace, Name: cronJob.Name}] = fmt.Sprintf(
				"keeps the newest Jobs of CronJob %s: successfulJobsHistoryLimit %d, failedJobsHistoryLimit %d", cronJob.Name,
				ptr.Deref(cronJob.Spec.SuccessfulJobsHistoryLimit, 3), ptr.Deref(cronJob.Spec.FailedJobsHistoryLimit, 1))
		}
		return out, nil
	})
}
