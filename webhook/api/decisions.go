package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
)

// The paths of the decisions. They are the nonResourceURLs that RBAC grants, with verb post.
const (
	PathDefault  = "/v1/default"
	PathValidate = "/v1/validate"
	PathOpenAPI  = "/openapi.json"
)

// Decisions answers for manifests as admission would.
type Decisions struct {
	// Builtin holds the profiles that come with Curfew, and no policies. Requests with ?offline=true
	// are judged by it.
	Builtin *platform.Snapshot
	// Source is the state of the cluster by which admission judges. Requests with ?offline=true do not
	// read it.
	Source platform.Source
	// Busy reports whether admission needs the memory of the process: requests are then refused. Nil
	// means never.
	Busy func() bool
	// Schemas of Curfew's own kinds.
	Schemas *lint.Schemas
	// Clock tells the time; each request reads it once.
	Clock Clock
	// Authenticator and Authorizer decide who may ask about the cluster. Requests with ?offline=true
	// do not use them.
	Authenticator Authenticator
	Authorizer    Authorizer
	// Audience is that of the tokens that Authenticator takes, for its messages; empty means that of
	// the API server.
	Audience string
	// Access asks whether the user of a request, and the controller, may delete the object under
	// review; nil means that it is not asked, as with ?offline=true.
	Access func(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error)
	// Rules are the settings of the rules.
	Rules rules.Options
	// AnnotationsOnly is --native-ttl=off.
	AnnotationsOnly bool
	// CleanupInterval is --cleanup-min-interval.
	CleanupInterval time.Duration
	// Logger is used for errors inside Curfew; users get to see none of them.
	Logger logr.Logger
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}

// The limits of one request, and of all at once. They bound the memory, since admission runs in the
// same process: a parser needs a few hundred bytes for each node.
const (
	maxManifestBytes = 3 << 20
	maxManifests     = 2000
	maxNodes         = 150000
	// maxPlatform policies and profiles, whose expressions are compiled for the one request.
	maxPlatform = 100
	// maxInFlight requests are read at once and maxAtWork of them judged, offline ones counted apart,
	// so that requests without a token cannot keep out requests with one.
	maxInFlight = 8
	maxAtWork   = 2
	// maxAuthenticating tokens are checked at once; the others wait.
	maxAuthenticating = 16
	// reviewTimeout bounds the question to the API server whose token it is.
	reviewTimeout = 3 * time.Second
)

// judged reads the documents of a request, judges them and leaves the answer to write.
func (d Decisions) judged(judging slots, write func(http.ResponseWriter, *http.Request, []*lint.Result) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := readBody(w, r)
		if !ok {
			return
		}
		if judging.of(r).Acquire(r.Context(), 1) != nil {
			tooBusy(w, r)
			return
		}
		defer judging.of(r).Release(1)
		documents, errs := lint.Read(lint.Input{Data: body, JSON: formatsOf(r).in == formatJSON}, readLimits)
		if len(errs) > 0 {
			writeUnreadable(w, r, errs)
			return
		}
		if len(documents) == 0 {
			WriteProblem(w, r, http.StatusBadRequest, "the body has no manifest: send at least one")
			return
		}
		results, err := lint.Lint(r.Context(), documents, d.options(r))
		if limit := (*lint.LimitError)(nil); errors.As(err, &limit) {
			WriteProblem(w, r, http.StatusRequestEntityTooLarge, limit.Error())
			return
		}
		if err != nil {
			d.Logger.Error(err, "manifests could not be judged", "path", r.URL.Path)
			WriteProblem(w, r, http.StatusServiceUnavailable,
				"the manifests could not be judged in time, or the cluster could not be asked: send fewer, or try again later")
			return
		}
		if err := write(w, r, results); err != nil {
			d.Logger.Error(err, "answer could not be written", "path", r.URL.Path)
			WriteProblem(w, r, http.StatusInternalServerError, "the answer could not be written")
		}
	}
}

var readLimits = lint.Limits{Bytes: maxManifestBytes, Documents: maxManifests, Nodes: maxNodes}

func (d Decisions) options(r *http.Request) lint.Options {
	query := queryOf(r)
	options := lint.Options{
		Schemas: d.Schemas, Namespace: query.namespace, Now: d.Clock.Now(), AnnotationsOnly: d.AnnotationsOnly, Rules: d.Rules,
		MaxPlatform: maxPlatform, CleanupInterval: d.CleanupInterval,
	}
	if query.offline {
		options.Source = platform.Offline{Platform: d.Builtin}
		return options
	}
	options.Source = readable{d.Source, d.Authorizer, userOf(r)}
	if d.Access != nil {
		user := userOf(r)
		options.Access = func(ctx context.Context, review *rules.Request) (rules.Access, error) {
			return d.Access(ctx, user, review)
		}
	}
	return options
}

