package deletion

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/transport"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/quote"
)

const (
	// readEvery is the interval of the reads while something is due, and idleEvery while nothing is,
	// for metrics and kubectl curfew status.
	readEvery = time.Second
	idleEvery = 30 * time.Second
	// maxAge is how long after its sending a read permits a request. It is less than the five
	// seconds of S11, since some time passes between the check and the first byte on the wire.
	maxAge = 4500 * time.Millisecond
	// readTimeout ends a read whose answer would soon be too old. Further reads begin meanwhile.
	readTimeout = 4 * time.Second
	// wantFor is how long reads go on after something was due.
	wantFor = 3 * time.Second
	// Ahead is how long before an expiry the reads begin, so that the deletion waits for none.
	Ahead = 2 * time.Second
)

// Reader reads the pauses that are in effect, consistently: it sees every one that was accepted
// before the call.
type PauseReader func(context.Context) ([]judging.Pause, error)

// Options of a Gate. Clock is required; Read may be set before Run.
type GateOptions struct {
	Read  PauseReader
	Clock clock.WithTicker
	Log   logr.Logger
	// Leads reports whether this replica may act now: others hold every request. Nil: always.
	Leads func() bool
	// Changed is called when something else is held than before. It must not block.
	Changed func()
}

// Gate knows the pauses in effect. All methods are safe for concurrent use. A nil Gate holds
// nothing.
type Gate struct {
	options GateOptions
	kick    chan struct{}

	mu       sync.Mutex
	began    time.Time // when the newest read began
	wanted   time.Time // until when reads are needed
	good     time.Time // when the newest read that succeeded was sent; zero: none
	pauses   []judging.Pause
	bad      time.Time // when the newest read that failed was sent
	why      error
	shown    PauseView     // what look returned last,
	shownOf  time.Time     // and when the read was sent that it follows from
	reported uint64        // version that was logged last
	answered chan struct{} // closed at the next answer
	wake     func()
}

// New makes a Gate that knows nothing until Run.
func NewGate(options GateOptions) *Gate {
	return &Gate{options: options, kick: make(chan struct{}, 1), answered: make(chan struct{})}
}

// Use sets the reader, before Run: it needs clients, which need the gate in their transport.
func (g *Gate) Use(read PauseReader, changed func()) {
	g.options.Read, g.options.Changed = read, changed
}

// OnAnswer sets the function that is called after each read.
func (g *Gate) OnAnswer(wake func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake = wake
}

// Want has the pauses read for a while: something is due, or will be within [Ahead].
func (g *Gate) Want() {
	if g == nil {
		return
	}
	now := g.options.Clock.Now()
	g.mu.Lock()
	idle := !now.Before(g.wanted)
	g.wanted = now.Add(wantFor)
	g.mu.Unlock()
	if idle {
		select {
		case g.kick <- struct{}{}:
		default:
		}
	}
}

// View returns the pauses in effect now. known is false while no read is new enough: wait for the
// next answer.
func (g *Gate) View() (view PauseView, known bool) {
	if g == nil {
		return PauseView{}, true
	}
	view, known, _ = g.look()
	return view, known
}

// Holds is [View.Holds]. It waits until that is known; where ctx ends first, the answer is yes.
func (g *Gate) Holds(ctx context.Context, trigger policy.Trigger, scope string) bool {
	view, known := g.wait(ctx)
	return !known || view.Holds(trigger, scope)
}

