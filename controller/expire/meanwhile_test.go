package expire

import (
	"context"
	"testing"
	"time"
)

// A namespace stops being in dry-run while the DELETE that only reports is under way: the object
// goes.
func TestDryRunEndsMeanwhile(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.DryRun = true })
	w.hook = deleterFunc(func(ctx context.Context, r Request) Response {
		if r.DryRun {
			w.engine.Upsert(w.object(w.things["j0"]))
			return Response{Code: 200}
		}
		return w.Delete(ctx, r)
	})
	w.after(time.Second)
	for range 5 {
		w.after(time.Minute)
		w.answerList()
		w.handOverList()
	}
	if n := count(*outcomes); len(w.things) != 0 || n[Deleted] != 1 {
		t.Errorf("%v, %d left, although it is in dry-run no more", n, len(w.things))
	}
}

// A feed says that an object is due later, because of something else than the object, while a fresh
// look that knows nothing of that is under way.
func TestPostponedDuringTheFreshLook(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.defaultTTL = time.Second
	x := w.create("j", 0, false)
	w.finish(x)
	w.deliverAll()
	w.advance(time.Second)
	w.racingJudge = func(x *thing) {
		w.defaultTTL = time.Hour
		w.engine.Upsert(w.object(x))
	}
	w.pump() // world.Delete holds it to S1
	w.after(10 * time.Minute)
	if len(*outcomes) != 0 {
		t.Fatalf("%+v before it is due", *outcomes)
	}
	w.after(time.Hour)
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Errorf("%v in the end, want it deleted", n)
	}
}

// A fresh look finds that an object has no expiry. Before that is written down a feed says that it
// has one again, the same as before.
func TestDueAgainDuringTheFreshLook(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.Live = true })
	looks := 0
	w.engine.kinds[w.kind].opts.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
		if looks++; looks == 1 {
			w.engine.Upsert(o)
			return Judgement{Verdict: Keep}, nil
		}
		return w.judge(ctx, o)
	}
	w.after(time.Second)
	w.after(time.Minute)
	if n := count(*outcomes); n[Deleted] != 1 {
		t.Errorf("%v, want it deleted after another look", n)
	}
}

// A namespace comes to be in dry-run while a fresh look that knows nothing of that is under way.
func TestDryRunBeginsDuringTheFreshLook(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.Live = true })
	look, dry := w.engine.kinds[w.kind].opts.Judge, false
	w.engine.kinds[w.kind].opts.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
		jd, err := look(ctx, o)
		jd.Object.DryRun, dry = dry, true
		o.DryRun = true
		w.engine.Upsert(o)
		return jd, err
	}
	w.after(time.Second)
	w.after(time.Minute)
	if n := count(*outcomes); n[DryRun] != 1 || n[Deleted] != 0 {
		t.Errorf("%v, want it reported alone", n)
	}
}

// The rules of a kind change while a live read by the old rules is under way.
func TestRulesChangeDuringTheFreshLook(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.Live = true })
	options := *w.engine.kinds[w.kind].opts
	options.Judge = func(ctx context.Context, o Entry) (Judgement, error) { return Judgement{Verdict: Keep}, nil }
	before := *w.engine.kinds[w.kind].opts
	before.Judge = func(ctx context.Context, o Entry) (Judgement, error) {
		_, err := w.engine.RegisterKind(options)
		must(t, err)
		return w.judge(ctx, o)
	}
	_, err := w.engine.RegisterKind(before)
	must(t, err)
	w.after(time.Second)
	w.after(time.Minute)
	if n := count(*outcomes); n[Kept] != 1 || w.deletes != 0 {
		t.Errorf("%v, %d DELETEs: want it kept, as the new rules say", n, w.deletes)
	}
}

