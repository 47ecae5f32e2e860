package main

import (
	"context"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"curfew.dev/curfew/controller/settings"
)

// addSettings publishes the flags.
func (c *controller) addSettings(context.Context) error {
	objects, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	authentication, err := authenticationclient.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	data := maps.Clone(c.options.published)
	data[settings.Version] = version
	c.settings = &settings.Publisher{
		ConfigMaps: objects.Resource(settings.Resource).Namespace(c.options.namespace),
		User: func(ctx context.Context) (string, error) {
			review, err := authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				return "", err
			}
			return review.Status.UserInfo.Username, nil
		},
		Data: data, Clock: c.clock, Log: c.log.WithName("settings"),
	}
	return nil
}
