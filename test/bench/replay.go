package main

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// replay is the API server as one sees it who has a million finished Jobs: lists and watches of all
// Jobs are answered from a recording, everything else is passed on to the real one.
type replay struct {
	recording *recording
	jobs      int
	server    *httptest.Server
}

// jobsPath is the path answered from the recording.
const jobsPath = "/apis/batch/v1/jobs"

// bookmarkEvery is how often an API server sends bookmarks.
const bookmarkEvery = time.Minute

// recorded is how many Jobs of the real watch are recorded.
const recorded = 2000

// recordAndReplay records a watch of the backlog and serves so many Jobs made of it.
func recordAndReplay(ctx context.Context, e *environment, jobs int) (*replay, error) {
	if jobs == 0 {
		return startReplay(e, nil, 0)
	}
	if err := e.backlogAtLeast(ctx, recorded); err != nil {
		return nil, err
	}
	recording, err := record(ctx, e, recorded)
	if err != nil {
		return nil, err
	}
	return startReplay(e, recording, jobs)
}

// startReplay serves so many Jobs on loopback, with TLS and HTTP/2 as an API server does.
func startReplay(e *environment, recording *recording, jobs int) (*replay, error) {
	target, err := url.Parse(e.state.Server)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	// Who asks brings credentials along.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a transport to the API server: %w", err)
	}
	pass := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // events at once
	}
	r := &replay{recording: recording, jobs: jobs}
	r.server = httptest.NewUnstartedServer(r.handler(pass))
	r.server.EnableHTTP2 = true
	r.server.Config.ErrorLog = log.New(discard{}, "", 0) // of connections that end with their process
	r.server.StartTLS()
	return r, nil
}

// handler answers requests for all Jobs and passes on all others. It also passes on requests with a
// label selector: no Job here has a label.
func (r *replay) handler(pass http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && req.URL.Path == jobsPath && req.URL.Query().Get("labelSelector") == "" {
			r.answer(w, req)
			return
		}
		pass.ServeHTTP(w, req)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (r *replay) close() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// kubeconfig writes one that leads here, with the credentials of another.
func (r *replay) kubeconfig(e *environment, of string) (string, error) {
	c, err := clientcmd.LoadFromFile(of)
	if err != nil {
		return "", fmt.Errorf("read a kubeconfig: %w", err)
	}
	for _, cluster := range c.Clusters {
		cluster.Server, cluster.CertificateAuthority = r.server.URL, ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	}
	path := filepath.Join(e.clusterDir(), "config", "replay-"+filepath.Base(of))
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, nil
}

// version is the resourceVersion of the whole.
func (r *replay) version() string { return strconv.Itoa(firstVersion + r.jobs) }

func (r *replay) answer(w http.ResponseWriter, req *http.Request) {
	query := req.URL.Query()
	if on, _ := strconv.ParseBool(query.Get("watch")); !on {
		r.page(w, query)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	out := bufio.NewWriterSize(w, 1<<16)
	initial, _ := strconv.ParseBool(query.Get("sendInitialEvents"))
	if initial {
		var event []byte
		for i := range r.jobs {
			event = r.recording.event(event[:0], i)
			if _, err := out.Write(event); err != nil {
				return // the client has gone
			}
		}
	}
	r.follow(req.Context(), w, out, initial)
}

// follow sends bookmarks, as nothing happens.
func (r *replay) follow(ctx context.Context, w http.ResponseWriter, out *bufio.Writer, initial bool) {
	ticker := time.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	send := initial // that all has been sent is told at once
	for {
		if send {
			frame, err := r.bookmark(initial)
			if err != nil {
				return
			}
			initial = false
			_, _ = out.Write(frame)
		}
		if out.Flush() != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		send = true
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *replay) bookmark(initial bool) ([]byte, error) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{ResourceVersion: r.version()}}
	if initial {
		job.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	raw, err := job.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a bookmark: %w", err)
	}
	return encodeFrame(watch.Bookmark, raw)
}

// page answers a list.
func (r *replay) page(w http.ResponseWriter, query url.Values) {
	from, _ := strconv.Atoi(query.Get("continue"))
	to := r.jobs
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 {
		to = min(to, from+limit)
	}
	list := &batchv1.JobList{ListMeta: metav1.ListMeta{ResourceVersion: r.version()}}
	if to < r.jobs {
		list.Continue = strconv.Itoa(to)
	}
	raw, err := list.Marshal()
	if err == nil {
		for i := from; i < to; i++ {
			raw = r.recording.item(raw, i)
		}
		raw, err = wrap("JobList", raw)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_, _ = w.Write(raw)
}
