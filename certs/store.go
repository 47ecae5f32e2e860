package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// maxAttempts bounds the races one pass fights; the next pass goes on where this one stopped.
const maxAttempts = 5

// ensure corrects the Secret and returns its content. Replicas that run it at the same time end
// with the same material: a write succeeds only on the state that was judged, and the loser judges
// the winner's content.
func (s *SelfSigned) ensure(ctx context.Context) (outcome, error) {
	var lost error
	for range maxAttempts {
		secret := &corev1.Secret{}
		err := s.options.Client.Get(ctx, s.secretKey(), secret)
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return outcome{}, fmt.Errorf("reading Secret %s: %w", s.secretKey(), err)
		}

		out, err := s.wanted.plan(secret.Data, s.observed(), s.now())
		if err != nil {
			return outcome{}, fmt.Errorf("planning Secret %s: %w", s.secretKey(), err)
		}
		if len(out.reasons) == 0 {
			return out, nil
		}

		err = s.write(ctx, secret, absent, out)
		if err == nil {
			log.FromContext(ctx).Info("Wrote webhook certificates", "secret", s.secretKey(), "reasons", out.reasons)
			return out, nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !(apierrors.IsNotFound(err) && !absent) {
			return outcome{}, fmt.Errorf("writing Secret %s: %w", s.secretKey(), err)
		}
		lost = err
	}
	return outcome{}, fmt.Errorf("writing Secret %s: another writer was first %d times: %w", s.secretKey(), maxAttempts, lost)
}

func (s *SelfSigned) write(ctx context.Context, secret *corev1.Secret, create bool, out outcome) error {
	secret.Data = out.data
	if !create {
		return s.options.Client.Update(ctx, secret, client.FieldOwner(fieldOwner)) // carries the resourceVersion that was read
	}
	secret.ObjectMeta = metav1.ObjectMeta{
		Namespace: s.options.Namespace,
		Name:      s.options.SecretName,
		Labels:    map[string]string{"app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/managed-by": "curfew"},
	}
	secret.Type = corev1.SecretTypeTLS
	return s.options.Client.Create(ctx, secret, client.FieldOwner(fieldOwner))
}

func (s *SelfSigned) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.options.Namespace, Name: s.options.SecretName}
}

// rewatch is the pause before a watch that ended or was refused is opened again.
const rewatch = 2 * time.Second

// watchAll calls changed whenever the Secret or one of the configurations may have changed, until
// ctx ends. Each watch selects one name, so that RBAC can limit it to that name. A watch only wakes
// the loop, which reads live: it keeps no state here, and a broken watch costs time, not
// correctness.
func (s *SelfSigned) watchAll(ctx context.Context, changed func()) (stopped *sync.WaitGroup) {
	stopped = &sync.WaitGroup{}
	fn := func(list client.ObjectList, name string, opts ...client.ListOption) {
		opts = append(opts, client.MatchingFields{"metadata.name": name})
		stopped.Go(func() { s.watchOne(ctx, list, opts, changed) })
	}
	fn(&corev1.SecretList{}, s.options.SecretName, client.InNamespace(s.options.Namespace))
	for _, name := range s.options.Configurations {
		fn(&admissionv1.MutatingWebhookConfigurationList{}, name)
		fn(&admissionv1.ValidatingWebhookConfigurationList{}, name)
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

// errNotAllowed refuses a client with a valid certificate of another name.
var errNotAllowed = errors.New("this client certificate may not call webhooks")

// RequireClients has a TLS server ask for client certificates of the CAs in a file, with one of the
// common names if any are given. The file is read for each handshake, so that it can be replaced.
func RequireClients(config *tls.Config, caFile string, names []string) (*tls.Config, error) {
	if _, err := clientCAs(caFile); err != nil {
		return nil, err
	}
	inner := config.Clone()
	inner.ClientAuth = tls.RequireAndVerifyClientCert
	inner.VerifyConnection = func(state tls.ConnectionState) error {
		if len(names) == 0 || slices.Contains(names, state.PeerCertificates[0].Subject.CommonName) {
			return nil
		}
		return fmt.Errorf("%w: common name %q is none of %q", errNotAllowed, state.PeerCertificates[0].Subject.CommonName, names)
	}
	outer := config.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cas, err := clientCAs(caFile)
		if err != nil {
			return nil, err
		}
		copied := inner.Clone()
		copied.ClientCAs = cas
		return copied, nil
	}
	return outer, nil
}

func clientCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the CAs of clients: %w", err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return cas, nil
}

// injector puts the CA bundle into webhook configurations.
type injector struct {
	client client.Client
	names  []string
}

// read fetches the configurations that exist. The others are not an error: they may be created
// later, and are watched.
func (i injector) read(ctx context.Context) ([]client.Object, error) {
	var found []client.Object
	var errs []error
	for _, name := range i.names {
		for _, obj := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
			switch err := i.client.Get(ctx, client.ObjectKey{Name: name}, obj); {
			case err == nil:
				found = append(found, obj)
			case !apierrors.IsNotFound(err):
				errs = append(errs, fmt.Errorf("reading %T %q: %w", obj, name, err))
			}
		}
	}
	return found, errors.Join(errs...)
}

// inject patches the configurations whose bundle differs. The resourceVersion in the patch fails it
// if another writer, such as a replica with a newer bundle, has written since the read.
func (i injector) inject(ctx context.Context, configurations []client.Object, bundle []byte) error {
	var errs []error
	for _, obj := range configurations {
		stale := staleWebhooks(obj, bundle)
		if len(stale) == 0 {
			continue
		}
		patch, err := bundlePatch(obj.GetResourceVersion(), stale, bundle)
		if err != nil {
			errs = append(errs, fmt.Errorf("building the CA bundle patch of %T %q: %w", obj, obj.GetName(), err))
			continue
		}
		switch err := i.client.Patch(ctx, obj, patch, client.FieldOwner(fieldOwner)); {
		case apierrors.IsNotFound(err): // deleted since; its successor, if any, raises an event
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("injecting the CA bundle into %T %q: %w", obj, obj.GetName(), err))
			continue
		}
		log.FromContext(ctx).Info("Injected the CA bundle", "kind", fmt.Sprintf("%T", obj), "name", obj.GetName(), "webhooks", stale)
	}
	return errors.Join(errs...)
}

// staleWebhooks names the entries whose bundle is not the wanted one.
func staleWebhooks(obj client.Object, bundle []byte) []string {
	var names []string
	for _, w := range webhooksOf(obj) {
		if !bytes.Equal(w.config.CABundle, bundle) {
			names = append(names, w.name)
		}
	}
	return names
}

// bundlePatch is a strategic merge patch. The list of webhooks is merged by name, so the patch says
// nothing about entries and fields that it does not mean, whatever their order; a JSON Patch would
// have to address them by index.
func bundlePatch(resourceVersion string, webhooks []string, bundle []byte) (client.Patch, error) {
	var entries []map[string]any
	for _, name := range webhooks {
		entries = append(entries, map[string]any{"name": name, "clientConfig": map[string]any{"caBundle": bundle}})
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion}, "webhooks": entries})
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.StrategicMergePatchType, data), nil
}
