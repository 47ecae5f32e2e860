package world

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Client is the transport of one process.
type Client struct {
	world *World
	name  string
	user  string
	dead  atomic.Bool
	muted atomic.Bool
	// Faults decides what happens to each request. Nil: nothing does. Set it before the first request.
	Faults func(*Request) Fault
}

// Fault happens to a request. The zero value is none.
type Fault struct {
	// Delay before the request arrives, and Late before its answer does.
	Delay, Late time.Duration
	// Lost: the request never arrives. LostAnswer: it is carried out, and the answer is lost.
	Lost, LostAnswer bool
	// Code is answered in the place of carrying it out, with a Retry-After in seconds if that is set.
	Code, RetryAfter int
	// Hang: there is no answer until the client gives up, or its HTTP/2 connection is found dead.
	Hang bool
	// Race is called right before the request is carried out: another client is faster.
	Race func()
}

// hangs is how long client-go uses a connection without an answer: it pings after 30 seconds, and waits
// for 15.
const hangs = 45 * time.Second

var errLost = errors.New("connection reset by peer")

// Client makes a transport for a process that authenticates as a user.
func (w *World) Client(name, user string) *Client { return &Client{world: w, name: name, user: user} }

// Config is a rest.Config whose requests the world answers.
func (c *Client) Config() *rest.Config {
	return &rest.Config{Host: "http://world", Transport: c, QPS: -1}
}

// Kill ends the process, as far as the API server sees: none of its requests arrives any more, and
// no answer comes back.
func (c *Client) Kill() { c.dead.Store(true) }

// Mute makes the open watches of the process silent, as on a network that is cut.
func (c *Client) Mute(muted bool) { c.muted.Store(muted) }

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	r, err := c.world.read(request, c)
	if err != nil {
		return nil, err
	}
	var fault Fault
	if c.Faults != nil {
		fault = c.Faults(r)
	}
	if err := wait(ctx, fault.Delay); err != nil {
		return nil, err
	}
	switch {
	case fault.Hang:
		if err := wait(ctx, hangs); err != nil {
			return nil, err
		}
		return nil, errLost
	case fault.Lost, c.dead.Load():
		return nil, errLost
	case fault.Code != 0:
		return c.fail(request, fault), nil
	}
	if fault.Race != nil {
		fault.Race()
	}
	response := c.world.serve(ctx, c, r)
	response.Request = request
	if err := wait(ctx, fault.Late); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	if fault.LostAnswer || c.dead.Load() {
		_ = response.Body.Close()
		return nil, errLost
	}
	return response, nil
}

// wait sleeps unless the request is cancelled meanwhile.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// fail is an answer that no handler wrote, such as that of Priority and Fairness.
func (c *Client) fail(request *http.Request, fault Fault) *http.Response {
	text := http.StatusText(fault.Code)
	header := http.Header{"Content-Type": {"text/plain"}, "Date": {c.world.Now().UTC().Format(http.TimeFormat)}}
	if fault.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(fault.RetryAfter))
	}
	return &http.Response{
		Status: strconv.Itoa(fault.Code) + " " + text, StatusCode: fault.Code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader([]byte(text))), ContentLength: int64(len(text)), Request: request,
	}
}
