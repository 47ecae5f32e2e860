package harness

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/client-go/rest"
)

// Proxy stands between a process and the API server. It passes requests on with the credentials
// that they came with.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	hooks   []*hook
	deletes []*Delete
	reads   []Read
	changed chan struct{} // closed and replaced when deletes changes
	conns   map[net.Conn]struct{}
	mute    func(path string) bool // nil: none
}

type hook struct{ handle Handler }

// Handler sees a request before it is passed on. One that answers returns true, and nothing is
// passed on. It may take its time, and change the world meanwhile.
type Handler func(w http.ResponseWriter, r *http.Request) (answered bool)

// NewProxy starts a proxy on loopback in front of an API server.
func NewProxy(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parse the API server's address: %w", err)
	}
	anonymous := rest.AnonymousClientConfig(config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("make a transport to the API server: %w", err)
	}
	p := &Proxy{changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		// A client that goes away mid-stream is no news.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(forward, w, r) }))
	p.server.EnableHTTP2 = true // as API servers do
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Config.ConnState = p.track
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	p.server.StartTLS()
	return p, nil
}

// URL is the proxy's address.
func (p *Proxy) URL() string { return p.server.URL }

// Authority is the certificate that clients have to trust, as PEM.
func (p *Proxy) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Close ends the proxy and what goes through it.
func (p *Proxy) Close() {
	p.Cut()
	p.server.Close()
}

// Cut breaks all connections that clients hold, watches included. They may connect again at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

func (p *Proxy) track(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, conn)
	default:
		p.conns[conn] = struct{}{}
	}
}

// Handle lets a handler see every request until it is removed; the one that came last is asked
// first.
func (p *Proxy) Handle(handle Handler) (remove func()) {
	added := &hook{handle}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append([]*hook{added}, p.hooks...)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hooks = slices.DeleteFunc(slices.Clone(p.hooks), func(h *hook) bool { return h == added })
	}
}

func (p *Proxy) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	answer := &answerWriter{ResponseWriter: w, proxy: p, request: r}
	if r.Method == http.MethodDelete {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		record := p.arrived(r.URL.Path, r.URL.Query().Has("dryRun"), body)
		defer p.update(func() { record.Status, record.FlowSchema, record.Answered = answer.code, answer.flowSchema, time.Now() })
	}
	p.mu.Lock()
	hooks := p.hooks
	p.mu.Unlock()
	for _, hook := range hooks {
		if hook.handle(answer, r) {
			return
		}
	}
	answer.forwarded = true
	forward.ServeHTTP(answer, r)
}

// answerWriter remembers how a request was answered, and loses what [Proxy.Mute] says.
type answerWriter struct {
	http.ResponseWriter
	proxy      *Proxy
	request    *http.Request
	forwarded  bool // by the API server, and not by a handler
	code       int
	flowSchema string
}

func (a *answerWriter) WriteHeader(code int) {
	a.code, a.flowSchema = code, a.Header().Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	a.proxy.reading(a.request, code, a.Header().Get("Content-Type"))
	a.ResponseWriter.WriteHeader(code)
}

func (a *answerWriter) Write(data []byte) (int, error) {
	if a.forwarded && a.proxy.muted(a.request) {
		return len(data), nil
	}
	return a.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the inner writer, to flush.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Target is the object that a path of the API names: /api/v1/namespaces/ci/pods/x,
// /apis/batch/v1/namespaces/ci/jobs/x or /api/v1/nodes/x.
func Target(path string) (resource, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := 2 // api/v1
	if parts[0] == "apis" {
		group = 3
	}
	if len(parts) < group {
		return "", "", ""
	}
	switch parts = parts[group:]; {
	case len(parts) >= 4 && parts[0] == "namespaces":
		return parts[2], parts[1], parts[3]
	case len(parts) == 2:
		return parts[0], "", parts[1]
	default:
		return "", "", ""
	}
}
