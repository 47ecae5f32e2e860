package stop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Options of an [Action].
type Options struct {
	// Objects and Metadata are clients of the API server. Required.
	Objects  dynamic.Interface
	Metadata metadata.Interface
	// Delete sends each DELETE of a child or a Pod. Required.
	Delete deletion.Action
	Clock  clock.PassiveClock
	// ServerTime is the API server's time, by which an object is marked: its TTL counts from there.
	// An error means that it is not known. Nil means Clock.
	ServerTime func(context.Context) (time.Time, error)
	Log        logr.Logger
	// Registerer gets the metrics; nil means none.
	Registerer prometheus.Registerer
	// Marked is called for each object that Curfew failed, for an Event on it. It must not block.
	Marked func(Mark)
	// Profile is the profile of the kind of a child, nil where it has none; it shows whether a
	// child has finished. Without the function, conditions do.
	Profile func(kind schema.GroupKind) (*policy.Profile, error)
}

// settle is how long after the mark Curfew checks an object again: by then every reconcile
// that began before the mark has ended, and Curfew has seen what it re-created or overwrote.
const settle = time.Minute

const (
	// minLook and maxLook bound the wait until Curfew checks a failed object again.
	minLook = time.Second
	maxLook = 20 * time.Second
	// maxLeft bounds it for an object whose children have finished: its controller may be down for
	// long.
	maxLeft = 5 * time.Minute
	// maxPending bounds it while a step does not hold yet.
	maxPending = 5 * time.Second
	// maxLogged bounds how many log lines are remembered in order not to repeat them.
	maxLogged = 1 << 14
)

// Plan is how objects of one kind are stopped.
type Plan struct {
	Kind     schema.GroupVersionKind
	Resource schema.GroupVersionResource
	// Steps of the profile, for the installed version of the kind.
	Steps []v1alpha1.StopStep
	// Suspend is the field that suspends an object, and SuspendValue the value that does so. Both
	// are nil if the kind has no such field.
	Suspend      fieldpath.FieldPath
	SuspendValue any
}

// Payload is the payload of the action: how the kind is stopped, and the state of the object that a
// feed judged, so that one request writes the mark into exactly that state.
type Payload struct {
	plan *Plan
	// deadline and started are for the message; zero where the object is finished.
	deadline time.Duration
	started  time.Time
	// exceeded is when it was failed for its deadline; zero where it was not.
	exceeded time.Time
	// created is when the object was created: no Pod of its own is older.
	created    time.Time
	conditions conditions
	// suspended reports whether the object is suspended, and generation is that of its spec.
	suspended  bool
	generation int64
}

// PayloadOf returns the payload for an object in its JSON form. It keeps only the parts that the
// mark needs.
func PayloadOf(plan *Plan, facts *policy.Facts, object map[string]any, deadline time.Duration) *Payload {
	generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
	return &Payload{
		plan: plan, deadline: deadline, started: facts.Started, exceeded: facts.Exceeded, created: facts.Created,
		conditions: conditionsOf(object), suspended: facts.Suspended, generation: generation,
	}
}

// Mark is one object that Curfew failed.
type Mark struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	Message         string
}

// Action fails and stops objects that are past their deadline.
type Action struct {
	options  Options
	log      logr.Logger
	pods     *podIndex
	marks    *prometheus.CounterVec
	lateness *prometheus.HistogramVec
	logged   *lru.Cache // logKey → nothing
}

// New makes an Action and registers its metrics.
func New(options Options) *Action {
	factory := promauto.With(options.Registerer)
	options.Clock = cmp.Or[clock.PassiveClock](options.Clock, clock.RealClock{})
	if options.ServerTime == nil {
		options.ServerTime = func(context.Context) (time.Time, error) { return options.Clock.Now(), nil }
	}
	return &Action{
		options: options, log: options.Log.WithName("deadline"), pods: newPodIndex(options.Metadata, options.Clock),
		logged: lru.New(maxLogged),
		marks: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_deadlines_exceeded_total",
			Help: "Objects that Curfew failed because they were active beyond their deadline, by kind."}, []string{"group", "kind"}),
		lateness: factory.NewHistogramVec(prometheus.HistogramOpts{Name: "curfew_deadline_lateness_seconds",
			Help:    "Time from the instant at which Curfew was to fail an object until the API server accepted the mark.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}}, []string{"group", "kind"}),
	}
}

// Do implements [deletion.Action]: it stops the object, which it never deletes. Its payload is a
// [Payload].
func (s *Action) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	seen, ok := due.Payload.(*Payload)
	if !ok {
		return deletion.Failure(http.StatusUnprocessableEntity, deletion.FromResource,
			fmt.Errorf("got a %T where a state of %s was needed: this is a bug", due.Payload, due.Kind))
	}
	stop := &stopping{Action: s, plan: seen.plan, seen: seen, due: &due}
	pending, err := stop.steps(ctx)
	var out deletion.Answer
	switch {
	case err != nil:
		out = stop.resultOf(err)
	case stop.left:
		if stop.firstTime("left") {
			s.log.Info("left alone at its deadline: what it ran has finished, and its own controller has yet to say so",
				"kind", due.Kind, "object", due.ObjectName(), "uid", due.UID)
		}
		out = deletion.Answer{Outcome: deletion.Again, After: min(max(s.options.Clock.Now().Sub(due.Expiry), maxLook), maxLeft)}
	case due.DryRun:
		out = deletion.Answer{Outcome: deletion.Done}
	case !stop.begun:
		// No child that could be marked: it is protected, or not created yet.
		out = deletion.Answer{Outcome: deletion.Again, After: min(max(s.options.Clock.Now().Sub(due.Expiry), minLook), maxLook)}
	default:
		out = s.next(seen, stop.marked, pending)
		out.Latency = stop.took
	}
	out.Deleted = stop.deleted
	return out
}

