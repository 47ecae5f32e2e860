package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a listener whose connections are pipes, so that their deadlines follow the clock of a
// test.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	if connection, ok := <-p; ok {
		return connection, nil
	}
	return nil, http.ErrServerClosed
}

func (p piped) Close() error { close(p); return nil }

func (piped) Addr() net.Addr { return &net.TCPAddr{} }

func (p piped) dial() net.Conn {
	client, server := net.Pipe()
	p <- server
	return client
}

// servePiped serves a handler that answers "ok", until the test ends.
func servePiped(t *testing.T, connections int64) piped {
	t.Helper()
	server, err := Listen(t.Context(), "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	must(t, err)
	must(t, server.listener.Close())
	listener := make(piped)
	server.AtMost(connections).listener = listener
	go func() { _ = server.server.Serve(listener) }()
	t.Cleanup(func() { _ = server.server.Close() })
	return listener
}

// get sends a request on a connection and returns its status.
func get(connection net.Conn, header string) (int, error) {
	go func() { _, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\n"+header+"\r\n") }()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// S9: connections beyond the limit are closed at once, and there is room again when others end.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := servePiped(t, 2)
		first, second, third := listener.dial(), listener.dial(), listener.dial()
		if _, err := get(third, ""); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("one connection too many ends with %v", err)
		}
		for _, open := range []net.Conn{first, second} {
			if status, err := get(open, ""); status != http.StatusOK {
				t.Errorf("one that was there before: %d, %v", status, err)
			}
		}
		first.Close()
		synctest.Wait()
		if status, err := get(listener.dial(), ""); status != http.StatusOK {
			t.Errorf("after another has ended: %d, %v", status, err)
		}
	})
}

// S9: a client that sends its request too slowly, or none, loses its connection.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := servePiped(t, 3)
		silent, slow, idle := listener.dial(), listener.dial(), listener.dial()
		began := time.Now()
		go func() {
			for _, err := io.WriteString(slow, "GET / HTTP/1.1\r\n"); err == nil; _, err = io.WriteString(slow, "A: a\r\n") {
				time.Sleep(time.Second)
			}
		}()
		if status, err := get(idle, ""); status != http.StatusOK {
			t.Fatalf("%d, %v", status, err)
		}
		for _, c := range []struct {
			name       string
			connection net.Conn
			after      time.Duration
		}{{"silent", silent, headerTimeout}, {"slow", slow, headerTimeout}, {"idle", idle, idleTimeout}} {
			ctx, cancel := context.WithTimeout(t.Context(), c.after-time.Since(began)+time.Second)
			stop := context.AfterFunc(ctx, func() { c.connection.Close() })
			_, err := io.Copy(io.Discard, c.connection)
			if stop(); err != nil || ctx.Err() != nil {
				t.Errorf("%s: not closed by the server within %s: %v", c.name, c.after, err)
			}
			cancel()
		}
	})
}

// S9: headers are bounded.
func TestLargeHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := servePiped(t, 2)
		for size, want := range map[int]int{maxHeaderBytes / 2: http.StatusOK, 2 * maxHeaderBytes: http.StatusRequestHeaderFieldsTooLarge} {
			if status, err := get(listener.dial(), "A: "+strings.Repeat("a", size)+"\r\n"); status != want {
				t.Errorf("%d bytes: %d, %v, want %d", size, status, err, want)
			}
		}
	})
}