// defaulted is the answer of /v1/default.
type defaulted struct {
	*lint.Report
	// Manifests in the order of the documents, lists taken apart.
	Manifests []map[string]any `json:"manifests"`
}

// writeDefaulted answers with the manifests as admission would store them. In YAML they are a
// stream that kubectl apply takes, with the author's order and comments; comments before each
// object hold its findings.
func writeDefaulted(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	report := lint.NewReport(results)
	if formatsOf(r).out == formatYAML {
		return writeStream(w, r, results)
	}
	answer := defaulted{Report: report}
	for _, result := range results {
		answer.Manifests = append(answer.Manifests, result.Manifest)
	}
	return write(w, r, answer)
}

func writeStream(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	var out bytes.Buffer
	for _, result := range results {
		text, err := result.YAML()
		if err != nil {
			return fmt.Errorf("%s: %w", result.Object, err)
		}
		out.WriteString("---\n")
		for _, filled := range result.Defaults {
			out.WriteString(comment("curfew: " + filled.String()))
		}
		for _, finding := range result.Findings {
			out.WriteString(comment(fmt.Sprintf("curfew: %s: %s (%s)", finding.Severity, finding.Finding, finding.Rule)))
		}
		out.Write(text)
	}
	send(w, r, out.Bytes())
	return nil
}

// writeValidated answers with the denials and warnings. Findings are an answer, not an error: the
// status is 200 whatever they say, and "allowed" sums them up.
func writeValidated(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	return write(w, r, lint.NewReport(results))
}

// maxErrors is how many documents' errors one answer lists.
const maxErrors = 100

// writeUnreadable reports the unreadable documents. Then no document is judged, because the missing
// ones might change the judgement.
func writeUnreadable(w http.ResponseWriter, r *http.Request, errs []error) {
	if limit := (*lint.LimitError)(nil); errors.As(errs[0], &limit) {
		WriteProblem(w, r, http.StatusRequestEntityTooLarge, limit.Error())
		return
	}
	detail := "1 document cannot be read"
	if len(errs) > 1 {
		detail = fmt.Sprintf("%d documents cannot be read", len(errs))
	}
	var texts []string
	for _, err := range errs[:min(len(errs), maxErrors)] {
		texts = append(texts, err.Error())
	}
	WriteProblem(w, r, http.StatusBadRequest, detail, texts...)
}

// write sends an answer in the format that was asked for.
func write(w http.ResponseWriter, r *http.Request, answer any) error {
	marshal := json.Marshal
	if formatsOf(r).out == formatYAML {
		marshal = lint.MarshalYAML
	}
	body, err := marshal(answer)
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	send(w, r, body)
	return nil
}

func send(w http.ResponseWriter, r *http.Request, body []byte) {
	contentType := "application/json"
	if formatsOf(r).out == formatYAML {
		contentType = "application/yaml"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
	// The client may have disconnected.
	_, _ = w.Write(append(bytes.TrimRight(body, "\n"), '\n'))
}

// comment makes one line of YAML comment of any text.
func comment(text string) string {
	return "# " + strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar || r == '\ufeff' {
			return ' '
		}
		return r
	}, text) + "\n"
}

// readable is the part of the cluster that a user may read: a manifest names its namespace and its
// runtime, and the findings show their settings.
type readable struct {
	platform.Source
	authorizer Authorizer
	user       authenticationv1.UserInfo
}

func (r readable) mayGet(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (bool, error) {
	return r.authorizer.Allows(ctx, r.user, authorizer.AttributesRecord{ResourceRequest: true, Verb: "get", APIGroup: resource.Group,
		APIVersion: resource.Version, Resource: resource.Resource, Namespace: namespace, Name: name})
}

// Namespace implements [platform.Source].
func (r readable) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	if ok, err := r.mayGet(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"), name, name); err != nil || !ok {
		return nil, cmp.Or(err, lint.ErrNotReadable)
	}
	return r.Source.Namespace(ctx, name)
}

// Runtime implements [platform.Source].
func (r readable) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	resource := reference.Kind.GroupVersion().WithResource(reference.Resource)
	if ok, err := r.mayGet(ctx, resource, reference.Namespace, reference.Name); err != nil || !ok {
		return nil, cmp.Or(err, platform.ErrUnknown)
	}
	return r.Source.Runtime(ctx, reference)
}
