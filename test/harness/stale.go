package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// StaleAPIServer is another kube-apiserver on the etcd of a cluster. While it is frozen, its watch
// caches stand still: what etcd reports to its watches is held back. It reads and writes as usual.
type StaleAPIServer struct {
	*Process
	// Config is the administrator's for this API server.
	Config *rest.Config

	etcd *http.Server

	mu     sync.Mutex
	thawed chan struct{} // closed unless it is frozen
}

// StartStaleAPIServer starts one, not frozen, and returns when it is ready.
func (c *Cluster) StartStaleAPIServer(ctx context.Context) (*StaleAPIServer, error) {
	data, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	var state struct {
		Etcd       string
		Components map[string]struct{ Command []string }
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("parse the cluster's state: %w", err)
	}
	s := &StaleAPIServer{thawed: make(chan struct{})}
	close(s.thawed)
	etcd, err := s.proxy(state.Etcd)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, errors.Join(err, s.etcd.Close())
	}
	command := state.Components["kube-apiserver"].Command
	args := slices.DeleteFunc(command[1:], func(arg string) bool {
		return strings.HasPrefix(arg, "--etcd-servers=") || strings.HasPrefix(arg, "--audit-log-path=") // Both would write to that.
	})
	args = append(args, "--secure-port="+strconv.Itoa(port), "--etcd-servers="+etcd)
	if s.Process, err = startProcess("stale kube-apiserver", c.Log("stale-kube-apiserver"), false, nil, command[0], args...); err != nil {
		return nil, errors.Join(err, s.etcd.Close())
	}
	s.Config = rest.CopyConfig(c.Config)
	s.Config.Host = "https://127.0.0.1:" + strconv.Itoa(port)
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	err = Poll(ctx, "the stale kube-apiserver to be ready", func(ctx context.Context) (bool, error) {
		select {
		case <-s.Ended():
			return false, fmt.Errorf("it ended: %w\n%s", s.Err(), Tail(s.Log, 20))
		default:
		}
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// proxy passes requests on to etcd, and returns its address.
func (s *StaleAPIServer) proxy(etcd string) (string, error) {
	target, err := url.Parse(etcd)
	if err != nil {
		return "", fmt.Errorf("parse the address of etcd: %w", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for etcd: %w", err)
	}
	plain := new(http.Protocols) // gRPC without TLS
	plain.SetUnencryptedHTTP2(true)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{Protocols: plain},
		FlushInterval: -1, // Watches are streams.
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	s.etcd = &http.Server{Protocols: plain, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/etcdserverpb.Watch/Watch" {
			w = &frozenWriter{w, r.Context(), s}
		}
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = s.etcd.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

// Freeze holds back what etcd reports to watches, until the returned function is called.
func (s *StaleAPIServer) Freeze() (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thawed = make(chan struct{})
	return sync.OnceFunc(func() { close(s.thawed) })
}

// Close ends it.
func (s *StaleAPIServer) Close() error { return errors.Join(s.Kill(), s.etcd.Close()) }

// frozenWriter is where the answer to a watch goes.
type frozenWriter struct {
	http.ResponseWriter
	ctx context.Context
	of  *StaleAPIServer
}

func (f *frozenWriter) Write(data []byte) (int, error) {
	f.of.mu.Lock()
	thawed := f.of.thawed
	f.of.mu.Unlock()
	select {
	case <-thawed:
		return f.ResponseWriter.Write(data)
	case <-f.ctx.Done():
		return 0, f.ctx.Err()
	}
}

// Unwrap lets http.ResponseController reach the inner writer, to flush.
func (f *frozenWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }
