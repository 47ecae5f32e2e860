package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/quote"
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
	// Settings are those of admission. Requests with ?offline=true do not read their source.
	Settings lint.Options
	// Busy reports whether admission needs the memory of the process: requests are then refused. Nil
	// means never.
	Busy func() bool
	// Clock tells the time; each request reads it once.
	Clock clock.PassiveClock
	// TokenReviews and Authorizer decide who may ask about the cluster. Requests with ?offline=true
	// do not use them. TokenReviews takes a client that may create tokenreviews.authentication.k8s.io.
	TokenReviews authenticationclient.TokenReviewInterface
	Authorizer   Authorizer
	// Audience is that of the tokens. If it is empty, they must be meant for the API server, as tokens
	// of kubectl and of service accounts are by default.
	Audience string
	// Access asks whether the user of a request, and the controller, may delete the object under
	// review; nil means that it is not asked, as with ?offline=true.
	Access func(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error)
	// Logger is used for errors inside Curfew; users get to see none of them.
	Logger logr.Logger
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
	// maxWait is how long a request waits for a slot, and requestTimeout how long it takes in all.
	maxWait        = 2 * time.Second
	requestTimeout = 10 * time.Second
)

var readLimits = lint.Limits{Bytes: maxManifestBytes, Documents: maxManifests, Nodes: maxNodes}

// service serves decisions.
type service struct {
	Decisions
	authenticating  *semaphore.Weighted
	online, offline slots
}

// slots bound the requests that are read, and those that are judged.
type slots struct{ inFlight, atWork *semaphore.Weighted }

func newSlots() slots {
	return slots{inFlight: semaphore.NewWeighted(maxInFlight), atWork: semaphore.NewWeighted(maxAtWork)}
}

// answering serves what render makes of the results.
func (s *service) answering(render func(format string, results []*lint.Result) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		format, results, failed := s.decide(w, r)
		if failed != nil {
			failed.write(w, r)
			return
		}
		body, err := render(format, results)
		if err != nil {
			s.Logger.Error(err, "answer could not be written", "path", r.URL.Path)
			problem(http.StatusInternalServerError, "the answer could not be written").write(w, r)
			return
		}
		w.Header().Set("Content-Type", format)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Add("Vary", "Accept")
		// The client may have disconnected.
		_, _ = w.Write(append(bytes.TrimRight(body, "\n"), '\n'))
	}
}

// decide returns the results of a request, and the format to write them in.
func (s *service) decide(w http.ResponseWriter, r *http.Request) (format string, _ []*lint.Result, _ *Problem) {
	query, failed := parseQuery(r.URL.RawQuery)
	if failed != nil {
		return "", nil, failed
	}
	if s.Busy != nil && s.Busy() { // Admission has large objects to review, and cannot wait.
		return "", nil, tooBusy(w)
	}
	options, slots := s.Settings, s.offline
	options.Namespace, options.Now, options.MaxPlatform = query.namespace, s.Clock.Now(), maxPlatform
	options.Source = platform.Offline{Platform: s.Builtin}
	if !query.offline { // A request without a valid token takes no slot.
		user, failed := s.authenticated(w, r)
		if failed == nil {
			failed = s.authorized(r, user)
		}
		if failed != nil {
			return "", nil, failed
		}
		slots, options.Source = s.online, readable{s.Settings.Source, s.Authorizer, user}
		if s.Access != nil {
			options.Access = func(ctx context.Context, review *rules.Request) (rules.Access, error) {
				return s.Access(ctx, user, review)
			}
		}
	}
	waiting, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	if slots.inFlight.Acquire(waiting, 1) != nil {
		return "", nil, tooBusy(w)
	}
	defer slots.inFlight.Release(1)
	reader, out, failed := negotiated(w, r.Header)
	if failed != nil {
		return "", nil, failed
	}
	body, failed := readBody(w, r)
	if failed != nil {
		return "", nil, failed
	}
	if slots.atWork.Acquire(r.Context(), 1) != nil {
		return "", nil, tooBusy(w)
	}
	defer slots.atWork.Release(1)
	results, failed := s.judge(r, lint.Input{Data: body, JSON: reader == jsonType}, options)
	return out, results, failed
}

