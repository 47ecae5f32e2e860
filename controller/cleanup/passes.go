package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
)

// stallError ends a run without deleting anything.
type stallError struct {
	reason string
	err    error
}

func (e *stallError) Error() string { return e.err.Error() }

// survey is the first pass: it counts what matches, where a limit or keepNewest depends on it.
func (r *run) survey(ctx context.Context, deleted int64) error {
	newest := r.policy.Spec.KeepNewest
	if newest == nil && !r.policy.Limited() {
		return nil
	}
	if newest != nil {
		r.newest = cleanup.NewNewest(int(newest.Count))
	}
	matched := int64(0)
	err := r.each(ctx, func(at *place, object *unstructured.Unstructured) error {
		decision, err := r.judge(ctx, &at.Target, object, r.c.options.Cached, r.lookups)
		if err != nil || decision.Verdict != cleanup.Delete {
			return err
		}
		matched++
		if newest == nil {
			return nil
		}
		return r.newest.Add(decision.Group, decision.Time, object.GetUID())
	})
	if errors.Is(err, cleanup.ErrTooMany) {
		return &stallError{v1alpha1.ReasonTooManyGroups, err}
	}
	if err != nil || !r.policy.Limited() {
		return err
	}
	if r.newest != nil {
		matched -= int64(r.newest.Kept())
	}
	all := int64(0)
	if r.policy.Spec.MaxPercentage != nil {
		if all, err = r.total(ctx); err != nil {
			return err
		}
	}
	// What the run has deleted before it was interrupted counts, too. It may still be among all
	// objects, with a finalizer.
	allowed, err := r.policy.Allowance(matched+deleted, all)
	if err != nil {
		r.matched = matched
		return &stallError{v1alpha1.ReasonTooManyMatches, err}
	}
	r.left = max(0, allowed-deleted)
	return nil
}

// deleteAll is the second pass. It deletes in batches, two at a time, while it lists on.
func (r *run) deleteAll(ctx context.Context) error {
	batches, recent := newBatches(ctx, r), recentUIDs{}
	var items []v1alpha1.CleanupItem
	err := r.each(ctx, func(at *place, object *unstructured.Unstructured) error {
		r.listed++
		decision, err := r.judge(ctx, &at.Target, object, r.c.options.Cached, r.lookups)
		switch {
		case err != nil:
			return err
		case decision.Verdict == cleanup.Delete && r.newest != nil && r.newest.Keeps(decision.Group, decision.Time, object.GetUID()):
			r.skip(cleanup.SkipNewest, "is one of the newest: see keepNewest", object)
			return nil
		case decision.Verdict == cleanup.Skip:
			r.skip(decision.Reason, decision.Message, object)
			return nil
		case decision.Verdict != cleanup.Delete || r.left == 0 || recent.has(object.GetUID()):
			return nil
		}
		recent.add(object.GetUID())
		r.left--
		r.matched++
		if items = append(items, itemOf(at, object)); len(items) < batchSize {
			return nil
		}
		err = batches.add(items)
		items = nil
		return err
	})
	if err == nil && len(items) > 0 {
		err = batches.add(items)
	}
	return errors.Join(err, batches.wait())
}

// recentUIDs are the objects that were listed last. An aggregated API with a stale cache, or two
// groups with the same kind, may show one twice: it must be counted once.
type recentUIDs struct{ now, before map[types.UID]bool }

func (r *recentUIDs) has(uid types.UID) bool { return r.now[uid] || r.before[uid] }

func (r *recentUIDs) add(uid types.UID) {
	if r.now == nil || len(r.now) >= 10*maxBatch {
		r.now, r.before = map[types.UID]bool{}, r.now
	}
	r.now[uid] = true
}

func itemOf(at *place, object *unstructured.Unstructured) v1alpha1.CleanupItem {
	return v1alpha1.CleanupItem{
		Group: at.Group, Version: at.Version, Kind: at.Kind, Resource: at.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}

func (r *run) skip(reason, message string, object *unstructured.Unstructured) {
	count := r.skipped[reason]
	if count == nil {
		text := fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), message)
		count = &v1alpha1.SkipCount{Reason: reason, Message: policy.ShortenTo(text, 512)}
		r.skipped[reason] = count
	}
	count.Count++
}

// judge decides about one object, as a list or a live read shows it.
func (r *run) judge(ctx context.Context, at *cleanup.Target, object *unstructured.Unstructured, source platform.Source, lookups *lookups) (cleanup.Decision, error) {
	snapshot, err := source.Snapshot(ctx)
	if err != nil {
		return cleanup.Decision{}, err
	}
	facts := policy.FactsOfObject(snapshot.Profiles.For(at.GroupVersionKind()), object.Object)
	judged := &cleanup.Object{
		Facts: facts, Resource: at.GroupResource(), JSON: object.Object, Now: r.info.StartTime.Time,
		System: slices.Contains(r.c.options.Protect, facts.Namespace),
		Lookup: func(name string) (bool, error) { return lookups.answer(ctx, name, facts, object.Object) },
	}
	if facts.IsNamespace() {
		// Deleting a Namespace deletes all that is in it.
		judged.System = slices.Contains(r.c.options.Protect, facts.Name)
		judged.Namespace = policy.ParseNamespace(facts.Name, facts.Annotations, facts.Labels)
	} else if facts.Namespace != "" {
		if judged.Namespace, err = source.Namespace(ctx, facts.Namespace); err != nil && !errors.Is(err, platform.ErrUnknown) {
			return cleanup.Decision{}, err
		}
	}
	return r.policy.Judge(ctx, judged), ctx.Err()
}
