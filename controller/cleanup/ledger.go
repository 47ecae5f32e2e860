package cleanup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/v1alpha1"
)

// errOvertaken: another writer, such as another leader, wrote the status of the policy.
var errOvertaken = errors.New("another client wrote the status of the policy")

// errChanged: the policy was edited or suspended during a run, which then deletes nothing more.
var errChanged = errors.New("the policy was changed or suspended")

// errGone: the policy was deleted, or created again under its name.
var errGone = errors.New("the policy is gone")

var errForbidden = survey.ErrForbidden

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || errors.Is(err, errForbidden) }

const (
	// maxBatch is how many objects a report page lists.
	maxBatch = 250
	// inFlight is how many batches are deleted at once. The UIDs of all are in the status: 500 of
	// them take less than 20 kB.
	inFlight = 2
	// maxKinds bounds the status.
	maxKinds = 256
)

// batchSize is how many objects are deleted together, and detailedPages how many pages of a run
// keep their objects once they are counted. Tests make them smaller.
var batchSize, detailedPages = maxBatch, int32(10_000 / maxBatch)

// storage is where a ledger keeps a policy's status and report pages.
type storage interface {
	// current is the status as it was last read or written.
	current() *v1alpha1.CleanupPolicyStatus
	writeStatus(ctx context.Context, status *v1alpha1.CleanupPolicyStatus) error
	// owned is errOvertaken if another writer has written the status.
	owned(ctx context.Context) error
	// writePage creates a page that has no version, and replaces that version of a page otherwise.
	// The page has the new version then.
	writePage(ctx context.Context, page *page) error
	// readPage reads a page, and its version. fields are nil if it is of another policy, or if there
	// is none: then it has no version either.
	readPage(ctx context.Context, name string) (fields *v1alpha1.CleanupReportFields, version string, err error)
	// counted is how many objects the pages of a run say that it has deleted, the number of its last
	// page with outcomes, and which of the objects on its pages are deleted.
	counted(ctx context.Context, run string) (deleted int64, last int32, gone map[types.UID]bool, err error)
	// prune deletes the pages of old runs, and none of the current one.
	prune(ctx context.Context, current string, now time.Time) error
	// confirm is an error if the policy is not what the run applies any more, as the API server knows
	// it.
	confirm(ctx context.Context) error
}

// ledger keeps the counts of a run. All changes of the status go through it, one at a time.
type ledger struct {
	store storage
	mu    sync.Mutex
}

// change writes a changed status, or leaves everything as it was.
func (l *ledger) change(ctx context.Context, edit func(*v1alpha1.CleanupPolicyStatus)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.store.current().DeepCopy()
	edit(next)
	return l.store.writeStatus(ctx, next)
}

// status is a copy of the status as it was last written.
func (l *ledger) status() *v1alpha1.CleanupPolicyStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.current().DeepCopy()
}

// begin records that a run has started. Every deletion that an earlier run left uncounted is
// counted by now, unless another writer removed that run from the status. Then its count is lost,
// and inexact says so.
func (l *ledger) begin(ctx context.Context, run *v1alpha1.CleanupRun, inexact func(*v1alpha1.CleanupPolicyStatus)) error {
	return l.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		for _, page := range s.UncountedDeletions {
			run.Lost += int64(len(page.UIDs))
		}
		s.UncountedDeletions = nil
		s.LastRun, s.LastScheduleTime = run, &run.ScheduledTime
		s.Runs = append(slices.DeleteFunc(s.Runs, func(id string) bool { return id == run.ID }), run.ID)
		s.Runs = s.Runs[max(0, len(s.Runs)-v1alpha1.KeptRuns):]
		for _, kind := range []string{v1alpha1.ConditionCountsExact, v1alpha1.ConditionPermissionsGranted} {
			meta.RemoveStatusCondition((*[]metav1.Condition)(&s.Conditions), kind)
		}
		if run.Lost > 0 {
			inexact(s)
		}
	})
}

