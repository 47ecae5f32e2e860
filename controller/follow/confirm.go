package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Rules confirms the rules by which objects are judged (S12): Namespaces, LifecyclePolicies and
// KindProfiles. A watch that stays open but silent raises no error, so while something is due each
// kind is listed consistently, and the local copy has to show what the LIST shows. Everything else
// that decides (runtimes, owners, counters, cleanup policies) is read live before each DELETE.
//
// The LIST is of the whole kind, and of metadata where objects are many, because nothing cheaper
// proves that a copy is current, on Kubernetes 1.32 to 1.37. A LIST with limit=1 returns etcd's
// revision, which any write of any kind moves, and a silent watch reaches that revision only with
// a bookmark: about once a minute, and "clients should not assume" even that. A second watch shows
// the progress of the cache that lags. A LIST without resourceVersion is a quorum read on each of
// these versions: from the watch cache, once that has reached etcd's revision (KEP-2340, on by
// default since 1.31), or from etcd. It costs the API server the encoding of the metadata, three
// times in a quarter of a minute of deletions, and nothing while nothing is due.
type Rules struct {
	clock  clock.Clock
	log    logr.Logger
	kinds  []*ruleKind
	behind *prometheus.CounterVec
	wake   func()
	mu     sync.Mutex
}

// ruleKind is one kind of rules.
type ruleKind struct {
	resource string
	// list lists the kind, at most once a second. The answer may be shared.
	list     func(context.Context) (*listing, error)
	versions *versions
	// catchUp begins to bring the copy up to date, and begins its watch again.
	catchUp func(context.Context, *listing)

	wanted    loop.Signal
	confirmed time.Time // when the last LIST was sent whose state the copy has. Rules.mu guards it
	failed    bool      // the last LIST failed
}

const (
	// renewAfter is the age from which a confirmation is renewed while something is due. It is so
	// much less than the bound of S12 that a slow LIST holds nothing.
	renewAfter = 5 * time.Second
	// confirmEvery bounds the LISTs of a kind, and confirmFor the time of one, with all that follows.
	// After a failure it is retryFor: one request that hangs holds nothing, and a slow API server has
	// time to answer.
	confirmEvery = time.Second
	confirmFor   = 4 * time.Second
	retryFor     = 12 * time.Second
	// catchUpFor is how long a watch may take to show what the LIST showed, before it counts as
	// silent. Objects that change just before the LIST are no fault of the watch.
	catchUpFor  = time.Second
	lookAtEvery = 50 * time.Millisecond
)

// NewRules makes a confirmer that reads nothing until something is wanted.
func NewRules(
	platform *Platform, namespaces *Namespaces, clock clock.Clock, log logr.Logger, registerer prometheus.Registerer,
) *Rules {
	r := &Rules{clock: clock, log: log.WithName("rules"), behind: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "curfew_silent_watches_total",
		Help: "How often a consistent LIST showed rules that an open watch had not reported. They are read again, and the watch is restarted.",
	}, []string{"resource"})}
	own := func(resource string, copied *versions, restart func(), listingOf func(*rules) *listing) *ruleKind {
		resource += "." + v1alpha1.GroupVersion.Group
		return &ruleKind{resource: resource, versions: copied, catchUp: func(context.Context, *listing) { restart() },
			list: func(ctx context.Context) (*listing, error) {
				read, err := platform.live.get(ctx) // Shared with live judgements.
				if err != nil {
					return nil, err
				}
				return listingOf(read), nil
			}}
	}
	policies, profiles := platform.Policies.mirror, platform.Profiles.mirror
	r.kinds = []*ruleKind{
		{resource: "namespaces", list: namespaces.list, versions: &namespaces.versions, catchUp: namespaces.catchUp},
		own(v1alpha1.LifecyclePolicies, &policies.versions, policies.Again, func(read *rules) *listing { return read.policies }),
		own(v1alpha1.KindProfiles, &profiles.versions, profiles.Again, func(read *rules) *listing { return read.profiles }),
	}
	for _, k := range r.kinds {
		k.wanted = loop.NewSignal()
		r.behind.WithLabelValues(k.resource)
	}
	return r
}

// OnAnswer sets the function that is called after each LIST. Call it before Run.
func (r *Rules) OnAnswer(wake func()) { r.wake = wake }

// Want has the rules confirmed that were not confirmed lately: something is due.
func (r *Rules) Want() {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kinds {
		if age := deletion.Age(now, k.confirmed); age < 0 || age >= renewAfter {
			k.wanted.Set()
		}
	}
}

// Confirmed returns when the LISTs were sent that confirmed the rules, or the first of them. All
// changes until then were reported before.
func (r *Rules) Confirmed() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.kinds[0].confirmed
	for _, k := range r.kinds[1:] {
		if k.confirmed.Before(t) {
			t = k.confirmed
		}
	}
	return t
}

// Run confirms rules at each Want until ctx is done. Nil rules need not be confirmed.
func (r *Rules) Run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, k := range r.kinds {
		all.Go(func() {
			for k.wanted.Wait(ctx, r.clock, 0) {
				began := r.clock.Now()
				r.report(ctx, k, r.confirm(ctx, k))
				if rest := confirmEvery - r.clock.Since(began); rest > 0 {
					loop.Pause(ctx, r.clock, rest)
				}
				k.wanted.Clear() // A caller that still waits asks again.
			}
		})
	}
	return nil
}

