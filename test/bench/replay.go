package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/test/harness"
)

// replay is the API server as one sees it who has a million finished Jobs: lists and watches of all
// Jobs are answered from a recording, everything else is passed on to the real one.
type replay struct {
	// templates are real Jobs, which come again and again, each time with names and UIDs of their own.
	templates []batchv1.Job
	jobs      int
	proxy     *harness.Proxy
}

const (
	// jobsPath is the path answered from the recording.
	jobsPath = "/apis/batch/v1/jobs"
	// bookmarkEvery is how often an API server sends bookmarks.
	bookmarkEvery = time.Minute
	// recorded is how many real Jobs are recorded.
	recorded = 2000
	// firstVersion is the resourceVersion of the first Job. All have as many digits.
	firstVersion = 1_000_000_000
)

// recordAndReplay reads Jobs of the backlog as the API server sends them and serves so many made of
// them.
func recordAndReplay(ctx context.Context, e *environment, jobs int) (r *replay, err error) {
	r = &replay{jobs: jobs}
	if jobs > 0 {
		if err := e.backlog(ctx, max(recorded, e.held)); err != nil {
			return nil, err
		}
		client, err := kubernetes.NewForConfig(connect(e.config))
		if err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
		list, err := client.BatchV1().Jobs(benchNamespace).List(ctx, metav1.ListOptions{Limit: recorded})
		if err != nil {
			return nil, fmt.Errorf("list Jobs to record: %w", err)
		}
		r.templates = list.Items
	}
	r.proxy, err = behind(e, r.answer)
	return r, err
}

// behind starts a proxy before the API server.
func behind(e *environment, handle harness.Handler) (*harness.Proxy, error) {
	proxy, err := harness.NewProxy(e.config)
	if err == nil {
		proxy.Handle(handle)
	}
	return proxy, err
}

// kubeconfigOf leads to a proxy, with the credentials of another kubeconfig.
func (e *environment) kubeconfigOf(proxy *harness.Proxy, other string) (string, error) {
	c, err := clientcmd.LoadFromFile(other)
	if err != nil {
		return "", fmt.Errorf("read a kubeconfig: %w", err)
	}
	for _, cluster := range c.Clusters {
		cluster.Server, cluster.CertificateAuthority, cluster.CertificateAuthorityData = proxy.URL(), "", proxy.Authority()
	}
	path := filepath.Join(e.clusterDir(), "config", "proxy-"+filepath.Base(other))
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return path, nil
}

// answer answers requests for all Jobs, except those with a label selector: no Job here has a label.
func (r *replay) answer(w http.ResponseWriter, req *http.Request) bool {
	query := req.URL.Query()
	switch on, _ := strconv.ParseBool(query.Get("watch")); {
	case req.Method != http.MethodGet || req.URL.Path != jobsPath || query.Get("labelSelector") != "":
		return false
	case on:
		_ = r.watch(req.Context(), w, query) // an error means that the client has gone
	default:
		r.page(w, query)
	}
	return true
}

// job is the Job of that number.
func (r *replay) job(i int) *batchv1.Job {
	job := r.templates[i%len(r.templates)].DeepCopy()
	name := fmt.Sprintf("%s-%07d", backlogPrefix, i)
	uid := fmt.Sprintf("%08x-%04x-4000-8000-%012x", uint32(i)*2654435769, i&0xffff, i)
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels, job.Spec.Selector.MatchLabels} {
		for key, value := range labels {
			switch value {
			case job.Name:
				labels[key] = name
			case string(job.UID):
				labels[key] = uid
			}
		}
	}
	job.Name, job.UID, job.ResourceVersion = name, types.UID(uid), strconv.Itoa(firstVersion+i)
	job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	return job
}

var (
	protobufOf = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	frameOf    = protobuf.LengthDelimitedFramer
)

// watch sends all Jobs, if that is asked for, and then bookmarks, as nothing happens.
func (r *replay) watch(ctx context.Context, w http.ResponseWriter, query url.Values) error {
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	out := bufio.NewWriterSize(w, 1<<16)
	frames := frameOf.NewFrameWriter(out)
	send := func(kind watch.EventType, job *batchv1.Job) error {
		var object bytes.Buffer
		if err := protobufOf.Encode(job, &object); err != nil {
			return err
		}
		event, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object.Bytes()}}).Marshal()
		if err == nil {
			_, err = frames.Write(event)
		}
		return err
	}
	bookmark := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(firstVersion + r.jobs)}}
	if initial, _ := strconv.ParseBool(query.Get("sendInitialEvents")); initial {
		for i := range r.jobs {
			if err := send(watch.Added, r.job(i)); err != nil {
				return err
			}
		}
		bookmark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		if err := send(watch.Bookmark, bookmark); err != nil {
			return err
		}
		bookmark.Annotations = nil
	}
	for {
		if err := errors.Join(out.Flush(), http.NewResponseController(w).Flush(), pause(ctx, bookmarkEvery), send(watch.Bookmark, bookmark)); err != nil {
			return err
		}
	}
}

// page answers a list.
func (r *replay) page(w http.ResponseWriter, query url.Values) {
	from, _ := strconv.Atoi(query.Get("continue"))
	to := r.jobs
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 {
		to = min(to, from+limit)
	}
	list := &batchv1.JobList{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(firstVersion + r.jobs)}}
	if to < r.jobs {
		list.Continue = strconv.Itoa(to)
	}
	for i := from; i < to; i++ {
		list.Items = append(list.Items, *r.job(i))
	}
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	_ = protobufOf.Encode(list, w)
}
