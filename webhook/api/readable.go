package api

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/webhook/lint"
)

// readable is the part of the cluster that a user may read: a manifest names its namespace and its
// runtime, and the findings show what these say.
type readable struct {
	platform.Source
	authorizer Authorizer
	user       authenticationv1.UserInfo
}

// Namespace implements [platform.Source].
func (r readable) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	if ok, err := r.authorizer.MayGet(ctx, r.user, namespaces, name, name); err != nil || !ok {
		return nil, orElse(err, lint.ErrNotReadable)
	}
	return r.Source.Namespace(ctx, name)
}

// Runtime implements [platform.Source].
func (r readable) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	resource := reference.Kind.GroupVersion().WithResource(reference.Resource)
	if ok, err := r.authorizer.MayGet(ctx, r.user, resource, reference.Namespace, reference.Name); err != nil || !ok {
		return nil, orElse(err, platform.ErrUnknown)
	}
	return r.Source.Runtime(ctx, reference)
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
