package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// codeUnjudged stands for an HTTP status where the fresh look failed for a reason that is not the API server's.
const codeUnjudged = -1

// maxRounds bounds how often one attempt follows an object that changes under its hands, before others get their turn.
const maxRounds = 5

// attemptResult is what came of a job.
type attemptResult struct {
	result Result
	err    error
	code   int // HTTP status of what failed, 0: no answer
	origin Origin
	// refusal is what the API server said when it did not accept a DELETE.
	refusal string
	// lost: a DELETE was sent and got no answer.
	lost       bool
	retryAfter time.Duration
	latency    time.Duration // of the last DELETE, 0: none was sent
	conflicts  int
	// sent is the state that was judged last; it is what was deleted.
	sent Object
	// again and rest are what an Actor asked for.
	again time.Duration
	rest  bool
	// postponed: the fresh look found that it is not due yet, or that deletions are held. The index has it already.
	postponed bool
	deleting  time.Time // deletionTimestamp, if the fresh look found one
}

// attempt deletes one object: one DELETE if nothing has changed. It takes the lock only to write down a fresh judgement.
func (e *Engine) attempt(ctx context.Context, j *job) attemptResult {
	res := attemptResult{sent: j.object}
	judge := j.kind.Judge
	if j.direct != nil && j.direct.judge != nil {
		judge = j.direct.judge
	}
	fresh := j.object.Live || j.kind.UIDOnly
	uidOnly := j.kind.UIDOnly
	disproved, refused := false, 0
	started := j.started
	for round := 1; ; round++ {
		if fresh || e.outdated(&res.sent) {
			jd, err := e.judge(ctx, judge, res.sent)
			if err != nil {
				res.fail(fmt.Errorf("judging %s %s afresh: %w", j.kind.Kind, nameOf(&j.object), err))
				return res
			}
			if disproved && jd.Object.ResourceVersion == res.sent.ResourceVersion {
				refused++
			} else {
				refused = 0
			}
			var proceed bool
			if proceed, started = e.follow(j, &res, jd); !proceed {
				return res
			}
			uidOnly = j.kind.UIDOnly || j.kind.refusesVersion(&jd, refused)
		}
		resp := e.send(ctx, j, &res.sent, uidOnly)
		res.latency = e.read().mono - started
		if j.kind.Actor != nil {
			res.latency = resp.Took
		}
		res.code, res.origin, res.retryAfter = resp.Code, resp.Origin, resp.RetryAfter
		again := round < maxRounds
		switch {
		case resp.Code >= 200 && resp.Code < 300 && (resp.Again > 0 || resp.Rest): // an Actor that has nothing to do in a dry run says so, too
			res.again, res.rest = resp.Again, resp.Rest
			return res
		case resp.Code >= 200 && resp.Code < 300:
			res.result = Deleted
			if j.dry {
				res.result = DryRun
			}
			if uidOnly {
				e.metrics.fallbacks.WithLabelValues(j.kind.Kind).Inc()
			}
			return res
		case resp.gone() && (j.kind.Actor != nil || e.trackedElsewhere(j)):
			e.confirm(ctx, j, judge, &res, &resp)
			return res
		case resp.gone():
			res.result = Other
			if j.unanswered {
				res.result = Unconfirmed
			}
			return res
		case resp.conflict() && again:
			res.conflicts++
			fresh = true
			// An Actor's conflict may be about a child.
			disproved = j.kind.Actor == nil && !uidOnly && resp.Reason == metav1.StatusReasonConflict
		case resp.conflict():
			res.result = Conflict
			res.err = fmt.Errorf("deleting %s %s: it changed %d times meanwhile: %w", j.kind.Kind, nameOf(&j.object), maxRounds, resp.error())
			return res
		default:
			res.lost = resp.Code == 0
			if !res.lost {
				res.refusal = resp.error().Error()
			}
			res.classify(resp.Code, fmt.Errorf("deleting %s %s: %w", j.kind.Kind, nameOf(&j.object), resp.error()))
			return res
		}
	}
}

