package expire

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/deletion"
)

// denial is what the API server makes of a webhook's denial.
func denial(code int) Response {
	return Response{Code: code, Message: `admission webhook "deny.example.com" denied the request: busy`, Origin: deletion.FromAdmission}
}

// A DELETE webhook denies, with a code of its own choice or without one (400), and the author
// raises the TTL while the next DELETE is in the webhook. Every DELETE carries the resourceVersion,
// so the author wins (S1).
func TestDenialKeepsThePrecondition(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusConflict, http.StatusNotFound, http.StatusPreconditionFailed} {
		for _, denials := range []int{1, 2, 4} {
			t.Run(fmt.Sprint(code, " ", denials), func(t *testing.T) {
				w, outcomes, _ := ready(t, nil)
				w.dueSoon(1, "j", nil)
				w.engine.kinds[w.kind].opts.Aggregated = true // The least that is known of a kind.
				calls := 0
				w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
					if r.ResourceVersion == "" {
						t.Errorf("DELETE %d carries no resourceVersion", calls+1)
					}
					if calls++; calls <= denials {
						out := denial(code)
						out.Reason, out.ObjectMissing = metav1.StatusReasonConflict, true
						return out
					}
					if x := w.things[r.Name]; x.ttl != time.Hour {
						x.ttl = time.Hour
						w.changed(x)
					}
					return w.Delete(ctx, r)
				})
				w.every(60, time.Second)
				if n := count(*outcomes); n[Deleted] != 0 || n[AlreadyGone] != 0 || n[Refused] != denials || calls != denials+1 {
					t.Errorf("%v after %d DELETEs, want each denial to be a refusal", n, calls)
				}
				w.after(time.Hour)
				if n := count(*outcomes); n[Deleted] != 1 {
					t.Errorf("%v an hour later, want it deleted", n)
				}
			})
		}
	}
}

// What a webhook writes is repeated in part: it stands in the log of every attempt that is logged.
func TestLongDenialIsCut(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", nil)
	w.hook = deleterFunc(func(context.Context, Request) Response {
		out := denial(http.StatusForbidden)
		out.Message += strings.Repeat("€", 300_000)
		return out
	})
	w.after(time.Second)
	if err := (*outcomes)[0].Err.Error(); len(err) > 1024+100 || !utf8.ValidString(err) || !strings.HasSuffix(err, "€…") {
		t.Errorf("%d bytes: %.200q", len(err), err)
	}
}

// Which conflicts prove that the resourceVersion cannot be honoured, so that the UID has to do
// after a live read.
func TestFallsBackToUID(t *testing.T) {
	orphan, foreground := metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	for name, c := range map[string]struct {
		kind        func(*KindOptions)
		finalizers  []string
		propagation metav1.DeletionPropagation
		reason      metav1.StatusReason
		deletes     int // 0: it is never deleted
	}{
		"aggregated API":               {func(k *KindOptions) { k.Aggregated = true }, nil, "", metav1.StatusReasonConflict, 3},
		"aggregated API, no Status":    {func(k *KindOptions) { k.Aggregated = true }, nil, "", "", 0},
		"known beforehand":             {func(k *KindOptions) { k.UIDOnly = true }, nil, "", metav1.StatusReasonConflict, 1},
		"Kubernetes":                   {nil, nil, "", metav1.StatusReasonConflict, 0},
		"finalizer orphan":             {nil, []string{orphan}, "", metav1.StatusReasonConflict, 2},
		"both finalizers":              {nil, []string{orphan, foreground}, "", metav1.StatusReasonConflict, 2},
		"finalizer, other propagation": {nil, []string{foreground}, metav1.DeletePropagationOrphan, metav1.StatusReasonConflict, 0},
		"another finalizer, too":       {nil, []string{orphan, "example.com/hold"}, "", metav1.StatusReasonConflict, 0},
		"finalizer, no Status":         {nil, []string{orphan}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			w.dueSoon(1, "j", func(o *Entry) { o.Propagation = c.propagation })
			options := w.engine.kinds[w.kind].opts
			if c.kind != nil {
				c.kind(options)
			}
			look := options.Judge
			options.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
				jd, err := look(ctx, o)
				jd.Finalizers, jd.Object.Propagation = c.finalizers, c.propagation
				return jd, err
			}
			deletes := 0
			w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
				deletes++
				if r.ResourceVersion != "" {
					return Response{Code: http.StatusConflict, Reason: c.reason}
				}
				r.ResourceVersion = fmt.Sprint(w.things[r.Name].rv)
				return w.Delete(ctx, r)
			})
			w.after(time.Second)
			if c.deletes == 0 {
				w.every(100, time.Minute)
				if n := count(*outcomes); n[Deleted] != 0 || n[Conflict] < 100 {
					t.Errorf("%v, want that it is kept, and tried for ever", n)
				}
				return
			}
			if n := count(*outcomes); n[Deleted] != 1 || deletes != c.deletes {
				t.Errorf("%v after %d DELETEs, want it deleted by number %d", n, deletes, c.deletes)
			}
			if got := sum(t, w.metrics, "curfew_deletions_uid_only_total"); got != 1 {
				t.Errorf("curfew_deletions_uid_only_total %v, want 1", got)
			}
		})
	}
}

