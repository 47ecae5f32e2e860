package stop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of a [Stopper].
type Options struct {
	// Objects and Metadata are clients of the API server. Required.
	Objects  dynamic.Interface
	Metadata metadata.Interface
	Clock    clock.PassiveClock
	// ServerTime is the API server's time, by which an object is marked: its TTL counts from there. An error means that it is not known.
	// Nil means Clock.
	ServerTime func(context.Context) (time.Time, error)
	Log        logr.Logger
	// Registerer gets the metrics; nil means none.
	Registerer prometheus.Registerer
	// Marked is told of each object that Curfew failed, for an Event on it. It must not block.
	Marked func(Mark)
	// Profile is the profile of the kind of a child, nil where it has none; it tells whether a child has finished. Without the function
	// conditions tell.
	Profile func(kind schema.GroupKind) (*policy.Profile, error)
	// Reserve takes one deletion from the budget of --max-deletions-per-minute, if there is room, and
	// answers with a function that reports whether it happened. Nil means that there is no bound.
	Reserve func() (settle func(happened bool), ok bool)
	// Settle is how long after the mark an object is looked at again; 0 means [DefaultSettle].
	Settle time.Duration
}

// DefaultSettle is how long after the mark an object is looked at again: by then a reconcile that had begun before the mark has
// ended, and whatever it re-created or overwrote was seen.
const DefaultSettle = time.Minute

const (
	// lookLeast and lookMost bound how long it is until an object that was failed is looked at again.
	lookLeast = time.Second
	lookMost  = 20 * time.Second
	// leftMost bounds it for an object that is left alone: its own controller may be away for long.
	leftMost = 5 * time.Minute
	// pendingMost bounds it while a step does not hold yet.
	pendingMost = 5 * time.Second
	// sightingsMost bounds how many states are remembered. What falls out is read and judged afresh.
	sightingsMost = 1 << 16
)

// Plan is how objects of one kind are stopped.
type Plan struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Steps of the profile, for the installed version of the kind.
	Steps []v1alpha1.StopStep
	// Suspend is the field that suspends an object, and SuspendValue what it then holds; nil where the kind has none.
	Suspend      policy.FieldPath
	SuspendValue any
}

// Mark is one object that Curfew failed.
type Mark struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	Message         string
}

// Stopper fails and stops objects that are past their deadline. It implements [engine.Deleter].
type Stopper struct {
	options  Options
	log      logr.Logger
	pods     *podIndex
	marks    *prometheus.CounterVec
	lateness prometheus.Histogram

	mu        sync.Mutex
	plans     map[schema.GroupVersionResource]*Plan
	sightings *lru.Cache // types.UID → *Sighting
}

// New makes a Stopper without plans.
func New(options Options) (*Stopper, error) {
	options.Settle = cmp.Or(options.Settle, DefaultSettle)
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.ServerTime == nil {
		options.ServerTime = func(context.Context) (time.Time, error) { return options.Clock.Now(), nil }
	}
	s := &Stopper{
		options: options, log: options.Log.WithName("deadline"), pods: newPodIndex(options.Metadata, options.Clock),
		plans: map[schema.GroupVersionResource]*Plan{}, sightings: lru.New(sightingsMost),
		marks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_deadlines_exceeded_total",
			Help: "Objects that Curfew failed because they were active beyond their deadline, by kind.",
		}, []string{"kind"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "curfew_deadline_lateness_seconds",
			Help:    "Time from the instant at which Curfew was to fail an object to the mark being accepted.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600},
		}),
	}
	if options.Registerer != nil {
		for _, c := range []prometheus.Collector{s.marks, s.lateness} {
			if err := options.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("registering metrics of deadlines: %w", err)
			}
		}
	}
	return s, nil
}

// Learn says how a kind is stopped from now on.
func (s *Stopper) Learn(plan Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plans[plan.Resource] = &plan
}

