package expire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/deletion"
)

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// thing is an object of the model: it is due at finish + ttl, if it has both. Without a ttl of its
// own it takes the world's default, which can change at any time without the object changing
// (Live).
type thing struct {
	name      string
	uid       types.UID
	rv        uint64
	finished  time.Time
	ttl       time.Duration // -1: none, 0: the world's default
	label     time.Time     // when it is due by its label, finished or not; zero: none
	finalizer bool
	deleting  time.Time
	gone      bool // in events only
}

// world is an API server, a feed with a watch that lags, and a clock that is not to be trusted.
type world struct {
	calls []call // of Delete, not ended yet
	fatal func(format string, args ...any)

	server time.Time     // the API server's time, which is the truth
	mono   time.Duration // never jumps
	off    time.Duration // local clock minus the server's
	skewed bool          // off was ever other than 0
	clock  *clocktesting.FakeClock

	things     map[string]*thing
	defaultTTL time.Duration
	told       bool // of each change of the default the engine is told, and nothing is Live for it
	rv         uint64
	uids       int

	events  []thing // sent, not delivered
	broken  bool    // the watch is down: nothing is sent
	listing []thing // a list that was answered and is not handed over yet
	listRV  uint64
	side    []thing // a list that a cache answered beside the watch
	sideRV  uint64

	faults      []fault
	racing      func(*thing) // runs once on the object of the next DELETE, before that is looked at
	racingJudge func(*thing) // the same, after the next fresh look
	judgeErr    int          // so many fresh looks fail
	judgeFault  error        // how they do, if not nil

	labels labelFeed
	around surroundings

	backup map[string]thing

	hook     deletion.Sender      // in the place of the API server, if not nil
	deadline deletion.Action      // what the trigger deadline does
	metrics  *prometheus.Registry // of the deletions
	engine   *Engine
	skew     *deletion.Skew
	kind     Kind
	referee  *referee
	deletes  int
}

type fault struct {
	code       int // 0: no answer
	carriedOut bool
	retryAfter time.Duration
	webhook    bool // it is a denial of an admission webhook
}

// reason is the one that fits the code: a webhook may give it.
func (f *fault) reason() metav1.StatusReason {
	switch f.code {
	case 404:
		return metav1.StatusReasonNotFound
	case 409:
		return metav1.StatusReasonConflict
	default:
		return metav1.StatusReasonUnknown
	}
}

func newWorld(fatal func(string, ...any)) *world {
	w := &world{
		fatal: fatal, server: epoch, clock: clocktesting.NewFakeClock(epoch),
		things: map[string]*thing{}, referee: newReferee(), defaultTTL: time.Hour, rv: 100,
	}
	w.start()
	return w
}

// start makes a new engine that knows nothing, as after a kill -9, and lists everything into it.
func (w *world) start() {
	w.skew = deletion.NewSkew(w.clock)
	e, err := New(Options{
		Triggers: w.triggers(), Skew: w.skew, Ping: func(context.Context) error { w.date(); return nil }, Clock: w.clock,
		monotonic: func(time.Time) time.Duration { return w.mono },
		jitter:    func() float64 { return 0.5 },
	})
	if err != nil {
		w.fatal("New: %v", err)
	}
	e.running = true
	w.engine = e
	w.kind, err = e.RegisterKind(KindOptions{Type: deletion.Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true}, Trigger: "ttl", Judge: w.judge})
	if err != nil {
		w.fatal("RegisterKind: %v", err)
	}
	w.around.held, w.around.stale, w.around.unjudged, w.around.seen = false, nil, false, w.around.brake
	w.startLabels()
	w.answerList()
	w.handOverList()
}

func (w *world) sync() { w.clock.SetTime(w.server.Add(w.off)) }

func (w *world) advance(d time.Duration) {
	w.server, w.mono = w.server.Add(d), w.mono+d
	w.sync()
}

func (w *world) jump(to time.Duration) {
	w.off = to
	w.skewed = w.skewed || to != 0
	w.sync()
}

// date is an answer of the API server.
func (w *world) date() {
	now := w.clock.Now()
	w.skew.Learn(now, now, w.server.UTC().Format(http.TimeFormat))
}

// pump lets the engine do whatever it can do now, one at a time.
func (w *world) pump() {
	for rounds := 0; ; rounds++ {
		if rounds > 10000 {
			w.fatal("the engine spins: ten thousand attempts without time passing")
		}
		r := w.engine.read()
		w.engine.mu.Lock()
		now, ok := w.engine.checkClock(r)
		var j *job
		if ok {
			j = w.engine.next(now, r)
		}
		if est := w.skew.Estimate(r.wall); w.engine.guard.held != "" && !est.Known {
			w.engine.unlock()
			w.date()
			continue
		} else if est.Age > deletion.PingEvery {
			w.date()
		}
		w.engine.unlock()
		if j == nil && w.runs() {
			continue
		}
		if j == nil {
			return
		}
		res := w.engine.attempt(context.Background(), j)
		r = w.engine.read()
		w.engine.mu.Lock()
		w.engine.finish(j, res, r, false)
		w.engine.unlock()
	}
}

// runs ends the calls of Delete that wait no more, and reports whether there were any.
func (w *world) runs() (any bool) {
	before := w.calls
	w.calls = nil
	for _, c := range before {
		select {
		case <-c.begun:
			any = true
			if c.job != nil {
				c.out = w.engine.carryOut(context.Background(), c.job)
			}
			c.run.report(c.out)
		default:
			w.calls = append(w.calls, c)
		}
	}
	return any
}

// closeIdle is what the dispatcher does once a minute.
func (w *world) closeIdle() {
	r := w.engine.read()
	w.engine.mu.Lock()
	defer w.engine.unlock()
	w.engine.closeIdle(r)
}

