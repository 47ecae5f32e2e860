package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// labelled makes ConfigMaps go by their TTL label.
type labelled struct{ client kubernetes.Interface }

func (l labelled) namespace(ctx context.Context) error { return load{client: l.client}.namespace(ctx) }

// create makes ConfigMaps without a label.
func (l labelled) create(ctx context.Context, set jobSet) error {
	return l.createWith(ctx, set, benchNamespace, "")
}

func (l labelled) createWith(ctx context.Context, set jobSet, namespace, value string) error {
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		_, err := l.client.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(name, value), metav1.CreateOptions{})
		return err
	})
}

// configMap is a small one, with a label where there is a value.
func configMap(name, value string) *corev1.ConfigMap {
	out := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}}, Data: map[string]string{"key": "value"}}
	if value != "" {
		out.Labels[wellknown.LabelTTL] = value
	}
	return out
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
		err := l.client.CoreV1().ConfigMaps(benchNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (l labelled) observe(ctx context.Context, config *rest.Config, set jobSet) (*observer, error) {
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return nil, fmt.Errorf("make the observer's client: %w", err)
	}
	list, err := client.CoreV1().ConfigMaps(benchNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps for the observer: %w", err)
	}
	open := func(ctx context.Context, resourceVersion string) (io.ReadCloser, error) {
		return stream(ctx, client.CoreV1().RESTClient(), "configmaps", resourceVersion)
	}
	return observeWith(ctx, open, list.ResourceVersion, set, func() watched { return &corev1.ConfigMap{} })
}

// grantLabels lets labels and cleanup policies delete ConfigMaps. It is bound directly, so that it
// holds at once.
func (e *environment) grantLabels(ctx context.Context, client kubernetes.Interface) error {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-labels"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "delete"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			{Kind: "ServiceAccount", Name: "curfew-controller", Namespace: "curfew-system"},
			{Kind: "ServiceAccount", Name: "curfew-cleanup", Namespace: "curfew-system"},
		}}
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("let the controller delete ConfigMaps: %w", err)
	}
	return nil
}

// startLabels starts Curfew and returns when it carries out the labels of ConfigMaps.
func startLabels(flags ...string) func(context.Context, *environment, heat) (*process, error) {
	return func(ctx context.Context, e *environment, h heat) (*process, error) {
		c, err := e.launchCurfew(ctx, h.log, e.curfewConfig, flags...)
		if err != nil {
			return nil, err
		}
		if err := c.awaitLabels(ctx); err != nil {
			c.stop()
			return nil, fmt.Errorf("%w; its log is %s", err, h.log)
		}
		return c.process, nil
	}
}

// awaitLabels returns when ConfigMaps are among the kinds whose labels are carried out.
func (c *curfewProcess) awaitLabels(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		_, skipped := samples[`curfew_label_kinds_skipped{group="",kind="ConfigMap",reason="permission"}`]
		if err == nil && !skipped && samples["curfew_label_kinds_watched"] > 0 {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("Curfew ended: %w", c.err)
		default:
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("Curfew does not carry out the labels of ConfigMaps (%v)", err)
		}
	}
}

// labelName is what results about labels of so many objects are called.
func labelName(parts ...string) string { return "label." + strings.Join(parts, ".") }
