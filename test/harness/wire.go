package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Wire is a TCP proxy between a process and the API server. Other than [Proxy] it looks at nothing
// that passes, so that TLS and HTTP/2 go from end to end, and breaks connections as a network does:
// at any byte.
type Wire struct {
	listener net.Listener
	target   string
	pumps    sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	refuse  bool
	stalled chan struct{} // closed when bytes may go on; nil while they do
	rate    int           // bytes a second; 0: no limit
	free    time.Time     // when what has passed is through, at that rate
}

// NewWire listens on loopback in front of an API server. Its certificate has to be one for
// 127.0.0.1.
func NewWire(config *rest.Config) (*Wire, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse the API server's address: %w", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for what goes to the API server: %w", err)
	}
	w := &Wire{listener: listener, target: target.Host, conns: map[net.Conn]struct{}{}}
	w.pumps.Go(w.accept)
	return w, nil
}

// URL is its address, for use in the place of the API server's.
func (w *Wire) URL() string { return "https://" + w.listener.Addr().String() }

// Close ends it and all that goes through it.
func (w *Wire) Close() error {
	err := w.listener.Close()
	w.Resume()
	w.Cut()
	w.pumps.Wait()
	return err
}

// Cut resets every connection, and tells how many there were. New ones may come at once.
func (w *Wire) Cut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		reset(conn)
	}
	return len(w.conns) / 2
}

// Refuse resets new connections as soon as they come, until it is told false.
func (w *Wire) Refuse(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = on
}

// Stall lets no more bytes pass in either direction, on connections that stay open, until Resume: a
// network that swallows packets. What was on its way arrives late.
func (w *Wire) Stall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalled == nil {
		w.stalled = make(chan struct{})
	}
}

// Resume ends a Stall.
func (w *Wire) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stalled != nil {
		close(w.stalled)
		w.stalled = nil
	}
}

// Limit lets so many bytes a second pass, in both directions of all connections together.
func (w *Wire) Limit(rate int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate = rate
}

// reset closes a connection with RST and not with FIN, so that the other side sees a failure and
// not an end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may be closed already
	}
	_ = conn.Close()
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			w.pumps.Go(func() { w.join(client) })
		}
	}
}

func (w *Wire) join(client net.Conn) {
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	if refuse {
		reset(client)
		return
	}
	server, err := net.Dial("tcp4", w.target)
	if err == nil && server.LocalAddr().String() == w.target {
		// No process listens there, and the kernel happened to give us that very port: we would talk to
		// ourselves, and keep the API server from listening again.
		reset(server)
		err = net.ErrClosed
	}
	if err != nil {
		reset(client)
		return
	}
	w.mu.Lock()
	w.conns[client], w.conns[server] = struct{}{}, struct{}{}
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			w.pump(way[0], way[1])
			// One direction that ends ends the other: both speak HTTP/2, where half a connection is of no
			// use.
			client.Close()
			server.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	delete(w.conns, client)
	delete(w.conns, server)
	w.mu.Unlock()
}

func (w *Wire) pump(from io.Reader, to io.Writer) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			w.pass(n)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while bytes are held back.
func (w *Wire) pass(n int) {
	for {
		w.mu.Lock()
		stalled, wait := w.stalled, time.Duration(0)
		if stalled == nil && w.rate > 0 {
			now := time.Now()
			if w.free.Before(now) {
				w.free = now
			}
			w.free = w.free.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
			wait = w.free.Sub(now)
		}
		w.mu.Unlock()
		if stalled == nil {
			if wait > 0 {
				<-time.After(wait)
			}
			return
		}
		<-stalled
	}
}
