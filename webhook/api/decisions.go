package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"

	"curfew.dev/curfew/policy"
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
	// Profiles of the kinds that are judged; kinds without one get a bare profile.
	Profiles policy.Profiles
	// Scopes knows the cluster. It is not asked for requests with ?offline=true.
	Scopes lint.Scopes
	// Authenticator and Authorizer say who may ask about the cluster. They are not asked for requests with ?offline=true.
	Authenticator Authenticator
	Authorizer    Authorizer
	// Access asks whether the user of a request, and the controller, may delete what is under review; nil means that nobody is
	// asked, as with ?offline=true.
	Access func(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error)
	// Rules are the settings of the rules.
	Rules rules.Options
	// AnnotationsOnly is --native-ttl=off.
	AnnotationsOnly bool
	// Logger is used for errors inside Curfew; users get to see none of them.
	Logger logr.Logger
}

// The limits of one request, and of all at once. They hold the memory down, since admission answers from the same process: a
// parser makes a few hundred bytes of each node.
const (
	maxManifestBytes = 3 << 20
	maxManifests     = 2000
	maxNodes         = 150000
	// maxInFlight requests are read at once, offline ones counted apart, so that nobody without a token can keep out those who
	// have one; maxAtWork of them are judged at once.
	maxInFlight = 8
	maxAtWork   = 2
	// reviewTimeout bounds each question to the API server about the user.
	reviewTimeout = 3 * time.Second
)

func (d *Decisions) validate() error {
	var errs []error
	if d.Profiles == nil {
		errs = append(errs, errors.New("api: Profiles is nil: use policy.NewProfiles(policy.BuiltinProfiles()...)"))
	}
	if d.Scopes == nil {
		errs = append(errs, errors.New("api: Scopes is nil: use those of the webhooks"))
	}
	if d.Authenticator == nil {
		errs = append(errs, errors.New("api: Authenticator is nil: use NewTokenReviews"))
	}
	if d.Authorizer == nil {
		errs = append(errs, errors.New("api: Authorizer is nil: use NewAccessReviews"))
	}
	return errors.Join(errs...)
}

// Mount adds /v1/default, /v1/validate and /openapi.json to a router of [New].
func (d Decisions) Mount(router chi.Router) error {
	if err := d.validate(); err != nil {
		return err
	}
	router.Get(PathOpenAPI, serveOpenAPI)
	work := newWorkshop()
	router.Group(func(router chi.Router) {
		router.Use(queried, crowded(maxInFlight), authenticated(d.Authenticator, d.Logger), authorized(d.Authorizer, d.Logger), negotiated)
		router.Post(PathDefault, d.judged(work, writeDefaulted))
		router.Post(PathValidate, d.judged(work, writeValidated))
	})
	return nil
}

// judged reads the documents of a request, judges them and leaves the answer to write.
func (d Decisions) judged(work workshop, write func(http.ResponseWriter, *http.Request, []*lint.Result) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := readBody(w, r)
		if !ok {
			return
		}
		if !work.enter(r.Context()) {
			tooBusy(w, r)
			return
		}
		defer work.leave()
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
		Profiles: d.Profiles, Scopes: d.Scopes, Namespace: query.namespace, AnnotationsOnly: d.AnnotationsOnly, Rules: d.Rules,
	}
	switch {
	case query.offline:
		options.Scopes = nil
	case d.Access != nil:
		user := userOf(r)
		options.Access = func(ctx context.Context, review *rules.Request) (rules.Access, error) {
			return d.Access(ctx, user, review)
		}
	}
	return options
}