// A list says of an object that was thought to be terminating that it is not, while the clock is
// wrong by hours: it is looked at soon all the same.
func TestRevivedUnderAWrongClock(t *testing.T) {
	w, _, _ := ready(t, nil)
	x := w.create("j", time.Second, true)
	w.finish(x)
	w.deliverAll()
	before := w.list()
	w.after(time.Second)
	w.deliverAll()
	w.jump(10 * time.Hour)
	w.relist(before, 0)
	w.pump()
	w.jump(0)
	w.pump()
	if next, ok := w.engine.Next(); !ok || next.After(w.server.Add(2*maxBackoff)) {
		t.Errorf("looked at next at %s, %s from now", next, next.Sub(w.server))
	}
}

// After etcd was restored, resourceVersions are lower than those that were seen. What was only
// reported is judged live once a list no longer asks for a dry run (S3).
func TestReportedBeforeARestore(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.dueSoon(1, "j", func(o *Entry) { o.DryRun, o.ResourceVersion = true, "900" })
	x := w.things["j0"]
	x.rv, w.rv = 900, 900
	w.after(time.Second)
	x.rv = 100
	list := func(dry bool) {
		relist := w.engine.BeginRelist(w.kind)
		o := w.object(x)
		o.DryRun = dry
		relist.Upsert(o)
		relist.End("1000")
		w.every(3, time.Second)
	}
	list(true) // the same verdict: nothing new
	if n := count(*outcomes); n[DryRun] != 1 || len(*outcomes) != 1 {
		t.Fatalf("%v, want one report", n)
	}
	list(false)
	if n := count(*outcomes); n[Deleted] != 1 || len(w.things) != 0 {
		t.Errorf("%v, want it deleted", n)
	}
}

// An author changes an annotation and changes it back, and no watch shows the value in between.
// The annotation is as it was judged, but the object finished again meanwhile. world.Delete fails
// if a DELETE rests on the first judgement (S1).
func TestAnnotationIsChangedAndChangedBack(t *testing.T) {
	const runsLonger = 30 * time.Minute
	for name, test := range map[string]struct {
		seen  bool // the watch shows the last state
		begin func(w *world, x *thing, there, back func(*thing))
	}{
		"before the DELETE, unseen": {false, func(_ *world, x *thing, there, back func(*thing)) { there(x); back(x) }},
		"before the DELETE, seen":   {true, func(_ *world, x *thing, there, back func(*thing)) { there(x); back(x) }},
		"during the DELETE": {false, func(w *world, _ *thing, there, back func(*thing)) {
			w.racing = func(x *thing) { there(x); back(x) }
		}},
		"during the live read": {true, func(w *world, _ *thing, there, back func(*thing)) {
			w.engine.RecheckNamespace("ns") // so that it is read
			w.racingJudge = func(x *thing) { there(x); back(x); w.events = w.events[1:]; w.deliverAll() }
		}},
		"before a late judgement of the first state": {true, func(w *world, x *thing, there, back func(*thing)) {
			first := *x
			there(x)
			back(x)
			w.events = w.events[1:]
			w.deliverAll()
			w.engine.RecheckNamespace("ns")
			w.engine.Upsert(w.object(&first))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, outcomes, _ := ready(t, nil)
			x := w.create("j", time.Second, false)
			w.finish(x)
			w.deliverAll()
			value := x.ttl
			test.begin(w, x, func(x *thing) {
				value = x.ttl
				x.ttl, x.finished = time.Hour, x.finished.Add(runsLonger)
				w.changed(x)
			}, func(x *thing) {
				x.ttl = value
				w.changed(x)
			})
			w.advance(time.Second)
			if test.seen && len(w.events) > 0 {
				w.events = w.events[1:] // The state in between is never seen.
				w.deliverAll()
			} else if !test.seen {
				w.events = nil
			}
			w.every(10, time.Minute)
			if n := count(*outcomes); len(n) != 0 || w.things["j"] == nil || test.seen && w.deletes > 0 {
				t.Fatalf("%v and %d DELETEs before the object is due", n, w.deletes)
			}
			w.every(2, runsLonger)
			if n := count(*outcomes); n[Deleted] != 1 {
				t.Errorf("%v in the end, want it deleted", n)
			}
		})
	}
}