// logKey identifies a log line that is written once for one state of an object.
type logKey struct {
	uid             types.UID
	resourceVersion string
	what            string
}

// firstTime reports whether a log line about this state of the object has not been written yet.
func (s *stopping) firstTime(what string) bool {
	key := logKey{s.due.UID, s.due.ResourceVersion, what}
	_, before := s.logged.Get(key)
	s.logged.Add(key, struct{}{})
	return !before
}

// next returns when to check again: soon while a step does not hold, then less and less often until
// the mark has settled.
func (s *Action) next(seen *Payload, justMarked, pending bool) deletion.Answer {
	again := func(after time.Duration) deletion.Answer {
		return deletion.Answer{Outcome: deletion.Again, After: max(after, minLook)}
	}
	if justMarked || seen.exceeded.IsZero() {
		return again(0)
	}
	switch age := s.options.Clock.Now().Sub(seen.exceeded); {
	case pending:
		return again(min(age, maxPending))
	case age < settle:
		return again(min(age, maxLook))
	default:
		return deletion.Answer{Outcome: deletion.Done}
	}
}

// fault is an error that no answer of the API server caused and that a retry alone does not fix.
type fault struct{ error }

func (f fault) Unwrap() error { return f.error }

func faultf(format string, args ...any) error { return fault{fmt.Errorf(format, args...)} }

// resultOf turns an error into an Answer, so that the engine's backoff and breakers apply to
// deadlines too. A 404 about a child or a subresource does not mean that the object is gone.
func (s *stopping) resultOf(err error) deletion.Answer {
	if s.refused != nil {
		s.refused.Err = err
		return *s.refused
	}
	out, answered := deletion.FailureOf(err)
	if own := (fault{}); !answered && errors.As(err, &own) {
		return deletion.Failure(http.StatusUnprocessableEntity, deletion.FromResource, err)
	}
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) && out.Origin != deletion.FromAdmission {
		if statusDetails := status.Status().Details; statusDetails != nil && statusDetails.Name == s.due.Name && statusDetails.Kind == s.due.Resource.Resource {
			out.Outcome = deletion.Gone
		}
	}
	return out
}

// stopping is one attempt at one object.
type stopping struct {
	*Action
	plan *Plan
	seen *Payload
	due  *deletion.Due
	// marked reports that this attempt wrote the mark, and took how long that took.
	marked bool
	took   time.Duration
	// deleted is how many children and Pods this attempt deleted, and refused the first answer to a
	// DELETE that failed.
	deleted int
	refused *deletion.Answer
	// begun means that the first step has succeeded: the object has failed, or is suspended.
	begun bool
	// confirmed means that the object was just as it was judged when this attempt wrote to it, or
	// read it live.
	confirmed bool
	// left means that all children have finished by themselves, so that nothing was done.
	left bool
}

// steps carries out the steps that do not hold yet. An error in the first step ends the attempt: if
// Curfew stopped an object before it failed it in the state that was judged, it could undo a
// completion that came first.
func (s *stopping) steps(ctx context.Context) (pending bool, err error) {
	if first := s.plan.Steps; len(first) == 0 || first[0].Action != v1alpha1.StopMarkFailed && first[0].Action != v1alpha1.StopSuspend {
		return true, faultf("the first step that stops a %s is neither MarkFailed nor Suspend: "+
			"correct spec.deadline.enforcement of its KindProfile", s.plan.Kind.Kind)
	}
	if s.seen.exceeded.IsZero() {
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
		if s.due.DryRun {
			return pending, err
		}
	}
	return pending, errors.Join(errs...)
}

// confirm reads the object live, unless this attempt has written to it already, and returns a
// conflict if it has changed since it was judged. Call it before anything below the object is
// written or deleted (S1, S2).
func (s *stopping) confirm(ctx context.Context) error {
	if s.confirmed {
		return nil
	}
	object, err := s.options.Metadata.Resource(s.plan.Resource).Namespace(s.due.Namespace).Get(ctx, s.due.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading %s %s/%s: %w", s.plan.Kind.Kind, s.due.Namespace, s.due.Name, err)
	case object.UID != s.due.UID || object.ResourceVersion != s.due.ResourceVersion:
		return apierrors.NewConflict(s.plan.Resource.GroupResource(), s.due.Name, errors.New("it has changed since it was judged"))
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

// isThere reads a child again.
func (s *stopping) isThere(ctx context.Context, client dynamic.ResourceInterface, child *unstructured.Unstructured) bool {
	now, err := client.Get(ctx, child.GetName(), metav1.GetOptions{})
	return err == nil && now.GetUID() == child.GetUID()
}

// isUnchanged reads a child again and reports whether it is still in the state that was read.
func (s *stopping) isUnchanged(ctx context.Context, client dynamic.ResourceInterface, child *unstructured.Unstructured) bool {
	now, err := client.Get(ctx, child.GetName(), metav1.GetOptions{})
	return err == nil && now.GetUID() == child.GetUID() && now.GetResourceVersion() == child.GetResourceVersion()
}
