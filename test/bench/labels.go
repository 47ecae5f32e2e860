package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// labelled makes ConfigMaps go by their TTL label.
type labelled struct{ client kubernetes.Interface }

func (labelled) resource() string { return resourceConfigMaps }

func (l labelled) prepare(ctx context.Context) error { return load(l).prepare(ctx) }

// create makes ConfigMaps without a label.
func (l labelled) create(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := l.client.CoreV1().ConfigMaps(benchNamespace).Create(ctx, configMap(name), metav1.CreateOptions{})
		return err
	})
}

// configMap is a small one.
func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}}, Data: map[string]string{"key": "value"}}
}

// finish labels all of them with the second at which they are due, one by one.
func (l labelled) finish(ctx context.Context, set jobSet, due time.Time) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, wellknown.LabelTTL, lifetime.TTLLabel{At: due})
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := l.client.CoreV1().ConfigMaps(benchNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// clear deletes the remaining objects of a set.
func (l labelled) clear(ctx context.Context, set jobSet) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		return client.IgnoreNotFound(l.client.CoreV1().ConfigMaps(benchNamespace).Delete(ctx, name, metav1.DeleteOptions{}))
	})
}

func (l labelled) observe(ctx context.Context, set jobSet) (*observer, error) {
	maps := l.client.CoreV1().ConfigMaps(benchNamespace)
	list, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps for the observer: %w", err)
	}
	return observe(ctx, set, list.ResourceVersion, maps.Watch, deleted)
}

// grantLabels lets labels and cleanup policies delete ConfigMaps.
func (e *environment) grantLabels(ctx context.Context, client kubernetes.Interface) error {
	return grant(ctx, client, "bench-labels", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "delete"}},
		rbacv1.Subject{Kind: "ServiceAccount", Name: "curfew-controller", Namespace: "curfew-system"},
		rbacv1.Subject{Kind: "ServiceAccount", Name: "curfew-cleanup", Namespace: "curfew-system"})
}

// grant gives ServiceAccounts a right in the whole cluster. It is bound directly, so that it takes
// effect at once.
func grant(ctx context.Context, client kubernetes.Interface, name string, rule rbacv1.PolicyRule, to ...rbacv1.Subject) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, Subjects: to,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("grant %s: %w", name, err)
	}
	return nil
}

// startLabels starts Curfew and returns when ConfigMaps are among the kinds whose labels are carried
// out.
func startLabels(ctx context.Context, e *environment, h heat) (*process, error) {
	c, err := e.launchCurfew(ctx, h.log, e.curfewConfig)
	if err != nil {
		return nil, err
	}
	if err := c.awaitLabels(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("%w; its log is %s", err, h.log)
	}
	return c.process, nil
}

func (c *curfewProcess) awaitLabels(ctx context.Context) error {
	err := c.poll(ctx, time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		if _, skipped := samples[`curfew_label_kinds_skipped{group="",kind="ConfigMap",reason="permission"}`]; err == nil && (skipped || samples["curfew_label_kinds_watched"] == 0) {
			err = errors.New("they are not among the kinds that are watched")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("await that Curfew carries out the labels of ConfigMaps: %w", err)
	}
	return nil
}
