package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Balancer stands in front of several webhooks as a Service does: a new connection goes to one that
// is ready, and stays there until one side closes it. It learns late which ones are ready.
type Balancer struct {
	listener net.Listener
	lag      time.Duration
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	backends []*backend
	next     int
	refused  int
}

type backend struct {
	webhook *Curfew
	ready   bool
	changes time.Time // when it began to say otherwise; zero while it does not
}

// probeEvery is how often the readiness of a webhook is asked for.
const probeEvery = 100 * time.Millisecond

// NewBalancer listens on loopback. It heeds a change of readiness after lag.
func NewBalancer(lag time.Duration) (*Balancer, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for webhook calls: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Balancer{listener: listener, lag: lag, cancel: cancel}
	b.running.Go(b.accept)
	b.running.Go(func() { b.probe(ctx) })
	return b, nil
}

// Port is where it listens.
func (b *Balancer) Port() int { return b.listener.Addr().(*net.TCPAddr).Port }

// Add sends connections to a webhook too, which has to be ready.
func (b *Balancer) Add(webhook *Curfew) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, &backend{webhook: webhook, ready: true})
}

// Refused is how many connections found no webhook.
func (b *Balancer) Refused() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Close ends it.
func (b *Balancer) Close() error {
	b.cancel()
	err := b.listener.Close()
	b.running.Wait()
	return err
}

func (b *Balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go b.join(conn)
		}
	}
}

func (b *Balancer) join(client net.Conn) {
	defer client.Close()
	var server net.Conn
	if port := b.pick(); port != 0 {
		server, _ = net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	if server == nil {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		return
	}
	relay(client, server)
}

// relay passes bytes on both ways, until one side ends.
func relay(client, server net.Conn) {
	defer server.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// pick takes the ready webhooks in turn; 0 if there is none.
func (b *Balancer) pick() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready := slices.DeleteFunc(slices.Clone(b.backends), func(entry *backend) bool { return !entry.ready })
	if len(ready) == 0 {
		return 0
	}
	b.next++
	return ready[b.next%len(ready)].webhook.WebhookPort
}

func (b *Balancer) probe(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		backends := slices.Clone(b.backends)
		b.mu.Unlock()
		for _, backend := range backends {
			_, err := Get(ctx, nil, "http://"+backend.webhook.Health+"/readyz")
			b.mu.Lock()
			b.heed(backend, err == nil)
			b.mu.Unlock()
		}
	}
}

// heed takes a change over once it has lasted for the lag.
func (b *Balancer) heed(entry *backend, ready bool) {
	switch {
	case ready == entry.ready:
		entry.changes = time.Time{}
	case entry.changes.IsZero():
		entry.changes = time.Now()
	case time.Since(entry.changes) >= b.lag:
		entry.ready, entry.changes = ready, time.Time{}
	}
}
