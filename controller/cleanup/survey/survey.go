package survey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

type lister interface {
	// List returns one page, and where the next one begins. Unless whole, an object may have only its
	// metadata.
	List(
		ctx context.Context, resource schema.GroupVersionResource, namespace string, whole bool, options metav1.ListOptions,
	) (page []unstructured.Unstructured, next string, err error)
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
	// Discover is Served without a shared answer, for a run that looks for references: an object of a
	// kind that was installed a moment ago may use what matches. Nil means Served.
	Discover func(context.Context) ([]cleanup.Resource, error)
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
	// Namespace, or several with commas between them, without cluster-scoped objects; empty means all.
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

// ErrForbidden: the account of the policy lacks a permission without which nothing can be judged.
var ErrForbidden = errors.New("the service account lacks a permission")

// Place is a resource and where it is listed.
type Place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
	// only are the namespaces that count if the whole cluster is listed for them; nil means all.
	only map[string]bool
	// broken is why the resource cannot be listed. It is passed over then.
	broken error
}

// maxNamespaces is the largest number of namespaces that are listed one by one. For more of them
// the survey lists the whole cluster and skips all other objects.
const maxNamespaces = 50

// verbs are what a policy needs on the resources that it matches.
var verbs = []string{"list", "get", "delete"}

// Open finds what to list, and returns the permissions that the account lacks for the rest.
func (s *Survey) Open(ctx context.Context) (lacks []string, err error) {
	discover := s.options.Served
	if s.options.Discover != nil && s.policy.ReadsCluster() != "" {
		discover = s.options.Discover
	}
	served, partial := discover(ctx)
	if partial != nil && !errors.As(partial, &s.silent) {
		return nil, fmt.Errorf("resources that are served: %w", partial)
	}
	snapshot, err := s.snapshot(ctx, s.options.Source)
	if err != nil {
		return nil, err
	}
	s.lookups = s.newLookups(snapshot, served, partial, nil)
	known, err := s.options.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := s.policy.Namespaces(known)
	if err := s.mayReadNamespaces(ctx); err != nil {
		return nil, err
	}
	only := s.options.Only
	if only.Namespace != "" && all {
		names, all = strings.Split(only.Namespace, ","), false
	}
	for _, target := range s.policy.Targets(served) {
		if only.Resource != nil && !only.Resource(target.GroupResource()) {
			continue
		}
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
			break
		}
		if !target.Namespaced && !all {
			continue // A namespaceSelector with a requirement matches none of them.
		}
		place, missing, err := s.place(ctx, target, names, all)
		if err != nil {
			return nil, err
		}
		lacks = append(lacks, missing...)
		if len(place.namespaces) > 0 {
			s.at = append(s.at, place)
		}
	}
	return lacks, nil
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

// Nowhere reports whether the account may not act anywhere that the policy matches.
func (s *Survey) Nowhere() bool { return len(s.at) == 0 }

// place finds where a resource is listed, and what the account lacks elsewhere.
func (s *Survey) place(ctx context.Context, target cleanup.Target, names []string, all bool) (out Place, lacks []string, err error) {
	out.Target = target
	wide := all || !target.Namespaced
	if !wide && len(names) > 1 { // One question, and one list of the cluster for many namespaces.
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, metav1.NamespaceAll, verbs...)
		switch {
		case err != nil:
			return out, nil, err
		case missing == "" && len(names) <= maxNamespaces:
			out.namespaces = names
			return out, nil, nil
		case missing == "":
			wide, out.only = true, setOf(names)
		}
	}
	if wide {
		names = []string{metav1.NamespaceAll}
	}
	for _, namespace := range names {
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
			break
		}
		if err := s.yield(ctx, false); err != nil {
			return out, nil, err
		}
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, namespace, verbs...)
		if err != nil {
			return out, nil, err
		}
		if missing != "" {
			lacks = append(lacks, need(missing, target.GroupResource(), namespace))
			continue
		}
		out.namespaces = append(out.namespaces, namespace)
	}
	return out, lacks, nil
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// mayReadNamespaces returns an error if an expression reads namespaces and the account may not:
// what it returns, and why it fails, would reveal them (S10).
func (s *Survey) mayReadNamespaces(ctx context.Context) error {
	if !s.policy.Expressions.ReadsNamespace {
		return nil
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	missing, err := s.reader.Lacks(ctx, resource, s.policy.Namespace, "get")
	if err == nil && missing != "" {
		lacks := need(missing, resource.GroupResource(), s.policy.Namespace)
		err = fmt.Errorf("the policy reads namespaceObject, and service account %s may not %s: %w", s.options.Account, lacks, ErrForbidden)
	}
	return err
}

// need is a permission as messages write it.
func need(verb string, resource schema.GroupResource, namespace string) string {
	if namespace == "" {
		return verb + " " + resource.String()
	}
	return fmt.Sprintf("%s %s in namespace %q", verb, resource, namespace)
}

// Unlisted are the kinds that were passed over because they could not be listed, with the reason,
// and the API groups that the policy may match and discovery did not show.
func (s *Survey) Unlisted() (out []string) {
	for i := range s.at {
		if err := s.at[i].broken; err != nil {
			out = append(out, fmt.Sprintf("%s: %v", s.at[i].GroupResource(), err))
		}
	}
	for _, group := range s.silent {
		if s.policy.Names(group) {
			out = append(out, fmt.Sprintf("API group %s: no answer", group))
		}
	}
	return out
}

// Get reads one object live, as much of it as the policy needs.
func (s *Survey) Get(ctx context.Context, target *cleanup.Target, namespace, name string) (*unstructured.Unstructured, error) {
	object, err := s.reader.Get(ctx, target.GroupVersionResource, namespace, name, s.policy.NeedsWhole(target.GroupResource()))
	if err == nil {
		object.SetGroupVersionKind(target.GroupVersionKind())
	}
	return object, err
}