// announce creates a page, and then writes the UIDs on it into the status. Before that nothing on
// the page may be deleted. It replaces no page: another process may lead now, and announce that.
func (l *ledger) announce(ctx context.Context, page *page) error {
	if err := l.store.writePage(ctx, page); err != nil {
		return err
	}
	uids := make([]types.UID, 0, len(page.fields.Objects))
	for i := range page.fields.Objects {
		uids = append(uids, page.fields.Objects[i].UID)
	}
	return l.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		uncounted := v1alpha1.UncountedPage{Report: page.name, UIDs: uids, SHA256: sumItems(page.fields.Objects)}
		s.UncountedDeletions = append(s.UncountedDeletions, uncounted)
		s.LastRun.Pages = max(s.LastRun.Pages, page.fields.Page)
	})
}

// count writes the outcomes on the page, and then moves its UIDs into the counters. If some
// outcomes are not known, inexact says so in the same write. Last, a page beyond detailedPages
// loses its objects and keeps only their numbers. Not before: after a crash, the objects show what
// was deleted.
func (l *ledger) count(ctx context.Context, page *page, inexact func(s *v1alpha1.CleanupPolicyStatus, unknown int64)) error {
	unknown := page.unknown()
	deleted := page.tally()
	if err := l.rewrite(ctx, page); err != nil {
		return err
	}
	err := l.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) {
		s.UncountedDeletions = without(s.UncountedDeletions, page.name)
		s.Deleted = plus(s.Deleted, page.fields.Deleted)
		if s.LastRun != nil {
			s.LastRun.Deleted = plus(s.LastRun.Deleted, page.fields.Deleted)
		}
		for kind, count := range deleted {
			addKind(s, kind, count)
		}
		if unknown > 0 {
			inexact(s, unknown)
		}
	})
	if err != nil || page.fields.Page <= detailedPages || unknown > 0 { // A summary does not include them.
		return err
	}
	page.summarise()
	return l.rewrite(ctx, page)
}

// maxRewrites is how often a page may change while it is written.
const maxRewrites = 5

// rewrite replaces an announced page. A user may have changed or deleted it. If that was another
// leader, which has written the status as well, it is errOvertaken.
func (l *ledger) rewrite(ctx context.Context, page *page) error {
	for tries := 1; ; tries++ {
		err := l.store.writePage(ctx, page)
		missing := page.version != "" && apierrors.IsNotFound(err)
		if tries == maxRewrites || !missing && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := l.reread(ctx, page); err != nil {
			return err
		}
	}
}

// reread learns the version of a page, and whether this process still decides about it. It asks for
// that last: a leader that takes over later changes the version when it counts the page.
func (l *ledger) reread(ctx context.Context, page *page) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, version, err := l.store.readPage(ctx, page.name)
	if err != nil {
		return err
	}
	page.version = version
	return l.store.owned(ctx)
}

// replace writes a page that counts nothing: of a dry run, or with matches. It replaces no page
// that counts.
func (l *ledger) replace(ctx context.Context, page *page) error {
	err := l.store.writePage(ctx, page)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	fields, version, reading := l.store.readPage(ctx, page.name)
	switch {
	case reading != nil:
		return reading
	case page.fields.DryRun && fields != nil && !fields.DryRun:
		return err
	}
	page.version = version
	return l.store.writePage(ctx, page)
}

// without is all pages but one.
func without(pages []v1alpha1.UncountedPage, report string) []v1alpha1.UncountedPage {
	return slices.DeleteFunc(pages, func(u v1alpha1.UncountedPage) bool { return u.Report == report })
}

// plus adds to a counter of a status. A forged one must not overflow, as the API server would then
// refuse each status.
func plus(counter, more int64) int64 { return min(max(0, counter), maxCounted) + more }

// prune deletes the pages of all but the last runs.
func (l *ledger) prune(ctx context.Context, current string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.prune(ctx, current, now)
}

// addKind adds to the counter of a kind. Beyond maxKinds only the sum counts.
func addKind(s *v1alpha1.CleanupPolicyStatus, kind metav1.GroupKind, count int64) {
	i := slices.IndexFunc(s.DeletedByKind, func(c v1alpha1.KindCount) bool { return c.Group == kind.Group && c.Kind == kind.Kind })
	switch {
	case i >= 0:
		s.DeletedByKind[i].Count = plus(s.DeletedByKind[i].Count, count)
	case len(s.DeletedByKind) < maxKinds:
		s.DeletedByKind = append(s.DeletedByKind, v1alpha1.KindCount{Group: kind.Group, Kind: kind.Kind, Count: count})
	}
}