// Sighting is what a feed saw of an object when it judged it: what it takes to write the mark into just that state with one request.
type Sighting struct {
	UID             types.UID
	ResourceVersion string
	// Object in its JSON form, of which only what the mark needs is kept.
	Object map[string]any
	// Deadline, Started and Source of it, for the message; zero where the object is finished.
	Deadline time.Duration
	Started  time.Time
	Source   string
	// Exceeded is when it was failed for its deadline; zero where it was not.
	Exceeded time.Time
	// Created is when the object was created: no Pod of its own is older.
	Created time.Time

	conditions conditions
	// left and doubted mean that the log says already, of this state, that the object is left alone, and that Pods of it may run on.
	left, doubted bool
}

// Seen remembers a state. The engine asks for the latest that was judged.
func (s *Stopper) Seen(sighting Sighting) {
	sighting.conditions = conditionsOf(sighting.Object)
	sighting.Object = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.sightings.Get(sighting.UID); ok {
		before := before.(*Sighting)
		if before.ResourceVersion == sighting.ResourceVersion {
			sighting.left, sighting.doubted = before.left, before.doubted
		}
	}
	s.sightings.Add(sighting.UID, &sighting)
}

func (s *Stopper) know(r *engine.Request) (*Plan, *Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, _ := s.sightings.Get(r.UID)
	sighting, _ := seen.(*Sighting)
	if sighting != nil && sighting.ResourceVersion != r.ResourceVersion {
		sighting = nil
	}
	return s.plans[r.Kind.Resource], sighting
}

// forget makes the engine read and judge the object afresh.
func (s *Stopper) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sightings.Remove(uid)
}

// Delete implements [engine.Deleter]: it stops the object, which it never deletes. A conflict means that the state that was judged
// is not, or no longer, that of the object; the engine then judges afresh.
func (s *Stopper) Delete(ctx context.Context, r engine.Request) engine.Response {
	plan, seen := s.know(&r)
	if plan == nil {
		return engine.Response{Code: http.StatusInternalServerError, Message: fmt.Sprintf("how %s is stopped is not known", r.Kind.Kind)}
	}
	if seen == nil {
		return engine.Response{Code: http.StatusConflict, Message: "this state was not seen"}
	}
	stop := &stopping{Stopper: s, plan: plan, seen: seen, request: &r}
	pending, err := stop.steps(ctx)
	if err != nil {
		return responseTo(err, &r)
	}
	if stop.left {
		s.leave(stop)
		return engine.Response{Code: http.StatusOK, Again: min(max(s.options.Clock.Now().Sub(r.Expiry), lookMost), leftMost)}
	}
	if r.DryRun {
		return engine.Response{Code: http.StatusOK}
	}
	out := s.next(seen, stop.marked, pending)
	out.Took = stop.took
	return out
}

// leave logs, once for each state, that an object is left alone because what it ran has finished.
func (s *Stopper) leave(stop *stopping) {
	s.mu.Lock()
	said := stop.seen.left
	stop.seen.left = true
	s.mu.Unlock()
	if !said {
		s.log.Info("left alone at its deadline: what it ran has finished, and its own controller has yet to say so",
			"kind", stop.plan.Kind.Kind, "object", stop.request.Namespace+"/"+stop.request.Name, "uid", stop.request.UID)
	}
}

// next tells when to look again. While a step does not hold that is soon; afterwards ever more rarely, until the mark has settled.
func (s *Stopper) next(seen *Sighting, justMarked, pending bool) engine.Response {
	since := seen.Exceeded
	if justMarked || since.IsZero() {
		return engine.Response{Code: http.StatusOK, Again: lookLeast}
	}
	age := s.options.Clock.Now().Sub(since)
	switch {
	case pending:
		return engine.Response{Code: http.StatusOK, Again: min(max(age, lookLeast), pendingMost)}
	case age < s.options.Settle:
		return engine.Response{Code: http.StatusOK, Again: min(max(age, lookLeast), lookMost)}
	default:
		return engine.Response{Code: http.StatusOK, Rest: true}
	}
}