// Conflicts at a resourceVersion that keeps changing prove nothing, however many there are, and a
// finalizer that was there in an earlier state proves nothing about a later one. Nor do conflicts
// of an aggregated API, if the object changed in between.
func TestNoFallbackWhileItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		finalizers []string
		every      int // it changes before every so manieth answer
	}{
		"always":        {[]string{metav1.FinalizerOrphanDependents}, 1},
		"now and again": {nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := ready(t, nil)
			w.dueSoon(1, "j", nil)
			options := w.engine.kinds[w.kind].opts
			options.Aggregated = true
			look := options.Judge
			options.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
				jd, err := look(ctx, o)
				jd.Finalizers = c.finalizers
				return jd, err
			}
			deletes := 0
			w.hook = deleterFunc(func(_ context.Context, r Request) Response {
				if deletes++; r.ResourceVersion == "" {
					t.Errorf("DELETE %d carries no resourceVersion", deletes)
				}
				if deletes%c.every == 0 {
					w.changed(w.things[r.Name])
				}
				return Response{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
			})
			w.every(20, time.Minute)
			if deletes < 50 {
				t.Errorf("%d DELETEs", deletes)
			}
		})
	}
}

// One namespace's webhook answers 429, 401 or 500 for its own objects and asks for 30 seconds: no
// other object is late.
func TestOneTenantsWebhook(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusUnauthorized} {
		for _, bad := range []int{1, 10, 300} {
			t.Run(fmt.Sprint(code, " ", bad, " bad"), func(t *testing.T) {
				if n, most := besidesBad(t, bad, "tenant", denial(code)); n != 1800 || most > time.Second {
					t.Errorf("%d others were deleted, up to %s late; want 1800 and at most 1s", n, most)
				}
			})
		}
	}
}

// The API behind a kind answers 429 for a few of its objects: those wait, and the others of the
// kind only until enough of them were tried to tell the kind from the objects. Other kinds never
// wait.
func TestThrottledObjects(t *testing.T) {
	answer := Response{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many"}
	for bad, want := range map[int]time.Duration{1: 0, 2: 0, 5: 7 * time.Second, 10: 95 * time.Second} {
		if n, most := besidesBad(t, bad, "ns", answer); n != 1800 || most > want {
			t.Errorf("%d bad: %d others were deleted, up to %s late; want 1800 and at most %s", bad, n, most, want)
		}
	}
}

// besidesBad has as many Jobs in a namespace answered so for ever, asking for 30 seconds, beside
// 600 good Jobs and 1200 Pods that fall due within ten minutes. It answers how many of these were
// deleted, and how late.
func besidesBad(t *testing.T, bad int, namespace string, answer Response) (deleted int, most time.Duration) {
	t.Helper()
	w, outcomes, _ := ready(t, nil)
	answer.RetryAfter = 30 * time.Second
	tries := map[string]time.Time{}
	requests := 0
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if !strings.HasPrefix(r.Name, "bad") {
			return w.Delete(ctx, r)
		}
		w.date()
		if requests++; w.server.Sub(tries[r.Name]) < answer.RetryAfter {
			t.Errorf("%s was tried again after %s", r.Name, w.server.Sub(tries[r.Name]))
		}
		tries[r.Name] = w.server
		return answer
	})
	add := func(kind Kind, name, namespace string, ttl time.Duration) {
		x := w.create(name, ttl, false)
		w.finish(x)
		o := w.object(x)
		o.Kind, o.Namespace = kind, namespace
		w.engine.Upsert(o)
	}
	for i := range bad {
		add(w.kind, fmt.Sprint("bad", i), namespace, time.Second)
	}
	pods := *w.engine.kinds[w.kind].opts
	pods.Resource.Resource, pods.Kind = "pods", "Pod"
	other, err := w.engine.RegisterKind(pods)
	must(t, err)
	for i := range 600 {
		add(w.kind, fmt.Sprint("good", i), "ns", time.Duration(i+1)*time.Second)
	}
	for i := range 1200 {
		add(other, fmt.Sprint("pod", i), "ns", time.Duration(i+2)*500*time.Millisecond)
	}
	w.events = nil
	for range 1300 {
		w.advance(500 * time.Millisecond)
		w.date()
		w.pump()
	}
	for _, o := range *outcomes {
		if o.Result == Deleted {
			deleted++
			if o.Object.Kind == other && o.Lateness > time.Second {
				t.Errorf("%s was %s late, which is of another kind", o.Object.Name, o.Lateness)
			}
			most = max(most, o.Lateness)
		}
	}
	if requests < bad/10 || requests > 22*bad {
		t.Errorf("%d requests for %d that are refused in ten minutes", requests, bad)
	}
	return deleted, most
}

