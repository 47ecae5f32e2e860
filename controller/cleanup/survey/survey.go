package survey

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

type lister interface {
	// List returns one page, and where the next one begins. Unless whole, an object may have only its
	// metadata.
	List(ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions) (page []unstructured.Unstructured, next string, err error)
}

// Reader reads objects with the rights of a policy's account.
type Reader interface {
	lister
	// Get reads one object.
	Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, whole bool) (*unstructured.Unstructured, error)
	// Lacks returns the first of the verbs that the account may not use, or "". The namespace "" means
	// all of them.
	Lacks(ctx context.Context, resource schema.GroupVersionResource, namespace string, verbs ...string) (string, error)
}

// Options are what a survey works with.
type Options struct {
	// Account is how messages name the policy's account.
	Account string
	// Served are the resources that can be listed and deleted. The error may be
	// [cleanup.SilentGroups].
	Served func(context.Context) ([]cleanup.Resource, error)
	// Source is the platform that decides about objects of a list.
	Source platform.Source
	// Namespaces are all that are known, or an error until they are.
	Namespaces func() ([]*resolution.NamespacePolicy, error)
	// Protect are the namespaces in which nothing is deleted.
	Protect []string
	// Matched returns in how many runs in a row objects have matched before, for consecutiveRuns; nil
	// for a first run.
	Matched func(context.Context) (cleanup.Matched, error)
	// MaxLacks is after how many missing permissions Open stops; 0 means never.
	MaxLacks int
	// Only limits the survey to a part of what the policy matches.
	Only Only
	// Now is the time of the whole survey.
	Now time.Time
	// Clock measures how long pages take, which become shorter if that is long, and how old the
	// lookups of live judgements are. With nil neither matters, and no live judgements share lookups.
	Clock clock.PassiveClock
	// Yield is called before each question about permissions, between two pages, when none is held,
	// and before each object of a page. It may wait; nil means that no other survey takes turns.
	Yield func(ctx context.Context, inPage bool) error
	// Paged is called after each page, when none is held. It may wait; nil if there is nothing to do.
	Paged func(ctx context.Context) error
	// Wait waits before a list that failed is tried again, with no page held; nil if it is not.
	Wait func(ctx context.Context, d time.Duration) error
}

// Only is a part of what a policy matches. The limits of a policy do not apply to a part.
type Only struct {
	// Namespace, without cluster-scoped objects; empty means all.
	Namespace string
	// Resource reports whether a resource is surveyed; nil means all.
	Resource func(schema.GroupResource) bool
}

// Survey is one pass or two over everything that a policy may match.
type Survey struct {
	// Matched are the objects to delete, as far as the limits allow; Listed are all that were judged.
	Matched, Listed int64
	// Skipped are objects that match and are kept, by reason.
	Skipped map[string]*v1alpha1.SkipCount
	// Newest are the objects that keepNewest keeps; nil without it.
	Newest *cleanup.Newest
	// Matches are how often objects have matched; nil without consecutiveRuns, and until all are
	// counted.
	Matches *cleanup.Matches
	// Left is how many objects may still be deleted; negative means any number.
	Left int64

	policy  *cleanup.Policy
	reader  Reader
	options Options
	at      []Place
	// silent are the API groups that discovery did not show when the run began.
	silent  cleanup.SilentGroups
	lookups *lookups
	// live are the lookups of live judgements. mu guards them.
	live *lookups
	mu   sync.Mutex
	// spent is how long the objects of the current page took.
	spent time.Duration
}

// New makes a survey. Open it first.
func New(policy *cleanup.Policy, reader Reader, options Options) *Survey {
	return &Survey{policy: policy, reader: reader, options: options, Left: -1, Skipped: map[string]*v1alpha1.SkipCount{}}
}

