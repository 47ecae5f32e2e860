package certs

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// rewatch is the pause before a watch that ended or was refused is opened again.
const rewatch = 2 * time.Second

// watchAll calls changed whenever the Secret or one of the configurations may have changed, until
// ctx ends. Each watch is narrowed to one name, which is what lets RBAC limit it to that name. It
// only wakes the loop up, the loop reads live; so no state is kept here, and a watch that does not
// work costs time, not correctness.
func (s *SelfSigned) watchAll(ctx context.Context, changed func()) (stopped *sync.WaitGroup) {
	stopped = &sync.WaitGroup{}
	one := func(list client.ObjectList, name string, opts ...client.ListOption) {
		opts = append(opts, client.MatchingFields{"metadata.name": name})
		stopped.Go(func() { s.watchOne(ctx, list, opts, changed) })
	}
	one(&corev1.SecretList{}, s.options.SecretName, client.InNamespace(s.options.Namespace))
	for _, name := range s.options.Configurations {
		one(&admissionv1.MutatingWebhookConfigurationList{}, name)
		one(&admissionv1.ValidatingWebhookConfigurationList{}, name)
	}
	return stopped
}

func (s *SelfSigned) watchOne(ctx context.Context, list client.ObjectList, opts []client.ListOption, changed func()) {
	for ctx.Err() == nil {
		// Without a resourceVersion the watch begins with the present state as events, so nothing falls
		// between two.
		w, err := s.options.Client.Watch(ctx, list, opts...)
		if err != nil {
			log.FromContext(ctx).V(1).Info("Watch refused, will try again", "of", fmt.Sprintf("%T", list), "error", err.Error())
		} else {
			drain(ctx, w, changed)
		}
		select {
		case <-ctx.Done():
		case <-s.options.Clock.After(rewatch):
		}
	}
}

// drain reports events until the watch ends.
func drain(ctx context.Context, w watch.Interface, changed func()) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return
			}
			changed()
		}
	}
}
