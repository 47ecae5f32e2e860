package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

	mu        sync.Mutex
	latencies []float64 // in milliseconds
	err       error
}

// newBystander makes the account, its right and the ConfigMap.
func newBystander(ctx context.Context, e *environment, admin kubernetes.Interface) (kubernetes.Interface, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: bystanderName}}
	_, err := admin.CoreV1().ConfigMaps(benchNamespace).Create(ctx, configMap(bystanderName), metav1.CreateOptions{})
	_, other := admin.CoreV1().ServiceAccounts(benchNamespace).Create(ctx, account, metav1.CreateOptions{})
	err = errors.Join(client.IgnoreAlreadyExists(err), client.IgnoreAlreadyExists(other), grant(ctx, admin, "bench-"+bystanderName,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		rbacv1.Subject{Kind: "ServiceAccount", Name: bystanderName, Namespace: benchNamespace}))
	if err != nil {
		return nil, fmt.Errorf("prepare the bystander: %w", err)
	}
	path, err := e.serviceAccountConfig(ctx, benchNamespace, bystanderName)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the bystander's kubeconfig: %w", err)
	}
	return kubernetes.NewForConfig(connect(config))
}

// stand begins to ask. Without a client it asks nothing.
func stand(ctx context.Context, client kubernetes.Interface) *bystander {
	b := &bystander{client: client, enough: make(chan struct{})}
	if client == nil {
		return b
	}
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
	began := time.Now()
	_, err := b.client.CoreV1().ConfigMaps(benchNamespace).Get(ctx, bystanderName, metav1.GetOptions{})
	latency := time.Since(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		b.err = fmt.Errorf("the bystander's request: %w", err)
	}
	b.latencies = append(b.latencies, float64(latency)/float64(time.Millisecond))
}

// leave ends it, once the last answers have come.
func (b *bystander) leave() error {
	close(b.enough)
	b.done.Wait()
	return b.err
}