// expiry is the model's truth; ok is false for what has none.
func (w *world) expiry(t *thing) (time.Time, bool) {
	switch {
	case t.finished.IsZero() || t.ttl < 0:
		return time.Time{}, false
	case t.ttl == 0:
		return t.finished.Add(w.defaultTTL), true
	default:
		return t.finished.Add(t.ttl), true
	}
}

// changed gives an object a new resourceVersion and tells the watch.
func (w *world) changed(t *thing) {
	w.rv++
	t.rv = w.rv
	w.send(*t)
}

func (w *world) send(t thing) {
	w.labels.send(t)
	if !w.broken {
		w.events = append(w.events, t)
	}
}

func (w *world) create(name string, ttl time.Duration, finalizer bool) *thing {
	w.uids++
	t := &thing{name: name, uid: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", w.uids)), ttl: ttl, finalizer: finalizer}
	if w.uids%7 == 0 {
		t.uid = types.UID("odd/" + strconv.Itoa(w.uids))
	}
	w.things[name] = t
	w.changed(t)
	return t
}

func (w *world) finish(t *thing) {
	t.finished = w.server.Truncate(time.Second)
	w.changed(t)
}

// erase takes an object away.
func (w *world) erase(t *thing) {
	delete(w.things, t.name)
	w.rv++
	ev := *t
	ev.rv, ev.gone = w.rv, true
	w.send(ev)
}

// object is what a feed makes of a state.
func (w *world) object(t *thing) Entry {
	instant, _ := w.expiry(t)
	return Entry{
		Kind: w.kind, Namespace: "ns", Name: t.name, UID: t.uid, ResourceVersion: strconv.FormatUint(t.rv, 10), Expiry: instant,
		Source: "object", Live: t.ttl == 0 && !w.told,
		Epoch: w.engine.Epoch(), DryRun: w.around.seen == dryRunBrake,
	}
}

// deliver hands the oldest event to the engine.
func (w *world) deliver() {
	if len(w.events) == 0 || w.listing != nil {
		return // a reflector lists first
	}
	t := w.events[0]
	w.events = w.events[1:]
	w.observe(t)
}

// observe hands one state to the engine.
func (w *world) observe(t thing) {
	_, due := w.expiry(&t)
	due = due && w.around.seen != keepBrake
	switch {
	case t.gone:
		w.engine.Remove(w.kind, t.uid)
	case !t.deleting.IsZero():
		w.engine.Terminating(w.object(&t), t.deleting)
	case due:
		w.engine.Upsert(w.object(&t))
	default:
		w.engine.Cancel(w.kind, t.uid, w.object(&t).ResourceVersion, w.engine.Epoch())
	}
}

func (w *world) backUp() {
	w.backup = map[string]thing{}
	for name, t := range w.things {
		w.backup[name] = *t
	}
}

// restore brings the objects of the backup back, with the resourceVersions they had then (and with
// etcd's revision bumped, as its documentation asks for, so that no resourceVersion ever means two
// states). The watch breaks.
func (w *world) restore() {
	if w.backup == nil {
		return
	}
	clear(w.things)
	for name, t := range w.backup {
		w.things[name] = &t
		w.referee.Add(w.record("create", nil, &t))
	}
	w.rv++
	w.events, w.listing, w.side, w.broken = nil, nil, nil, true
	w.labels.events, w.labels.listing, w.labels.broken = nil, nil, true
}

// list returns all objects, as a list shows them.
func (w *world) list() []thing {
	list := make([]thing, 0, len(w.things))
	for _, t := range w.things {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b thing) int { return int(a.rv) - int(b.rv) })
	return list
}

// answerList has the API server answer a list; the watch goes on from there.
func (w *world) answerList() {
	w.listing, w.listRV = w.list(), w.rv
	w.events = nil
	w.broken = false
}

// handOverList gives that list, by now perhaps old, to the engine.
func (w *world) handOverList() {
	if w.listing != nil {
		w.relist(w.listing, w.listRV)
		w.listing = nil
	}
}

// relist runs a list into the engine. The watch may be further than the list.
func (w *world) relist(list []thing, rv uint64) {
	if list == nil {
		return
	}
	rl := w.engine.BeginRelist(w.kind)
	for _, t := range list {
		_, due := w.expiry(&t)
		due = due && w.around.seen != keepBrake
		switch {
		case !t.deleting.IsZero():
			rl.Terminating(w.object(&t), t.deleting)
		case due:
			rl.Upsert(w.object(&t))
		default:
			rl.Cancel(w.kind, t.uid, strconv.FormatUint(t.rv, 10), w.engine.Epoch())
		}
	}
	rl.End(strconv.FormatUint(rv, 10))
}

// judge is the feed's fresh look.
func (w *world) judge(_ context.Context, o Entry) (Judgement, error) {
	if w.judgeErr > 0 {
		w.judgeErr--
		if w.judgeFault != nil {
			return Judgement{}, w.judgeFault
		}
		return Judgement{}, errors.New("the namespace cannot be read")
	}
	if f := w.racingJudge; f != nil {
		w.racingJudge = nil
		defer f(w.things[o.Name])
	}
	t := w.things[o.Name]
	if t == nil {
		return Judgement{Verdict: Gone}, nil
	}
	if _, due := w.expiry(t); due && t.deleting.IsZero() {
		return w.braked(w.around.brake, w.object(t)), nil
	}
	switch {
	case t.uid != o.UID:
		return Judgement{Verdict: Gone}, nil
	case !t.deleting.IsZero():
		return Judgement{Verdict: BeingDeleted, Since: t.deleting}, nil
	default:
		return Judgement{Verdict: Keep}, nil
	}
}