// confirm reads an object that a 404 calls missing, before anything else that is tracked of it is dropped: the answer may be
// about something else, such as a status subresource that the kind does not have.
func (e *Engine) confirm(ctx context.Context, j *job, judge Judge, res *attemptResult, resp *Response) {
	jd, err := e.judge(ctx, judge, res.sent)
	if err != nil {
		res.fail(fmt.Errorf("judging %s %s afresh after a 404: %w", j.kind.Kind, nameOf(&j.object), err))
		return
	}
	if there, _ := e.follow(j, res, jd); there {
		res.classify(resp.Code, fmt.Errorf("deleting %s %s: the object exists, and the answer was %w", j.kind.Kind, nameOf(&j.object), resp.error()))
	}
}

func (e *Engine) judge(ctx context.Context, judge Judge, o Object) (Judgement, error) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	epoch := e.Epoch()
	jd, err := judge(ctx, o)
	jd.Object.Epoch = epoch
	return jd, err
}

func (e *Engine) send(ctx context.Context, j *job, o *Object, uidOnly bool) Response {
	ctx, cancel := context.WithTimeout(ctx, e.opts.RequestTimeout)
	defer cancel()
	r := Request{
		Kind: j.kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Propagation: propagation(j.kind, o), DryRun: j.dry, Expiry: o.Expiry,
	}
	if uidOnly {
		r.ResourceVersion = ""
	}
	if j.kind.Actor != nil {
		return j.kind.Actor.Delete(ctx, r)
	}
	return e.opts.Deleter.Delete(ctx, r)
}

// refusesVersion reports whether the API cannot honour a resourceVersion precondition for the state that was just read, so that
// the UID has to do (DESIGN section 4.2). refused is how many DELETEs in a row were answered with a conflict that names no
// webhook, although the live read after each showed the very resourceVersion that it carried.
//
// An API server that honours the precondition never does that, with one exception: Background removes the finalizers of the
// garbage collector, and where no other is left the API server compares the precondition with an empty resourceVersion
// (k8s.io/apiserver, registry.Store.Delete). Behind an aggregated API may be anything, so there it takes two.
func (k *KindOptions) refusesVersion(jd *Judgement, refused int) bool {
	switch {
	case refused == 0:
		return false
	case k.Aggregated && refused >= 2:
		return true
	default:
		return len(jd.Finalizers) > 0 && propagation(k, &jd.Object) == metav1.DeletePropagationBackground &&
			!slices.ContainsFunc(jd.Finalizers, func(f string) bool {
				return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
			})
	}
}