// decide decides about one object of a list.
func (s *Survey) decide(ctx context.Context, at *cleanup.Target, object *unstructured.Unstructured) (cleanup.Decision, error) {
	if err := s.yield(ctx, true); err != nil {
		return cleanup.Decision{}, err
	}
	if s.options.Clock != nil {
		began := s.options.Clock.Now()
		defer func() { s.spent += s.options.Clock.Since(began) }()
	}
	in, err := s.surroundings(ctx, object, s.options.Source)
	if err != nil {
		return cleanup.Decision{}, err
	}
	return s.judge(ctx, at, object, in)
}

func (s *Survey) yield(ctx context.Context, inPage bool) error {
	if s.options.Yield == nil {
		return nil
	}
	return s.options.Yield(ctx, inPage)
}

// objectCost bounds the cost of all expressions for one object, and pageCost the cost for all
// objects of a page. An object is kept if they cannot decide within it. Tests make them smaller.
var objectCost, pageCost int64 = expression.CostLimit, 50 * expression.CostLimit

// judge decides about one object, as a list or a live read shows it.
func (s *Survey) judge(ctx context.Context, at *cleanup.Target, object *unstructured.Unstructured, in *surroundings) (cleanup.Decision, error) {
	ctx = expression.Limited(ctx, objectCost, "the expressions cost more than they may for one object")
	facts := policy.FactsOfObjectContext(ctx, in.snapshot.Profiles.For(at.GroupVersionKind()), object.Object)
	var lost error // why nothing may be evaluated any more
	judged := &cleanup.Object{
		Facts: facts, Resource: at.GroupResource(), JSON: object.Object, Now: s.options.Now,
		System:    judging.Protects(s.options.Protect, facts.Namespace),
		Namespace: in.namespace,
		Lookup: func(name string) (answer bool, err error) {
			if in.away == nil {
				return in.lookups.answer(ctx, name, facts, object.Object)
			}
			if lost == nil {
				lost = in.away(ctx, func() error {
					answer, err = in.lookups.answer(ctx, name, facts, object.Object)
					return nil
				})
			}
			return answer && lost == nil, cmp.Or(lost, err)
		},
	}
	if facts.IsNamespace() {
		// Deleting a Namespace deletes all that is in it.
		judged.System = judging.Protects(s.options.Protect, facts.Name)
		judged.Namespace = resolution.ParseNamespace(facts.Name, facts.Annotations, facts.Labels)
	}
	decision := s.policy.Judge(ctx, judged)
	if decision.Verdict == cleanup.Delete && facts.UID == "" {
		decision = cleanup.Decision{Verdict: cleanup.Skip, Reason: cleanup.SkipNoUID, Message: "has no UID, without which it cannot be told from another object"}
	}
	return decision, cmp.Or(lost, ctx.Err())
}

// snapshot is what a source knows of kinds. It is an error until all KindProfiles are known: one of
// them may say what mounts a volume, or why an object is kept.
func (s *Survey) snapshot(ctx context.Context, source platform.Source) (*platform.Snapshot, error) {
	snapshot, err := source.Snapshot(ctx)
	if err == nil {
		err = snapshot.Incomplete()
	}
	return snapshot, err
}

// Get reads one object live, as much of it as the policy needs.
func (s *Survey) Get(ctx context.Context, at *cleanup.Target, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := s.reader.Get(ctx, at.GroupVersionResource, namespace, name, s.policy.NeedsObject())
	if err == nil {
		object.SetGroupVersionKind(at.GroupVersionKind())
	}
	return object, err
}

func (s *Survey) skip(decision cleanup.Decision, object *unstructured.Unstructured) {
	count := s.Skipped[decision.Reason]
	if count == nil {
		text := fmt.Sprintf("%s %s/%s: %s", object.GetKind(), object.GetNamespace(), object.GetName(), decision.Message)
		count = &v1alpha1.SkipCount{Reason: decision.Reason, Message: quote.ShortenTo(text, 512)}
		s.Skipped[decision.Reason] = count
	}
	count.Count++
}