// judge reads the documents of a request and judges them.
func (s *service) judge(r *http.Request, input lint.Input, options lint.Options) ([]*lint.Result, *Problem) {
	documents, errs := lint.Read(input, readLimits)
	if len(errs) > 0 {
		return nil, unreadable(errs)
	}
	if len(documents) == 0 {
		return nil, problem(http.StatusBadRequest, "the body has no manifest: send at least one")
	}
	results, err := lint.Lint(r.Context(), documents, options)
	if limit := (*lint.LimitError)(nil); errors.As(err, &limit) {
		return nil, problem(http.StatusRequestEntityTooLarge, limit.Error())
	}
	if err != nil {
		s.Logger.Error(err, "manifests could not be judged", "path", r.URL.Path)
		return nil, problem(http.StatusServiceUnavailable,
			"the manifests could not be judged in time, or the cluster could not be asked: send fewer, or try again later")
	}
	return results, nil
}

// defaulted is the answer of /v1/default: the manifests as admission would store them, in the order
// of the documents, lists taken apart. In YAML they are a stream that kubectl apply takes, with the
// author's order and comments; comments before each object hold its findings.
func defaulted(format string, results []*lint.Result) ([]byte, error) {
	if format == yamlType {
		return stream(results)
	}
	answer := struct {
		*lint.Report
		Manifests []map[string]any `json:"manifests"`
	}{Report: lint.NewReport(results)}
	for _, result := range results {
		answer.Manifests = append(answer.Manifests, result.Manifest)
	}
	return json.Marshal(answer)
}

func stream(results []*lint.Result) ([]byte, error) {
	var out bytes.Buffer
	for _, result := range results {
		text, err := result.YAML()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", result.Object, err)
		}
		out.WriteString("---\n")
		for _, filled := range result.Defaults {
			out.WriteString("# curfew: " + quote.OneLine(filled.String()) + "\n")
		}
		for _, finding := range result.Findings {
			out.WriteString("# curfew: " + quote.OneLine(fmt.Sprintf("%s: %s (%s)", finding.Severity, finding.Finding, finding.Rule)) + "\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// validated is the answer of /v1/validate, with the denials and warnings. Findings are an answer, not
// an error: the status is 200 whatever they say, and "allowed" sums them up.
func validated(format string, results []*lint.Result) ([]byte, error) {
	if format == yamlType {
		return lint.MarshalYAML(lint.NewReport(results))
	}
	return json.Marshal(lint.NewReport(results))
}

// maxErrors is how many documents' errors one answer lists.
const maxErrors = 100

// unreadable reports the unreadable documents. Then no document is judged, because the missing ones
// might change the judgement.
func unreadable(errs []error) *Problem {
	if limit := (*lint.LimitError)(nil); errors.As(errs[0], &limit) {
		return problem(http.StatusRequestEntityTooLarge, limit.Error())
	}
	detail := "1 document cannot be read"
	if len(errs) > 1 {
		detail = fmt.Sprintf("%d documents cannot be read", len(errs))
	}
	var texts []string
	for _, err := range errs[:min(len(errs), maxErrors)] {
		texts = append(texts, err.Error())
	}
	return problem(http.StatusBadRequest, detail, texts...)
}

// readable is the part of the cluster that a user may read: a manifest names its namespace and its
// runtime, and the findings show their settings.
type readable struct {
	platform.Source
	authorizer Authorizer
	user       authenticationv1.UserInfo
}

func (r readable) mayGet(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (bool, error) {
	return r.authorizer.Allows(ctx, r.user, authorizer.AttributesRecord{
		Verb: "get", APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Namespace: namespace, Name: name,
		ResourceRequest: true,
	})
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
