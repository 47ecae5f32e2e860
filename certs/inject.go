package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

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