// stopping is one attempt at one object.
type stopping struct {
	*Stopper
	plan    *Plan
	seen    *Sighting
	request *engine.Request
	// marked tells that this attempt wrote the mark, and took how long that took.
	marked bool
	took   time.Duration
	// begun means that the first step has succeeded: the object has failed, or is suspended.
	begun bool
	// confirmed means that the object was just as it was judged when this attempt wrote to it, or read it live.
	confirmed bool
	// left means that what the object ran has finished by itself, so that nothing was done.
	left bool
}

// steps carries out what does not hold yet. An error in the first step ends the attempt: an object is never stopped without having been
// failed in the state that was judged, or a completion that came first would be undone.
func (s *stopping) steps(ctx context.Context) (pending bool, err error) {
	if first := s.plan.Steps; len(first) == 0 || first[0].Action != v1alpha1.StopMarkFailed && first[0].Action != v1alpha1.StopSuspend {
		return true, faultf("the first step that stops a %s is neither MarkFailed nor Suspend: correct spec.deadline.enforcement of its KindProfile", s.plan.Kind.Kind)
	}
	if s.seen.Exceeded.IsZero() {
		if s.left, err = s.ranToItsEnd(ctx); s.left || err != nil {
			return true, err
		}
	}
	var errs []error
	for i, step := range s.plan.Steps {
		if i > 0 && !s.begun {
			return true, nil
		}
		holds, err := s.step(ctx, step)
		if err != nil && (step.Action == v1alpha1.StopMarkFailed || step.Action == v1alpha1.StopSuspend || apierrors.IsConflict(err)) {
			return true, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, err) // The other steps have their chance all the same.
		}
		pending = pending || !holds
		if s.request.DryRun {
			return pending, err
		}
	}
	return pending, errors.Join(errs...)
}

// confirm reads the object live, unless this attempt has written to it already, and answers with a conflict where it is not as it was
// judged. It comes before whatever is written to or deleted below the object (S1, S2).
func (s *stopping) confirm(ctx context.Context) error {
	if s.confirmed {
		return nil
	}
	object, err := s.options.Metadata.Resource(s.plan.Resource).Namespace(s.request.Namespace).Get(ctx, s.request.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading %s %s/%s: %w", s.plan.Kind.Kind, s.request.Namespace, s.request.Name, err)
	case object.UID != s.request.UID || object.ResourceVersion != s.request.ResourceVersion:
		return apierrors.NewConflict(s.plan.Resource.GroupResource(), s.request.Name, errors.New("it has changed since it was judged"))
	}
	s.confirmed = true
	return nil
}

func (s *stopping) step(ctx context.Context, step v1alpha1.StopStep) (holds bool, err error) {
	switch {
	case step.Action == v1alpha1.StopMarkFailed && step.Child == nil:
		return s.mark(ctx, step)
	case step.Action == v1alpha1.StopMarkFailed:
		return s.markChild(ctx, step)
	case step.Action == v1alpha1.StopDelete && step.Child != nil:
		return s.deleteChild(ctx, step.Child)
	case step.Action == v1alpha1.StopDeletePods:
		return s.deletePods(ctx)
	case step.Action == v1alpha1.StopSuspend:
		return s.suspend(ctx)
	default:
		return false, faultf("step %q of %s is not known: this is a bug", step.Action, s.plan.Kind.Kind)
	}
}

// fault is an error that no answer of the API server is behind, and that a retry alone does not cure.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

func faultf(format string, args ...any) error { return fault{fmt.Errorf(format, args...)} }

// responseTo turns an error into what the engine understands, so that its backoff and its breakers hold for deadlines too.
func responseTo(err error, r *engine.Request) engine.Response {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		if own := (fault{}); errors.As(err, &own) {
			return engine.Response{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: err.Error()}
		}
		return engine.Response{Err: err}
	}
	said := status.Status()
	out := engine.Response{Code: int(said.Code), Reason: said.Reason, Message: err.Error(), Origin: engine.OriginOf(&said)}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		out.RetryAfter = time.Duration(seconds) * time.Second
	}
	out.ObjectMissing = apierrors.IsNotFound(err) && said.Details != nil && said.Details.Name == r.Name &&
		said.Details.Kind == r.Kind.Resource.Resource
	return out
}
