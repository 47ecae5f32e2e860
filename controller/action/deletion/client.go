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
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/action"
)

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
	acceptJSON     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/vnd.kubernetes.protobuf,application/json"
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
		out.Origin = action.OriginOf(nil)
		out.Message = strings.TrimSpace(string(data[:min(len(data), 200)]))
		return out
	}
	out.Reason, out.Message, out.Origin = status.Reason, status.Message, action.OriginOf(&status)
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
	gvr := r.Kind.Resource
	if gvr.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/")
		b.WriteString(gvr.Group)
		b.WriteByte('/')
	}
	b.WriteString(gvr.Version)
	if r.Kind.Namespaced {
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
	if !r.Kind.Protobuf {
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
