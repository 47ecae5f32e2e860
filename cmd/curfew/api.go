package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/webhook"
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

// addAPI serves over HTTP what the webhooks would answer: by the same profiles, scopes, settings and certificate.
func addAPI(ctx context.Context, mgr manager.Manager, config *rest.Config, options *options, handlers *webhook.Webhooks,
	certificate *tls.Config, builtin *platform.Snapshot, ready []api.Check, log logr.Logger) error {
	if options.apiAddr == "" {
		return nil
	}
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	definitions, err := crd.All()
	if err != nil {
		return err
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		return err
	}
	router, err := api.New(api.Options{Ready: ready, Logger: log})
	if err != nil {
		return err
	}
	err = api.Decisions{
		Builtin:         builtin,
		Source:          handlers.Source(),
		Busy:            handlers.Busy,
		Schemas:         schemas,
		Clock:           clock.RealClock{},
		Authenticator:   api.NewTokenReviews(authentication.TokenReviews()),
		Authorizer:      api.NewAccessReviews(authorization.SubjectAccessReviews()),
		Access:          handlers.Access,
		Rules:           handlers.RuleOptions(),
		AnnotationsOnly: options.annotationsOnly(),
		Logger:          log,
	}.Mount(router)
	if err != nil {
		return err
	}
	server, err := api.ListenTLS(ctx, options.apiAddr, router, certificate)
	if err != nil {
		return err
	}
	return mgr.Add(server)
}