// Last returns the newest pauses that are known, no matter how old, for people and metrics. read is
// false before the first answer.
func (g *Gate) Last() (view PauseView, read bool) {
	if g == nil {
		return PauseView{}, true
	}
	view, known, _ := g.look()
	if known {
		return view, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return PauseView{held: g.pauses}, !g.good.IsZero()
}

// look is View, and a channel that the next answer closes.
func (g *Gate) look() (PauseView, bool, <-chan struct{}) {
	now := g.options.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.show(now)
	return g.shown, known, g.answered
}

// show updates the view, and reports whether it is known. The lock is held.
func (g *Gate) show(now time.Time) (known bool) {
	if g.options.Leads != nil && !g.options.Leads() {
		return false
	}
	fresh := !g.good.IsZero() && Age(now, g.good) < maxAge
	next, t := PauseView{held: g.pauses}, g.good
	switch {
	case !fresh && !g.bad.After(g.good):
		return false
	case !fresh:
		next, t = unread(g.why), g.bad
	}
	if t.Equal(g.shownOf) {
		return true
	}
	g.shownOf = t
	next.Version = g.shown.Version
	// The reason may differ at each read. That is no change.
	again := g.shown.Unread != "" && next.Unread != ""
	if g.shown.Version == 0 || !again && !reflect.DeepEqual(next, g.shown) {
		next.Version++
	}
	g.shown = next
	return true
}

// Age is the longer of what the wall clock and the monotonic clock say: the one may be set, and the
// other stands still while the machine sleeps.
func Age(now, since time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// View is the set of pauses in effect at a moment. It never changes.
type PauseView struct {
	// Unread says why the pauses cannot be read: then everything is held. "" where they are known.
	Unread string
	// Version differs where something else is held.
	Version uint64

	held []judging.Pause
}

func unread(err error) PauseView { return PauseView{Unread: quote.ShortenTo(err.Error(), 300)} }

// Holds reports whether the actions of a trigger on an object are held. The scope is
// [judging.PauseScope] of the object.
func (v *PauseView) Holds(trigger policy.Trigger, scope string) bool {
	return v.some(func(p *judging.Pause) bool { return p.Holds(trigger, scope) })
}

// HoldsAll reports whether all actions of a trigger are held, in any namespace.
func (v *PauseView) HoldsAll(trigger policy.Trigger) bool {
	return v.some(func(p *judging.Pause) bool { return p.HoldsAll(trigger) })
}

// any reports whether anything at all is held.
func (v *PauseView) any() bool { return v.some(func(*judging.Pause) bool { return true }) }

func (v *PauseView) some(which func(*judging.Pause) bool) bool {
	if v.Unread != "" {
		return true
	}
	return slices.ContainsFunc(v.held, func(pause judging.Pause) bool { return which(&pause) })
}

// Count is the number of pauses in effect.
func (v *PauseView) Count() int { return len(v.held) }

// Messages describe the pauses in effect.
func (v *PauseView) Messages() (out []string) {
	for i := range v.held {
		out = append(out, v.held[i].Message())
	}
	return out
}

// ErrHeld is what requests fail with that a pause holds. They were not sent.
var ErrHeld = errors.New("held by a pause before it was sent")

// Mark says what the requests of a context are for.
type Mark struct {
	trigger policy.Trigger
	scope   string
	any     bool // every pause holds them
	// confirmed is when the rules that permit the requests were confirmed. Zero: no rules are.
	confirmed time.Time

	held atomic.Bool
}

type markKey struct{}

// With marks a context: its writing requests are what a trigger does to an object of a scope
// ([judging.PauseScope]).
func WithMark(ctx context.Context, trigger policy.Trigger, scope string) (context.Context, *Mark) {
	mark := &Mark{trigger: trigger, scope: scope}
	return context.WithValue(ctx, markKey{}, mark), mark
}

// HeldIn reports whether a request of a marked context was held.
func HeldIn(ctx context.Context) bool {
	mark, _ := ctx.Value(markKey{}).(*Mark)
	return mark != nil && mark.Held()
}

// Held reports whether a request of the context was held.
func (m *Mark) Held() bool { return m.held.Load() }

// MaxRules is the age up to which confirmed rules permit a request (S12). A live judgement may rest
// on a LIST that was sent a second before it, so that makes 15 s.
const MaxRules = 14 * time.Second

// Confirmed sets when the rules were confirmed that permit the requests. Call it before the context
// is used.
func (m *Mark) Confirmed(t time.Time) { m.confirmed = t }

// outdated reports whether the rules were confirmed too long ago.
func (m *Mark) outdated(now time.Time) bool {
	return !m.confirmed.IsZero() && Age(now, m.confirmed) >= MaxRules
}

func (m *Mark) in(view *PauseView) bool {
	if m.any {
		return view.any()
	}
	return view.Holds(m.trigger, m.scope)
}

// Wrap returns a transport that holds requests. Fits rest.Config.Wrap.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport.Wrapper{Next: next, Do: g.send}
}

func (g *Gate) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	mark, _ := r.Context().Value(markKey{}).(*Mark)
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return next.RoundTrip(r)
	case http.MethodDelete:
		mark = cmp.Or(mark, &Mark{any: true})
	}
	if mark == nil {
		return next.RoundTrip(r)
	}
	if err := g.pass(r.Context(), mark); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // As a RoundTripper has to.
		}
		return nil, err
	}
	// A connection may take long to make. A request whose context is done is not sent.
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := next.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if view, known := g.View(); mark.outdated(g.options.Clock.Now()) || !known || mark.in(&view) {
				mark.held.Store(true)
				cancel(ErrHeld)
				// HTTP/1.1 writes a request although its context is done. HTTP/2 does not, and its
				// connection has other requests.
				if !speaksHTTP2(info.Conn) {
					_ = info.Conn.Close()
				}
			}
		},
	})))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrHeld) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &bodyInFlight{resp.Body, cancel}
	return resp, nil
}

func speaksHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// pass waits until a read is new enough, and fails if a pause or outdated rules hold the marked
// request.
func (g *Gate) pass(ctx context.Context, mark *Mark) error {
	if view, known := g.wait(ctx); known && !mark.in(&view) && !mark.outdated(g.options.Clock.Now()) {
		return nil
	}
	mark.held.Store(true)
	return ErrHeld
}

// wait is View once a read is new enough. known is false if ctx ends first.
func (g *Gate) wait(ctx context.Context) (view PauseView, known bool) {
	for {
		g.Want()
		view, known, answered := g.look()
		if known {
			return view, true
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return PauseView{}, false
		}
	}
}

// body ends the context of a request with its answer.
type bodyInFlight struct {
	io.ReadCloser
	done context.CancelCauseFunc
}

func (b *bodyInFlight) Close() error {
	defer b.done(nil)
	return b.ReadCloser.Close()
}