// follow does what a fresh judgement says, and tells whether to go on deleting, and since when.
func (e *Engine) follow(j *job, res *attemptResult, jd Judgement) (proceed bool, started time.Duration) {
	switch jd.Verdict {
	case Keep:
		res.result = Kept
		return false, 0
	case Gone:
		res.result = Other
		if j.unanswered {
			res.result = Unconfirmed
		}
		return false, 0
	case BeingDeleted:
		res.result = Other
		res.deleting = jd.Since
		return false, 0
	case Track:
	default:
		res.fail(fmt.Errorf("verdict %d of %s %s is unknown: this is a bug", jd.Verdict, j.kind.Kind, nameOf(&j.object)))
		return false, 0
	}
	r := e.read()
	e.mu.Lock()
	defer e.unlock()
	now, ok := e.checkClock(r)
	if jd.Object.Expiry.IsZero() || !e.valid(&jd.Object) {
		res.result = Kept
		return false, 0
	}
	if jd.Object.UID != j.object.UID {
		// Re-created under the same name (S2): the old one is gone, the new one has a life of its own.
		res.result = Other
		if j.direct == nil {
			// A watch may have told more of it by now: it counts as a list does.
			e.apply(&jd.Object, now, fromRelist)
		}
		return false, 0
	}
	if j.direct == nil {
		slot, still := e.lookup(j.object.Kind, j.object.UID)
		if still && e.index.at(slot).state == stateInFlight {
			en := e.index.at(slot)
			if compareVersion(en, res.sent.ResourceVersion) != same && compareVersion(en, jd.Object.ResourceVersion) == older {
				// While the answer was on its way the watch has told of a state that is newer than it: look again. (A number that is greater but was
				// there before says nothing: etcd may have been restored.)
				res.postponed = true
				return false, 0
			}
			if e.contradicted(slot, j, &res.sent, &jd.Object, now) {
				res.postponed = true
				return false, 0
			}
			e.write(slot, &jd.Object)
		} else {
			// Cancelled or removed meanwhile by a watch that may know more: leave it at that.
			res.postponed = true
			return false, 0
		}
	}
	res.sent = jd.Object
	if e.outdatedLocked(&jd.Object) || len(j.queue.held) > 0 {
		// Something that concerns it changed during the live read: judge again before anything is sent.
		res.postponed = true
		return false, 0
	}
	if !ok || nanos(jd.Object.Expiry) > now {
		res.postponed = true
		return false, 0
	}
	if dry := jd.Object.DryRun || e.opts.DryRun; dry != j.dry || jd.Object.Backfill != j.object.Backfill {
		// It was taken up under other rules (rates) than those that hold now: start over.
		res.postponed = true
		return false, 0
	}
	return true, r.mono
}

// contradicted tells whether a fresh look is not to be gone by, since the same state was judged differently while it was under way: by a feed, after
// something else than the object had changed, or because the kind has other rules now. Neither is known to be the newer, so the object stays
// for now, and is looked at again (S6). The lock is held.
func (e *Engine) contradicted(slot uint32, j *job, sent, seen *Object, now int64) bool {
	if e.kinds[j.object.Kind].opts != j.kind {
		return true
	}
	en := e.index.at(slot)
	if order := compareVersion(en, seen.ResourceVersion); order == older || order == newer {
		return false
	}
	return en.expiry > now && en.expiry != nanos(sent.Expiry) || en.flags&flagDryRun != 0 && !sent.DryRun && !seen.DryRun
}

// fail says that the fresh look failed. It classifies errors of the API machinery as the DELETE's own would be.
func (res *attemptResult) fail(err error) {
	code := codeUnjudged
	res.origin = FromResource
	var status apierrors.APIStatus
	var network net.Error
	switch {
	case errors.As(err, &network):
		code = 0
	case errors.As(err, &status):
		said := status.Status()
		code, res.origin = int(said.Code), OriginOf(&said)
		if s, ok := apierrors.SuggestsClientDelay(err); ok {
			res.retryAfter = time.Duration(s) * time.Second
		}
	}
	res.code = code
	if code == http.StatusNotFound || code == http.StatusConflict {
		// The judge answers Gone for an object that is not there; this is about something else.
		code = http.StatusInternalServerError
		res.code = code
	}
	res.classify(code, err)
}

func (res *attemptResult) classify(code int, err error) {
	res.err = err
	switch {
	case code == http.StatusTooManyRequests:
		res.result = Throttled
	case code >= 400 && code < 500:
		res.result = Refused
	default:
		res.result = Failed
	}
}

// messageMost bounds what an error repeats of an answer's message.
const messageMost = 1024

func (r Response) error() error {
	if r.Err != nil {
		return r.Err
	}
	reason := r.Reason
	if reason == "" || reason == metav1.StatusReasonUnknown {
		reason = metav1.StatusReason(http.StatusText(r.Code))
	}
	switch message := r.Message; {
	case message == "":
		return fmt.Errorf("%d %s", r.Code, reason)
	case len(message) > messageMost: // A webhook may write what it likes, and this is logged.
		return fmt.Errorf("%d %s: %s…", r.Code, reason, strings.ToValidUTF8(message[:messageMost], ""))
	default:
		return fmt.Errorf("%d %s: %s", r.Code, reason, message)
	}
}
