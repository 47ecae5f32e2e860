package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Sender sends one DELETE. [Client] does over HTTP.
type Sender interface {
	Delete(ctx context.Context, r Request) Response
}

// Request is one DELETE: of the object that is due, with its UID as a precondition. So is the
// ResourceVersion, unless it is empty because the API cannot honour it. Propagation is set.
type Request = Due

// Response is the answer to a Request. Err without Code: no answer came, and the DELETE may or may
// not have been carried out.
type Response struct {
	// Code is the HTTP status, 0 if there was no answer.
	Code int
	// Reason and Message of the Status in the body of an error.
	Reason  metav1.StatusReason
	Message string
	// Origin is which part of the API server wrote an error.
	Origin Origin
	// ObjectMissing distinguishes, for 404, "no such object" from "no such resource".
	ObjectMissing bool
	// RetryAfter is the wait that the server asked for, 0 if it asked for none.
	RetryAfter time.Duration
	// Err is set when no answer was received.
	Err error
}

// Action deletes the object that is due.
type DeleteAction struct {
	sender  Sender
	clock   clock.PassiveClock
	uidOnly *prometheus.CounterVec
}

// New makes an Action. The clock measures latencies, nil means the real one; a nil registerer gets
// no metrics.
func NewDeleteAction(sender Sender, measure clock.PassiveClock, registerer prometheus.Registerer) *DeleteAction {
	measure = cmp.Or[clock.PassiveClock](measure, clock.RealClock{})
	return &DeleteAction{sender: sender, clock: measure, uidOnly: promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "curfew_deletions_uid_only_total",
		Help: "Deletions with the UID as only precondition, right after a live read, because the API does not honour the resourceVersion.",
	}, []string{"group", "kind"})}
}

// Do implements Action.
func (a *DeleteAction) Do(ctx context.Context, due Due) Answer {
	uidOnly := due.UIDOnly || refusesVersion(&due)
	due.Propagation = propagation(&due)
	if uidOnly {
		due.ResourceVersion = ""
	}
	began := a.clock.Now()
	resp := a.sender.Delete(ctx, due)
	out := resp.result()
	out.Latency = max(1, a.clock.Since(began))
	switch {
	case out.Outcome == Done && uidOnly:
		a.uidOnly.WithLabelValues(due.Resource.Group, due.Kind).Inc()
	case out.Outcome == Conflict:
		out.VersionConflict = !uidOnly && resp.Reason == metav1.StatusReasonConflict
	}
	if out.Outcome == Done && !due.DryRun {
		out.Deleted = 1
	}
	return out
}

// refusesVersion reports whether the API cannot honour a resourceVersion precondition for the state
// that was just read live: it answers with a conflict although the version is current. The UID is
// then the only precondition (DESIGN section 4.2).
//
// An API server that honours the precondition does that in one case only: Background removes the
// finalizers of the garbage collector, and if no other finalizer is left the API server compares
// the precondition with an empty resourceVersion (k8s.io/apiserver, registry.Store.Delete). An
// aggregated API may behave in any way, so two such answers are needed there.
func refusesVersion(due *Due) bool {
	switch {
	case due.Disproved == 0:
		return false
	case due.Aggregated && due.Disproved >= 2:
		return true
	default:
		return len(due.Finalizers) > 0 && propagation(due) == metav1.DeletePropagationBackground &&
			!slices.ContainsFunc(due.Finalizers, func(f string) bool {
				return f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents
			})
	}
}

// propagation returns the policy of the DELETE.
func propagation(due *Due) metav1.DeletionPropagation {
	return cmp.Or(due.Propagation, due.Type.Propagation, metav1.DeletePropagationBackground)
}

func (r *Response) result() Answer {
	if r.Code >= 200 && r.Code < 300 {
		return Answer{Outcome: Done}
	}
	err := r.Err
	if errors.Is(err, ErrHeld) {
		return Answer{Outcome: Held, Err: ErrHeld}
	}
	if err == nil {
		err = Describe(r.Code, r.Reason, r.Message)
	}
	out := Failure(r.Code, r.Origin, err)
	out.After = r.RetryAfter
	if r.gone() {
		out.Outcome = Gone
	}
	return out
}

// gone reports whether an answer says that the object does not exist. A webhook may answer 404,
// too.
func (r *Response) gone() bool {
	return r.Code == http.StatusNotFound && r.ObjectMissing && r.Origin != FromAdmission
}

// Client sends DELETEs to an API server.
type Client struct {
	http  *http.Client
	base  string // without trailing slash
	agent string
}

