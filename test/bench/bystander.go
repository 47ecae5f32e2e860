package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	bystanderName = "bystander"
	// bystanderEvery is the time between two of the bystander's requests.
	bystanderEvery = 10 * time.Millisecond
)

// bystander is another client, an ordinary ServiceAccount: it reads one small ConfigMap a hundred
// times a second. The requests start by the clock, whether or not the last one was answered, or it
// would ask least often when answers are slowest.
type bystander struct {
	client kubernetes.Interface
	enough chan struct{}
	done   sync.WaitGroup

	mu      sync.Mutex
	samples []bystanderSample
	err     error
}

type bystanderSample struct {
	at      time.Time // when it was sent
	latency time.Duration
}

// newBystander makes the account, its right and the ConfigMap.
func newBystander(ctx context.Context, e *environment, admin kubernetes.Interface) (kubernetes.Interface, error) {
	meta := metav1.ObjectMeta{Name: bystanderName, Namespace: benchNamespace}
	steps := []func() error{
		func() error {
			_, err := admin.CoreV1().ConfigMaps(benchNamespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := admin.CoreV1().ServiceAccounts(benchNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := admin.RbacV1().Roles(benchNamespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := admin.RbacV1().RoleBindings(benchNamespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: bystanderName},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: bystanderName, Namespace: benchNamespace}}}, metav1.CreateOptions{})
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("prepare the bystander: %w", err)
		}
	}
	path, err := e.serviceAccountConfig(ctx, benchNamespace, bystanderName)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the bystander's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return nil, fmt.Errorf("make the bystander's client: %w", err)
	}
	return client, nil
}

// stand begins to ask.
func stand(ctx context.Context, client kubernetes.Interface) *bystander {
	b := &bystander{client: client, enough: make(chan struct{})}
	b.done.Go(func() {
		ticker := time.NewTicker(bystanderEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.enough:
				return
			case <-ticker.C:
				b.done.Go(func() { b.ask(ctx) })
			}
		}
	})
	return b
}

func (b *bystander) ask(ctx context.Context) {
	at := time.Now()
	_, err := b.client.CoreV1().ConfigMaps(benchNamespace).Get(ctx, bystanderName, metav1.GetOptions{})
	latency := time.Since(at)
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.err = fmt.Errorf("the bystander's request: %w", err)
		return
	}
	b.samples = append(b.samples, bystanderSample{at, latency})
}

// leave ends it, once the last answers have come.
func (b *bystander) leave() error {
	close(b.enough)
	b.done.Wait()
	return b.err
}

// between returns the latencies, in milliseconds, of the requests that were sent in a span of time.
func (b *bystander) between(from, to time.Time) []float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []float64
	for _, s := range b.samples {
		if !s.at.Before(from) && !s.at.After(to) {
			out = append(out, float64(s.latency)/float64(time.Millisecond))
		}
	}
	return out
}
