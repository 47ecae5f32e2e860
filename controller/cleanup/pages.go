package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
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

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/v1alpha1"
)

// listedPage is the state in which a report page was listed.
type listedPage struct {
	name    string
	uid     types.UID
	version string
}

func listedPageOf(object *unstructured.Unstructured) listedPage {
	return listedPage{object.GetName(), object.GetUID(), object.GetResourceVersion()}
}

// eachPage calls f for each report page that a selector selects.
func (s *store) eachPage(ctx context.Context, selector string, f func(*unstructured.Unstructured) error) error {
	return s.client.Each(ctx, s.reportResource, s.policy.Namespace, metav1.ListOptions{LabelSelector: selector}, f)
}

// own selects the pages of the policy.
func (s *store) own() string { return v1alpha1.LabelCleanupPolicyUID + "=" + string(s.policy.UID) }

// counted implements storage. A forged page can only make the run delete less. One that was written
// before the run counts for nothing: its name can be known in advance.
func (s *store) counted(ctx context.Context, run string) (deleted int64, last int32, gone map[types.UID]bool, err error) {
	due, err := timeOfRun(run)
	if err != nil {
		return 0, 0, nil, nil // No run has such a name: see hasBegun.
	}
	due, gone = due.Add(-maxClockSkew), map[types.UID]bool{}
	err = s.eachPage(ctx, s.own()+","+v1alpha1.LabelCleanupRun+"="+run, func(object *unstructured.Unstructured) error {
		page := &v1alpha1.CleanupReport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, page); err != nil {
			return err
		}
		named := object.GetName() == pageName(s.policy.Name, run, page.Page)
		if page.DryRun || page.Page > maxPages || page.CreationTimestamp.Time.Before(due) || !named {
			return nil
		}
		deleted += min(max(0, page.Deleted), maxBatch)
		if page.Truncated || slices.ContainsFunc(page.Objects, func(item v1alpha1.CleanupItem) bool { return decided(&item) }) {
			last = max(last, page.Page)
		}
		for i := 0; i < len(page.Objects) && page.Page <= detailedPages; i++ { // Others could forge more.
			gone[page.Objects[i].UID] = gone[page.Objects[i].UID] || isGone(&page.Objects[i])
		}
		return nil
	})
	if err != nil {
		return 0, 0, nil, fmt.Errorf("listing the reports of run %s: %w", run, err)
	}
	return deleted, last, gone, nil
}

// prune deletes the pages of old runs, and the matches of all runs but the last. A page stays if
// status.runs names its run, or if its run is one of the newest with pages. A user who forges the
// status or pages, but not both, can have no page of the last runs deleted.
func (s *store) prune(ctx context.Context, current string, now time.Time) error {
	pages := map[string][]listedPage{} // by run
	var old []listedPage
	own := v1alpha1.PolicyReference{Name: s.policy.Name, UID: s.policy.UID}
	err := s.eachPage(ctx, s.own(), func(object *unstructured.Unstructured) error {
		page, listedPage := verifiedPage(object, own, now), listedPageOf(object)
		switch {
		case page == nil:
		case len(page.Matched) == 0:
			pages[page.Run] = append(pages[page.Run], listedPage)
		case s.status.Matches == nil || page.Run != s.status.Matches.Run:
			old = append(old, listedPage)
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
func verifiedPage(object *unstructured.Unstructured, reference v1alpha1.PolicyReference, now time.Time) *v1alpha1.CleanupReportFields {
	page := &v1alpha1.CleanupReport{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, page) != nil {
		return nil
	}
	name := pageName(reference.Name, page.Run, page.Page)
	if len(page.Matched) > 0 {
		name = matchesName(reference.Name, page.Run, page.Page)
	}
	due, err := timeOfRun(page.Run)
	if err != nil || due.After(now.Add(maxClockSkew)) || page.Run != runID(due, reference.UID) ||
		page.Policy.UID != reference.UID || page.Name != name || page.Labels[v1alpha1.LabelCleanupRun] != page.Run {
		return nil
	}
	return &page.CleanupReportFields
}

// deletePages deletes pages in the state in which they were listed.
func (s *store) deletePages(ctx context.Context, pages []listedPage) error {
	for _, page := range pages {
		state := &metav1.Preconditions{UID: &page.uid, ResourceVersion: &page.version}
		err := s.reports.Delete(ctx, page.name, metav1.DeleteOptions{Preconditions: state})
		if errors.Is(err, deletion.ErrHeld) {
			return nil // The next run prunes it, and what has changed since the list.
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting report %s: %w", page.name, err)
		}
	}
	return nil
}

// trim deletes the oldest report pages of a namespace, of whatever policy, while all of them take
// more than reportBytes. Pages that a policy of the namespace still needs stay. Pages that no
// policy of the namespace has written are neither counted nor deleted.
func (s *store) trim(ctx context.Context, current string, now time.Time) error {
	policies, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	type sized struct {
		listedPage
		created time.Time
		bytes   int64
		of      types.UID
		run     string
		matched bool
	}
	var pages []sized
	total := int64(0)
	err = s.eachPage(ctx, "", func(object *unstructured.Unstructured) error {
		neighbour, known := policies[types.UID(object.GetLabels()[v1alpha1.LabelCleanupPolicyUID])]
		if !known {
			return nil
		}
		page := verifiedPage(object, neighbour.PolicyReference, now)
		if page == nil {
			return nil
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("report %s: %w", object.GetName(), err)
		}
		total += int64(len(text))
		created := object.GetCreationTimestamp().Time
		pages = append(pages, sized{listedPageOf(object), created, int64(len(text)), neighbour.UID, page.Run, len(page.Matched) > 0})
		return nil
	})
	if err != nil {
		return fmt.Errorf("listing the reports of namespace %s: %w", s.policy.Namespace, err)
	}
	if total <= s.reportBytes {
		return nil
	}
	// A run that began meanwhile needs its pages: it was in no status before.
	if policies, err = s.neighbours(ctx); err != nil {
		return err
	}
	slices.SortFunc(pages, func(a, b sized) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) })
	var old []listedPage
	for _, page := range pages {
		neighbour, known := policies[page.of]
		needed := !known || page.of == s.policy.UID && page.run == current || neighbour.needs(page.run, page.matched)
		if total > s.reportBytes && !needed {
			total -= page.bytes
			old = append(old, page.listedPage)
		}
	}
	return s.deletePages(ctx, old)
}

// neighbour is a policy with the status that says which of its pages it needs. A forged status at
// worst costs pages of its own policy, or keeps them.
type neighbour struct {
	v1alpha1.PolicyReference
	status v1alpha1.CleanupPolicyStatus
}

// needs reports whether a run that has not ended may read a page, or the next one the matches on
// it.
func (n *neighbour) needs(id string, matched bool) bool {
	run := n.status.LastRun
	if matched && n.status.Matches != nil && n.status.Matches.Run == id {
		return true
	}
	return run != nil && run.ID == id && (run.Phase == v1alpha1.RunRunning || !matched && len(n.status.UncountedDeletions) > 0)
}

// neighbours are the policies of the namespace, by UID.
func (s *store) neighbours(ctx context.Context) (map[types.UID]*neighbour, error) {
	out := map[types.UID]*neighbour{}
	policies := v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)
	err := s.client.Each(ctx, policies, s.policy.Namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
		if status, err := statusOf(object); err == nil {
			out[object.GetUID()] = &neighbour{v1alpha1.PolicyReference{Name: object.GetName(), UID: object.GetUID()}, status}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the policies of namespace %s: %w", s.policy.Namespace, err)
	}
	return out, nil
}
