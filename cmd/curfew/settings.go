package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"curfew.dev/curfew/controller/settings"
)

// addSettings publishes the flags, on the leader.
func addSettings(mgr manager.Manager, config *rest.Config, options *options, log logr.Logger) error {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	authentication, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	data := maps.Clone(options.published)
	data[settings.Version] = version
	publisher := &settings.Publisher{
		ConfigMaps: objects.Resource(settings.Resource).Namespace(options.namespace),
		User: func(ctx context.Context) (string, error) {
			review, err := authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return "", err
			}
			return review.Status.UserInfo.Username, nil
		},
		Data: data, Clock: clock.RealClock{}, Log: log.WithName("settings"),
	}
	return mgr.Add(leaderRunnable(publisher.Run))
}