// NewClient makes a client from a REST config. It uses the config's credentials, TLS, proxies and
// wrappers (Skew.Wrap), but not its QPS and burst: the engine finds its own pace.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // the engine bounds each request
	hc, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("deletion: HTTP client of the API server: %w", err)
	}
	// A redirect turns a DELETE into a GET, whose 200 would count as a deletion, or sends it
	// elsewhere.
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("deletion: address of the API server %q: %w", config.Host, err)
	}
	agent := cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent())
	return &Client{http: hc, base: strings.TrimSuffix(base.String(), "/"), agent: agent}, nil
}

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
	// The API server returns an object that still exists (finalizers): ask for its metadata only.
	// Errors always come as Status.
	acceptJSON     = typeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + typeJSON
	acceptProtobuf = typeProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + typeProtobuf + ",application/json"
	// maxBody bounds how much of an answer is read.
	maxBody = 1 << 20
)

// Delete implements Sender.
func (c *Client) Delete(ctx context.Context, r Request) Response {
	body, contentType, accept, err := encode(&r)
	if err != nil {
		return Response{Code: http.StatusBadRequest, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.base+path(&r), strings.NewReader(body))
	if err != nil {
		return Response{Code: http.StatusBadRequest, Message: err.Error()}
	}
	req.Header = http.Header{"Content-Type": {contentType}, "Accept": {accept}, "User-Agent": {c.agent}}
	resp, err := c.http.Do(req)
	if err != nil {
		return Response{Err: err}
	}
	defer func() {
		// Read to the end, so that the connection is used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
		_ = resp.Body.Close()
	}()
	out := Response{Code: resp.StatusCode}
	if resp.StatusCode < 400 {
		return out
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		out.RetryAfter = time.Duration(s) * time.Second
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	status, ok := decodeStatus(data)
	if err != nil || !ok {
		out.Origin = OriginOf(nil)
		out.Message = strings.TrimSpace(string(data[:min(len(data), 200)]))
		return out
	}
	out.Reason, out.Message, out.Origin = status.Reason, status.Message, OriginOf(&status)
	if d := status.Details; d != nil {
		// "no such resource" names no object; "no such object" does.
		out.ObjectMissing = status.Reason == metav1.StatusReasonNotFound && d.Name == r.Name
		if out.RetryAfter == 0 && d.RetryAfterSeconds > 0 {
			out.RetryAfter = time.Duration(d.RetryAfterSeconds) * time.Second
		}
	}
	return out
}

// Ping asks for the version, which every authenticated user may read, so that a Date header comes
// back.
func (c *Client) Ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/version", nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	return errors.Join(err, resp.Body.Close())
}

func path(r *Request) string {
	var b strings.Builder
	gvr := r.Resource
	if gvr.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/")
		b.WriteString(gvr.Group)
		b.WriteByte('/')
	}
	b.WriteString(gvr.Version)
	if r.Namespaced {
		b.WriteString("/namespaces/")
		b.WriteString(url.PathEscape(r.Namespace))
	}
	b.WriteByte('/')
	b.WriteString(gvr.Resource)
	b.WriteByte('/')
	b.WriteString(url.PathEscape(r.Name))
	return b.String()
}

// encode writes DeleteOptions. They are sent in the body, never in the query: proxies log queries.
func encode(r *Request) (body, contentType, accept string, err error) {
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}}
	o.APIVersion, o.Kind = "v1", "DeleteOptions"
	if r.ResourceVersion != "" {
		o.Preconditions.ResourceVersion = &r.ResourceVersion
	}
	o.PropagationPolicy = &r.Propagation
	if r.DryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	if !r.Protobuf {
		data, err := json.Marshal(&o)
		return string(data), typeJSON, acceptJSON, err
	}
	raw, err := o.Marshal()
	if err != nil {
		return "", "", "", err
	}
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Raw: raw}).Marshal()
	return protobufPrefix + string(data), typeProtobuf, acceptProtobuf, err
}

// protobufPrefix heads each protobuf body of Kubernetes.
const protobufPrefix = "k8s\x00"

func decodeStatus(data []byte) (metav1.Status, bool) {
	var s metav1.Status
	if rest, ok := strings.CutPrefix(string(data), protobufPrefix); ok {
		var u runtime.Unknown
		if u.Unmarshal([]byte(rest)) != nil || u.Kind != "Status" || s.Unmarshal(u.Raw) != nil {
			return s, false
		}
		return s, true
	}
	if json.Unmarshal(data, &s) != nil || s.Kind != "Status" {
		return s, false
	}
	return s, true
}