// page is a report page.
type page struct {
	name   string
	fields v1alpha1.CleanupReportFields
	// version is the resourceVersion as this process last wrote or read it; "" if it did neither.
	version string
}

func newPage(policy v1alpha1.PolicyReference, run string, number int32, dryRun bool, items []v1alpha1.CleanupItem) *page {
	return &page{
		name:   pageName(policy.Name, run, number),
		fields: v1alpha1.CleanupReportFields{Policy: policy, Run: run, Page: number, DryRun: dryRun, Objects: items},
	}
}

// pageName is at most 253 characters long.
func pageName(policy, run string, number int32) string {
	return fmt.Sprintf("%s-%s-%d", strings.TrimRight(policy[:min(len(policy), 180)], ".-"), run, number)
}

func matchesName(policy, run string, number int32) string {
	return pageName(policy, "matched-"+run, number)
}

// decided reports whether the outcome of an item is known.
func decided(item *v1alpha1.CleanupItem) bool { return item.Result != "" }

// isGone reports whether an item is deleted.
func isGone(item *v1alpha1.CleanupItem) bool {
	return item.Result == v1alpha1.ItemDeleted || item.Result == v1alpha1.ItemGone
}

// tally counts the deleted items, by kind.
func (p *page) tally() map[metav1.GroupKind]int64 {
	out := map[metav1.GroupKind]int64{}
	p.fields.Deleted = 0
	for i := range p.fields.Objects {
		item := &p.fields.Objects[i]
		if isGone(item) {
			out[metav1.GroupKind{Group: item.Group, Kind: item.Kind}]++
			p.fields.Deleted++
		}
	}
	return out
}

// unknown counts the items that may be deleted after they were last seen.
func (p *page) unknown() (count int64) {
	for i := range p.fields.Objects {
		if p.fields.Objects[i].Result == v1alpha1.ItemUnknown {
			count++
		}
	}
	return count
}

// summarise replaces the items by their numbers.
func (p *page) summarise() {
	type key struct{ group, kind, namespace string }
	counts := map[key]int64{}
	for i := range p.fields.Objects {
		item := &p.fields.Objects[i]
		if isGone(item) || item.Result == v1alpha1.ItemWouldDelete {
			counts[key{item.Group, item.Kind, item.Namespace}]++
		}
	}
	p.fields.Objects, p.fields.Summary, p.fields.Truncated = nil, nil, true
	for k, count := range counts {
		p.fields.Summary = append(p.fields.Summary, v1alpha1.SummaryCount{Group: k.group, Kind: k.kind, Namespace: k.namespace, Count: count})
	}
	slices.SortFunc(p.fields.Summary, func(a, b v1alpha1.SummaryCount) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace))
	})
}

// sumItems is the checksum of what identifies the objects of a page. Whatever a run finds out about
// them does not change it.
func sumItems(items []v1alpha1.CleanupItem) string {
	sum := sha256.New()
	for i := range items {
		item := &items[i]
		_, _ = fmt.Fprintf(sum, "%q %q %q %q %q %q\n", item.UID, item.Group, item.Kind, item.Resource, item.Namespace, item.Name)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// runID is unique to a policy and a scheduled time.
func runID(due time.Time, policy types.UID) string {
	return fmt.Sprintf("%s-%.8s", due.UTC().Format(runIDTime), policy)
}

// runIDTime begins the id of a run, so that the ids of a policy sort by time.
const runIDTime = "20060102-1504"

func timeOfRun(id string) (time.Time, error) {
	return time.Parse(runIDTime, id[:min(len(id), len(runIDTime))])
}

// maxClockSkew is far above what the engine tolerates.
const maxClockSkew = time.Minute

// maxPages and maxCounted bound what a status says of a run, far above what one can do.
const maxPages, maxCounted = 10_000_000, 1 << 40

func equalStatus(a, b *v1alpha1.CleanupPolicyStatus) bool { return equality.Semantic.DeepEqual(a, b) }
