package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/webhook/api"
	"curfew.dev/curfew/webhook/lint"
)

// apiOptions are the flags of the HTTP API, a part of those of the webhook.
type apiOptions struct {
	apiAddr string
}

func (o *apiOptions) addAPI(flags *pflag.FlagSet) {
	flags.StringVar(&o.apiAddr, "api-addr", o.apiAddr, "address that serves /v1/default, /v1/validate and /openapi.json, with the webhooks' certificate; empty means none")
}

func (o *apiOptions) validateAPI() error {
	if _, _, err := net.SplitHostPort(o.apiAddr); o.apiAddr != "" && err != nil {
		return fmt.Errorf("--api-addr=%s: give host:port, or :port for all addresses", o.apiAddr)
	}
	return nil
}

// addAPI serves over HTTP what the webhooks would answer, with the same profiles, context, settings
// and certificate.
func (a *admission) addAPI(ctx context.Context) error {
	if a.options.apiAddr == "" {
		return nil
	}
	decisions, err := a.decisions()
	if err != nil {
		return fmt.Errorf("setting up the HTTP API: %w", err)
	}
	router, err := api.New(api.Options{Ready: a.ready(), Logger: decisions.Logger})
	if err != nil {
		return fmt.Errorf("setting up the HTTP API: %w", err)
	}
	if err := decisions.Mount(router); err != nil {
		return fmt.Errorf("setting up the HTTP API: %w", err)
	}
	server, err := api.ListenTLS(ctx, a.options.apiAddr, router, a.certificate)
	if err != nil {
		return fmt.Errorf("setting up the HTTP API: %w", err)
	}
	return a.mgr.Add(server)
}

func (a *admission) decisions() (*api.Decisions, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		return nil, err
	}
	return &api.Decisions{
		Builtin:         a.builtin,
		Source:          a.handlers.Source(),
		Busy:            a.handlers.Busy,
		Schemas:         schemas,
		Clock:           a.clock,
		Authenticator:   api.NewTokenReviews(a.typed.AuthenticationV1().TokenReviews()),
		Authorizer:      api.NewAccessReviews(a.typed.AuthorizationV1().SubjectAccessReviews()),
		Access:          a.handlers.Access,
		Rules:           a.handlers.RuleOptions(),
		AnnotationsOnly: a.options.annotationsOnly(),
		Logger:          a.log.WithName("api"),
	}, nil
}
