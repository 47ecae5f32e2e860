package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/webhook/lint"
)

// The paths of the decisions. They are the nonResourceURLs that RBAC grants, with verb post.
const (
	PathDefault  = "/v1/default"
	PathValidate = "/v1/validate"
	PathOpenAPI  = "/openapi.json"
)

// Decisions answers for manifests what admission would say of them.
type Decisions struct {
	// Builtin is what comes with Curfew: profiles and no policies. It is what requests with
	// ?offline=true are judged by.
	Builtin *platform.Snapshot
	// Source is what admission judges by. It is not asked for requests with ?offline=true.
	Source platform.Source
	// Busy reports whether admission needs the memory of the process: requests are then refused. Nil
	// means never.
	Busy func() bool
	// Schemas of Curfew's own kinds.
	Schemas *lint.Schemas
	// Clock tells the time; each request reads it once.
	Clock Clock
	// Authenticator and Authorizer say who may ask about the cluster. They are not asked for requests
	// with ?offline=true.
	Authenticator Authenticator
	Authorizer    Authorizer
	// Access asks whether the user of a request, and the controller, may delete what is under review;
	// nil means that nobody is asked, as with ?offline=true.
	Access func(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error)
	// Rules are the settings of the rules.
	Rules rules.Options
	// AnnotationsOnly is --native-ttl=off.
	AnnotationsOnly bool
	// Logger is used for errors inside Curfew; users get to see none of them.
	Logger logr.Logger
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}

// The limits of one request, and of all at once. They hold the memory down, since admission answers
// from the same process: a parser makes a few hundred bytes of each node.
const (
	maxManifestBytes = 3 << 20
	maxManifests     = 2000
	maxNodes         = 150000
	// maxPlatform policies and profiles, whose expressions are compiled for the one request.
	maxPlatform = 100
	// maxInFlight requests are read at once and maxAtWork of them judged, offline ones counted apart,
	// so that nobody without a token can keep out those who have one.
	maxInFlight = 8
	maxAtWork   = 2
	// maxAuthenticating tokens are asked about at once; the others wait.
	maxAuthenticating = 16
	// reviewTimeout bounds each question to the API server about the user.
	reviewTimeout = 3 * time.Second
)

func (d *Decisions) validate() error {
	var errs []error
	for _, check := range []struct {
		missing bool
		why     string
	}{
		{d.Builtin == nil, "Builtin is nil: use a platform.Snapshot"},
		{d.Source == nil, "Source is nil: use that of the webhooks"},
		{d.Schemas == nil, "Schemas is nil: use lint.NewSchemas"},
		{d.Clock == nil, "Clock is nil: use clock.RealClock{} of k8s.io/utils"},
		{d.Authenticator == nil, "Authenticator is nil: use NewTokenReviews"},
		{d.Authorizer == nil, "Authorizer is nil: use NewAccessReviews"},
	} {
		if check.missing {
			errs = append(errs, errors.New("api: "+check.why))
		}
	}
	return errors.Join(errs...)
}

// Mount adds /v1/default, /v1/validate and /openapi.json to a router of [New].
func (d Decisions) Mount(router chi.Router) error {
	if err := d.validate(); err != nil {
		return err
	}
	router.Get(PathOpenAPI, serveOpenAPI)
	judging := newSlots(maxAtWork)
	router.Group(func(router chi.Router) {
		// A request without a valid token takes no slot.
		router.Use(queried, shed(d.Busy), authenticated(d.Authenticator, d.Logger), authorized(d.Authorizer, d.Logger), limitedInFlight(maxInFlight), negotiated)
		router.Post(PathDefault, d.judged(judging, writeDefaulted))
		router.Post(PathValidate, d.judged(judging, writeValidated))
	})
	return nil
}

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
		documents, errs := lint.Read(lint.Source{Data: body, JSON: formatsOf(r).in == formatJSON}, readLimits)
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
		MaxPlatform: maxPlatform,
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
