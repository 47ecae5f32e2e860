package pause

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"curfew.dev/curfew/policy"
)

// ErrHeld is what requests fail with that a pause holds. They were not sent.
var ErrHeld = errors.New("held by a pause before it was sent")

// Mark says what the requests of a context are for.
type Mark struct {
	trigger policy.Trigger
	scope   string
	any     bool // every pause holds them

	held atomic.Bool
}

type markKey struct{}

// With marks a context: its writing requests are what a trigger does to an object of a scope
// ([judging.PauseScope]).
func With(ctx context.Context, trigger policy.Trigger, scope string) (context.Context, *Mark) {
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

func (m *Mark) in(view *View) bool {
	if m.any {
		return view.any()
	}
	return view.Holds(m.trigger, m.scope)
}

// Wrap returns a transport that holds requests. Fits rest.Config.Wrap.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{g, next} }

type transport struct {
	gate *Gate
	next http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	mark, _ := r.Context().Value(markKey{}).(*Mark)
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return t.next.RoundTrip(r)
	case http.MethodDelete:
		mark = cmp.Or(mark, &Mark{any: true})
	}
	if mark == nil {
		return t.next.RoundTrip(r)
	}
	if err := t.gate.pass(r.Context(), mark); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // As a RoundTripper has to.
		}
		return nil, err
	}
	// A connection may take long to make. A request whose context is done is not sent.
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := t.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if view, known := t.gate.View(); !known || mark.in(&view) {
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
	resp.Body = &body{resp.Body, cancel}
	return resp, nil
}

func speaksHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// pass waits until a read is new enough, and fails if a pause holds the marked request.
func (g *Gate) pass(ctx context.Context, mark *Mark) error {
	if view, known := g.wait(ctx); known && !mark.in(&view) {
		return nil
	}
	mark.held.Store(true)
	return ErrHeld
}

// wait is View once a read is new enough. known is false if ctx ends first.
func (g *Gate) wait(ctx context.Context) (view View, known bool) {
	for {
		g.Want()
		view, known, answered := g.look()
		if known {
			return view, true
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return View{}, false
		}
	}
}

// body ends the context of a request with its answer.
type body struct {
	io.ReadCloser
	done context.CancelCauseFunc
}

func (b *body) Close() error {
	defer b.done(nil)
	return b.ReadCloser.Close()
}
