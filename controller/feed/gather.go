package feed

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// gatherFor is how long a connection of watches is left alone after little has come over it. Events that come one by one wake this
	// process one by one, which costs it and the API server beside it more than what they say. An event that comes after a pause
	// is read at once, and no other is later by more than this.
	gatherFor = 10 * time.Millisecond
	// gatherLittle is what is little. A list that comes as a stream is never waited for.
	gatherLittle = 16 << 10
	// gatherMost is read at once.
	gatherMost = 64 << 10
)

// Gather has the watches of a config's clients go over a connection of their own, on which events are gathered for some
// milliseconds. All other requests, which somebody waits for, go the way they went. It answers with a new config.
func Gather(config *rest.Config, clock clock.Clock) (*rest.Config, error) {
	patient := rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		// As client-go dials by itself.
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	patient.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gathering{Conn: conn, clock: clock, buffer: make([]byte, gatherMost)}, nil
	}
	watches, err := rest.TransportFor(patient)
	if err != nil {
		return nil, fmt.Errorf("transport of watches: %w", err)
	}
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return &split{watches: watches, others: next} })
	return out, nil
}

// split sends watches over another transport than the rest.
type split struct{ watches, others http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s *split) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "true" {
		return s.watches.RoundTrip(request)
	}
	return s.others.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find what is below.
func (s *split) WrappedRoundTripper() http.RoundTripper { return s.others }

// gathering is a connection that is read by one, in large pieces.
type gathering struct {
	net.Conn
	clock  clock.Clock
	buffer []byte
	// rest is what of the buffer has not been handed on, and failed what came with it.
	rest   []byte
	failed error
	// again is when the connection may be read again.
	again time.Time
}

// Read implements net.Conn.
func (g *gathering) Read(into []byte) (int, error) {
	if len(g.rest) == 0 {
		if err := g.failed; err != nil {
			g.failed = nil
			return 0, err
		}
		if wait := g.again.Sub(g.clock.Now()); wait > 0 {
			g.clock.Sleep(min(wait, gatherFor)) // whatever becomes of the clock
		}
		n, err := g.Conn.Read(g.buffer)
		if n == 0 {
			return 0, err
		}
		g.rest, g.failed, g.again = g.buffer[:n], err, time.Time{}
		if n < gatherLittle {
			g.again = g.clock.Now().Add(gatherFor)
		}
	}
	n := copy(into, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}
