package feed

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// incoming is a connection over which pieces come at their times, and which gives at once all that is there.
type incoming struct {
	net.Conn
	began  time.Time
	pieces []piece
	end    error
	reads  []time.Duration
}

type piece struct {
	at   time.Duration
	text string
}

func (c *incoming) Read(into []byte) (int, error) {
	if len(c.pieces) == 0 {
		return 0, c.end
	}
	if wait := c.pieces[0].at - time.Since(c.began); wait > 0 {
		time.Sleep(wait)
	}
	now := time.Since(c.began)
	c.reads = append(c.reads, now)
	n := 0
	for len(c.pieces) > 0 && c.pieces[0].at <= now && n < len(into) {
		got := copy(into[n:], c.pieces[0].text)
		n += got
		if c.pieces[0].text = c.pieces[0].text[got:]; c.pieces[0].text == "" {
			c.pieces = c.pieces[1:]
		}
	}
	if len(c.pieces) == 0 {
		return n, c.end // with the last of it, as a Reader may
	}
	return n, nil
}

func TestGather(t *testing.T) {
	long := strings.Repeat("a list that comes as a stream ", 10000)
	millis := func(all ...int) (out []time.Duration) {
		for _, n := range all {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	for name, test := range map[string]struct {
		pieces []piece
		reads  []time.Duration
	}{
		"one event is read when it comes": {[]piece{{20 * time.Millisecond, "a"}}, millis(20)},
		"events that follow it closely wait and come together": {
			[]piece{{0, "a"}, {time.Millisecond, "b"}, {2 * time.Millisecond, "c"}, {9 * time.Millisecond, "d"}, {11 * time.Millisecond, "e"}}, millis(0, 10, 20)},
		"what comes after a pause does not wait": {[]piece{{0, "a"}, {30 * time.Millisecond, "b"}, {60 * time.Millisecond, "c"}}, millis(0, 30, 60)},
		"much is read without a pause": {
			[]piece{{0, long[:gatherMost]}, {time.Millisecond, long[:gatherLittle]}, {2 * time.Millisecond, "b"}}, millis(0, 1, 2)},
		"more than fits": {[]piece{{0, long[:gatherMost+gatherLittle]}, {time.Millisecond, "b"}}, millis(0, 0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := ""
				for _, piece := range test.pieces {
					want += piece.text
				}
				end := errors.New("connection reset")
				from := &incoming{began: time.Now(), pieces: test.pieces, end: end}
				conn := &gathering{Conn: from, clock: clock.RealClock{}, buffer: make([]byte, gatherMost)}
				var got strings.Builder
				small := make([]byte, 1000)
				var err error
				for err == nil {
					var n int
					n, err = conn.Read(small)
					got.Write(small[:n])
				}
				if got.String() != want || !errors.Is(err, end) {
					t.Errorf("got %d bytes and %v, want %d and %v", got.Len(), err, len(want), end)
				}
				if len(from.reads) != len(test.reads) {
					t.Fatalf("read at %v, want %v", from.reads, test.reads)
				}
				for i, at := range from.reads {
					if at != test.reads[i] {
						t.Fatalf("read at %v, want %v", from.reads, test.reads)
					}
				}
			})
		})
	}
}

// Whoever waits for an answer does not share a connection with watches.
func TestWatchesHaveAConnectionOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	from := map[string]string{}
	tokens := map[string]string{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.URL.RequestURI()], tokens[r.URL.RequestURI()] = r.RemoteAddr, r.Header.Get("Authorization")
		_, _ = io.WriteString(w, strings.Repeat("x", 3*gatherMost))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	dialed := 0
	config := &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}}}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed++
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	gathered, err := Gather(config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(gathered)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/jobs?limit=500", "/jobs?watch=true", "/pods?watch=true", "/jobs/a"} {
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || len(body) != 3*gatherMost || response.ProtoMajor != 2 {
			t.Errorf("%s: %d bytes over %s, %v", path, len(body), response.Proto, err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if tokens[path] != "Bearer t" {
			t.Errorf("%s: authorization %q", path, tokens[path])
		}
	}
	if from["/jobs?watch=true"] != from["/pods?watch=true"] || from["/jobs?limit=500"] != from["/jobs/a"] || from["/jobs?watch=true"] == from["/jobs/a"] || dialed != 2 {
		t.Errorf("%d connections: %v", dialed, from)
	}
}
