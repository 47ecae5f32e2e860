package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/policy/v1alpha1"
)

// counted implements storage. A forged page can only make the run delete less. One that was written
// before the run counts for nothing: its name can be known in advance.
func (s *store) counted(ctx context.Context, run string) (deleted int64, last int32, err error) {
	due, err := timeOfRun(run)
	if err != nil {
		return 0, 0, nil // No run has such a name: see hasBegun.
	}
	due = due.Add(-maxClockSkew)
	options := metav1.ListOptions{LabelSelector: v1alpha1.LabelCleanupPolicyUID + "=" + string(s.policy.UID) + "," + v1alpha1.LabelCleanupRun + "=" + run}
	err = s.client.Each(ctx, s.reportResource, s.policy.Namespace, options, func(object *unstructured.Unstructured) error {
		page := &v1alpha1.CleanupReport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, page); err != nil {
			return err
		}
		if page.DryRun || page.Page > mostPages || page.CreationTimestamp.Time.Before(due) || object.GetName() != pageName(s.policy.Name, run, page.Page) {
			return nil
		}
		deleted += min(max(0, page.Deleted), maxBatch)
		if page.Truncated || slices.ContainsFunc(page.Objects, func(item v1alpha1.CleanupItem) bool { return decided(&item) }) {
			last = max(last, page.Page)
		}
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("listing the reports of run %s: %w", run, err)
	}
	return deleted, last, nil
}

// prune deletes the pages of old runs, and the matches of all runs but the last. A page stays if
// status.runs names its run, or if its run is one of the newest with pages. A user who forges the
// status or pages, but not both, can have no page of the last runs deleted.
func (s *store) prune(ctx context.Context, current string, now time.Time) error {
	pages := map[string][]listedPage{} // by run
	var old []listedPage
	own := v1alpha1.PolicyReference{Name: s.policy.Name, UID: s.policy.UID}
	options := metav1.ListOptions{LabelSelector: v1alpha1.LabelCleanupPolicyUID + "=" + string(s.policy.UID)}
	err := s.client.Each(ctx, s.reportResource, s.policy.Namespace, options, func(object *unstructured.Unstructured) error {
		page, one := verifiedPage(object, own, now), listedPage{object.GetName(), object.GetUID(), object.GetResourceVersion()}
		switch {
		case page == nil:
		case len(page.Matched) == 0:
			pages[page.Run] = append(pages[page.Run], one)
		case s.status.Matches == nil || page.Run != s.status.Matches.Run:
			old = append(old, one)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing reports of %s: %w", s.policy.ID(), err)
	}
	runs := slices.Sorted(maps.Keys(pages)) // By time, as their ids begin with it.
	for _, run := range runs[:max(0, len(runs)-v1alpha1.KeptRuns)] {
		if run != current && !slices.Contains(s.status.Runs, run) {
			old = append(old, pages[run]...)
		}
	}
	if err := s.deletePages(ctx, old); err != nil || s.reportBytes <= 0 || s.policy.Namespace == "" || len(pages[current]) == 0 {
		return err // A run that has written no page did not exceed anything.
	}
	return s.trim(ctx, current, now)
}

// verifiedPage reads a page of a policy. It returns nil if a store would not have written the page
// by now: a page by another writer is neither an old run nor a reason to delete one.
func verifiedPage(object *unstructured.Unstructured, of v1alpha1.PolicyReference, now time.Time) *v1alpha1.CleanupReportFields {
	page := &v1alpha1.CleanupReport{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, page) != nil {
		return nil
	}
	name := pageName(of.Name, page.Run, page.Page)
	if len(page.Matched) > 0 {
		name = matchesName(of.Name, page.Run, page.Page)
	}
	due, err := timeOfRun(page.Run)
	if err != nil || due.After(now.Add(maxClockSkew)) || page.Run != runID(due, of.UID) ||
		page.Policy.UID != of.UID || page.Name != name || page.Labels[v1alpha1.LabelCleanupRun] != page.Run {
		return nil
	}
	return &page.CleanupReportFields
}

// deletePages deletes pages in the state in which they were listed.
func (s *store) deletePages(ctx context.Context, pages []listedPage) error {
	for _, one := range pages {
		err := s.reports.Delete(ctx, one.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.uid, ResourceVersion: &one.version}})
		if errors.Is(err, pause.ErrHeld) {
			return nil // The next run prunes it, and what has changed since the list.
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting report %s: %w", one.name, err)
		}
	}
	return nil
}

// listedPage is the state in which a report page was listed.
type listedPage struct {
	name    string
	uid     types.UID
	version string
}