// A 404 that is not about the object, such as that of a status subresource that the kind does not
// have, drops nothing (S3).
func TestMissingSubresourceDropsNothing(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	options := *w.engine.kinds[w.kind].opts
	options.Trigger = "deadline"
	w.deadline = actionFunc(func(context.Context, deletion.Due) deletion.Answer {
		return deletion.Answer{Outcome: deletion.Gone, Code: http.StatusNotFound, Err: deletion.Describe(http.StatusNotFound, metav1.StatusReasonNotFound, "")}
	})
	options.Judge = func(_ context.Context, o Entry) (Judgement, error) {
		if w.things[o.Name] == nil {
			return Judgement{Verdict: Gone}, nil
		}
		return Judgement{Verdict: Track, Object: o}, nil
	}
	deadline, err := w.engine.RegisterKind(options)
	must(t, err)
	x := w.create("j", time.Hour, false)
	w.setLabel(x, w.server.Add(30*time.Second))
	w.engine.Upsert(w.labelled(x))
	o := w.object(x)
	o.Kind, o.Expiry = deadline, w.server.Add(time.Second)
	w.engine.Upsert(o)
	w.after(time.Second)
	if n := count(*outcomes); n[Refused] != 1 || len(*outcomes) != 1 || w.engine.Tracked() != 2 {
		t.Fatalf("%v, %d tracked: the object exists, and both are wanted", n, w.engine.Tracked())
	}
	if err := (*outcomes)[0].Err.Error(); !strings.Contains(err, "the object exists") {
		t.Errorf("it says %q", err)
	}
	w.after(30 * time.Second)
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Fatalf("%v, want the label to have deleted it", n)
	}
	w.after(10 * time.Minute)
	if w.engine.Tracked() != 0 {
		t.Errorf("%d entries of deleted objects are tracked", w.engine.Tracked())
	}
}

// A DELETE that is answered 404 does not drop what other triggers track of the object while it
// exists.
func TestMissingIsConfirmedForOtherTriggers(t *testing.T) {
	for name, direct := range map[string]bool{"when it is due": false, "at once": true} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			x := w.create("j", time.Second, false)
			w.finish(x)
			w.setLabel(x, w.server.Add(30*time.Second))
			w.engine.Upsert(w.labelled(x))
			w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
				if r.Trigger != "label" {
					return Response{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, ObjectMissing: true}
				}
				return w.Delete(ctx, r)
			})
			w.advance(time.Second)
			if direct {
				out := make(chan Outcome)
				go func() { out <- deleteNow(t.Context(), w.engine, w.object(x)) }()
				<-w.engine.kick
				w.pump()
				if got := <-out; got.Result != Refused {
					t.Errorf("outcome %+v, want Refused", got)
				}
			} else {
				w.engine.Upsert(w.object(x))
				w.pump()
			}
			if n := count(*outcomes); n[AlreadyGone] != 0 || w.engine.Tracked() == 0 {
				t.Fatalf("%v, %d tracked: the object exists", n, w.engine.Tracked())
			}
			w.after(30 * time.Second)
			if len(w.things) != 0 {
				t.Errorf("%v, want the label to have deleted it", count(*outcomes))
			}
		})
	}
}
