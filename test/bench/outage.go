package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// outageFor is how long the API server is away from Curfew.
const outageFor = time.Second

// launchAfterOutage starts Curfew behind a relay that is cut off once, so that what Curfew has in
// its caches may be behind for the two minutes that follow.
func launchAfterOutage(ctx context.Context, e *environment, log string) (*curfewProcess, error) {
	config, err := clientcmd.LoadFromFile(e.curfewConfig)
	if err != nil {
		return nil, fmt.Errorf("read Curfew's kubeconfig: %w", err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	relay, err := startRelay(ctx, server.Host)
	if err != nil {
		return nil, err
	}
	cluster.TLSServerName = server.Hostname()
	server.Host = relay.listener.Addr().String()
	cluster.Server = server.String()
	path := filepath.Join(e.dir, "outage.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of the relay: %w", err)
	}
	c, err := e.launchCurfew(ctx, log, path)
	if err != nil {
		return nil, err
	}
	relay.cut(true)
	err = pause(ctx, outageFor)
	relay.cut(false)
	return c, err
}

// relay passes connections on to the API server. It lives until ctx ends.
type relay struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	away bool
	open map[net.Conn]bool
}

func startRelay(ctx context.Context, to string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for Curfew: %w", err)
	}
	r := &relay{listener: listener, to: to, open: map[net.Conn]bool{}}
	context.AfterFunc(ctx, func() { _ = listener.Close(); r.cut(true) })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(from)
		}
	}()
	return r, nil
}

// cut closes all connections and accepts none until it is called with false.
func (r *relay) cut(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	for conn := range r.open {
		_ = conn.Close()
	}
}

func (r *relay) pass(from net.Conn) {
	defer r.forget(from)
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer r.forget(to)
	if !r.keep(from, to) {
		return
	}
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}

func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		r.open[conn] = true
	}
	return !r.away
}

func (r *relay) forget(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
}