// confirm lists a kind, and waits until the copy shows what the LIST shows.
func (r *Rules) confirm(ctx context.Context, k *ruleKind) error {
	limit := confirmFor
	if k.failed {
		limit = retryFor
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	read, err := k.list(ctx)
	if err != nil {
		return err
	}
	late := r.clock.Now().Add(catchUpFor)
	caughtUp := false
	for key := k.versions.lacks(read); key != ""; key = k.versions.lacks(read) {
		if !caughtUp && !r.clock.Now().Before(late) {
			caughtUp = true
			r.behind.WithLabelValues(k.resource).Inc()
			r.log.Info("an open watch is silent about a change of rules: they are read again, and the watch begins again",
				"resource", k.resource, "object", key)
			k.catchUp(ctx, read)
			continue
		}
		if !loop.Pause(ctx, r.clock, lookAtEvery) {
			return fmt.Errorf("the local copy does not show %s %s as the API server does: %w", k.resource, key, ctx.Err())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k.confirmed = read.sent
	return nil
}

// report logs when LISTs begin to fail and when they succeed again, and wakes up what waits.
func (r *Rules) report(ctx context.Context, k *ruleKind, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !k.failed:
		r.log.Info("rules cannot be confirmed: deletions and stops wait from 15 s after the last confirmation",
			"resource", k.resource, "reason", err.Error())
	case err == nil && k.failed:
		r.log.Info("rules are confirmed again", "resource", k.resource)
	}
	k.failed = err != nil
	if r.wake != nil {
		r.wake()
	}
}

// list lists the metadata of all namespaces, consistently.
func (n *Namespaces) list(ctx context.Context) (*listing, error) {
	read := &listing{sent: n.clock.Now(), have: map[string]uint64{}, before: n.versions.latest()}
	list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		return page, n.reader.List(ctx, page, &client.ListOptions{Limit: options.Limit, Continue: options.Continue})
	}
	var err error
	read.at, err = watch.Each(ctx, metav1.ListOptions{}, list, func(page *metav1.PartialObjectMetadataList) error {
		n.mu.RLock()
		defer n.mu.RUnlock()
		for i := range page.Items {
			meta := &page.Items[i]
			read.have[meta.Name] = versionOf(meta.ResourceVersion)
			if old := n.metas[meta.Name]; old == nil || old.ResourceVersion != meta.ResourceVersion {
				read.changed = append(read.changed, meta)
			}
		}
		return nil
	})
	if err == nil {
		n.settle(read)
	}
	return read, err
}

// settle forgets the namespaces that a LIST lacks and that the watch has never shown: they were
// deleted before it began again.
func (n *Namespaces) settle(read *listing) {
	var gone []*metav1.PartialObjectMetadata
	n.mu.Lock()
	for name := range n.unshown {
		meta := n.metas[name]
		if _, listed := read.have[name]; meta == nil || listed || read.wentBack() {
			continue
		}
		meta = meta.DeepCopy()
		meta.ResourceVersion = read.at
		gone = append(gone, meta)
		delete(n.unshown, name)
	}
	n.mu.Unlock()
	for _, meta := range gone {
		n.forget(meta)
	}
}

// catchUp takes over what a LIST showed and the watch did not, and begins the watch again.
func (n *Namespaces) catchUp(ctx context.Context, read *listing) {
	for _, meta := range n.raise(read) {
		n.forget(meta)
	}
	for _, meta := range read.changed {
		_, _ = StripNamespace(meta) // It never fails.
		n.observe(meta)
	}
	if n.cache == nil {
		return
	}
	n.mu.Lock()
	n.unshown = map[string]bool{}
	for name := range n.metas {
		n.unshown[name] = true
	}
	n.mu.Unlock()
	err := n.cache.RemoveInformer(ctx, NamespaceMeta())
	if _, errWatch := n.watch(ctx); errors.Join(err, errWatch) != nil {
		n.log.Error(errors.Join(err, errWatch), "the watch of namespaces could not begin again")
	}
}

// raise notes the resourceVersions that a LIST showed: a watch that begins again may show older
// states. It returns the namespaces that were deleted before the LIST.
func (n *Namespaces) raise(read *listing) (gone []*metav1.PartialObjectMetadata) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if read.wentBack() {
		n.versions.goBack(read)
	}
	if n.floor == nil || read.wentBack() {
		n.floor = map[string]uint64{}
	}
	maps.Copy(n.floor, read.have)
	for name, meta := range n.metas {
		_, listed := read.have[name]
		switch mine, version := versionOf(meta.ResourceVersion), versionOf(read.at); {
		case mine > version && !read.wentBack(): // The watch is ahead of the LIST.
			n.floor[name] = mine
		case !listed:
			n.floor[name] = version
			deleted := meta.DeepCopy()
			deleted.ResourceVersion = read.at
			gone = append(gone, deleted)
		}
	}
	return gone
}

// goBack forgets resourceVersions that are newer than the LIST.
func (v *versions) goBack(read *listing) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = versionOf(read.at)
}
