package webhookconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/settings"
)

// Client reads and writes one kind of webhook configuration, as a resource of a dynamic client
// does.
type Client interface {
	follow.Source
	Create(context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string) (*unstructured.Unstructured, error)
	Update(context.Context, *unstructured.Unstructured, metav1.UpdateOptions, ...string) (*unstructured.Unstructured, error)
}

// named lists and watches a single object by name, because permissions can be limited to names.
type named struct {
	Client
	name string
}

func (n named) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	options.FieldSelector = fields.OneTermEqualSelector("metadata.name", n.name).String()
	return n.Client.List(ctx, options)
}

func (n named) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = fields.OneTermEqualSelector("metadata.name", n.name).String()
	return n.Client.Watch(ctx, options)
}

// configuration is one of the two that a [Keeper] keeps, beside the static one of the same kind,
// which is only read.
type configuration struct {
	kind        string
	client      Client
	static, own *follow.Mirror[*webhooks]
	keeper      *Keeper
	// selectors are the own namespaceSelectors by webhook when the configuration last was as planned.
	selectors map[string]*metav1.LabelSelector

	// Guarded by keeper.mu.
	fingerprint string
	foreign     []string
}

func (k *Keeper) configuration(kind string, client Client) *configuration {
	mirror := func(name string) *follow.Mirror[*webhooks] {
		out := follow.NewMirror(named{client, name}, typed, k.options.Clock, k.log)
		out.OnChange(func(string, **webhooks, **webhooks) { k.Again() })
		return out
	}
	return &configuration{kind: kind, client: client, static: mirror(k.options.Static), own: mirror(Name), keeper: k}
}

const fieldManager = "curfew-coverage"

// reconcile writes the configuration if it differs from the plan. Every write names the state that
// was compared.
func (c *configuration) reconcile(ctx context.Context, input *Input, plan *plan) (wrote bool, err error) {
	if err := errors.Join(c.static.Known(), c.own.Known()); err != nil {
		c.keeper.log.V(1).Info("not all is known yet", "reason", err.Error())
		return false, nil
	}
	var want *webhooks
	var foreign []string
	if static, exists := c.static.Get(c.keeper.options.Static); exists {
		want, foreign = plan.render(c.kind, input, static), foreignIn(static, input.Namespace)
	}
	selectors := selectorsByName(want)
	have, exists := c.own.Get(Name)
	if want != nil && exists {
		foreign = append(foreign, c.keepForeign(have, want)...)
	}
	c.record(want, foreign)
	if !exists && want == nil || exists && have.DeletionTimestamp != nil {
		return false, nil // One that is being deleted is created again afterwards.
	}
	write, verb := want, "created"
	if exists {
		if write, verb = merge(have, want), "updated"; write == nil {
			c.selectors = selectors
			return false, nil
		}
	}
	object, err := asUnstructured(write)
	switch {
	case err != nil:
	case exists:
		_, err = c.client.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	default:
		_, err = c.client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return false, fmt.Errorf("%s %q could not be %s: %w", c.kind, Name, verb, err)
	}
	c.selectors = selectors
	c.keeper.log.Info("webhook configuration "+verb, "kind", c.kind, "name", Name, "webhooks", len(write.Webhooks))
	return true, nil
}

// record keeps what a configuration should be, for [Keeper.State].
func (c *configuration) record(want *webhooks, foreign []string) {
	slices.Sort(foreign)
	foreign = slices.Compact(foreign)
	fingerprint := settings.NoWebhooks
	if want != nil {
		fingerprint = settings.Fingerprint(want.Webhooks)
	}
	c.keeper.mu.Lock()
	changed := c.fingerprint != fingerprint || !slices.Equal(c.foreign, foreign)
	c.fingerprint, c.foreign = fingerprint, foreign
	c.keeper.mu.Unlock()
	if changed {
		c.keeper.options.Changed()
	}
}

// merge returns what replaces an existing configuration, and keeps metadata of others. It returns
// nil if nothing differs.
//
// If nothing is wanted, it takes the webhooks out. A configuration is never deleted: where it was
// created in advance, the controller may not create it again. The garbage collector deletes it with
// its owner, the static configuration.
func merge(have, want *webhooks) *webhooks {
	out := have.DeepCopy()
	if want == nil {
		want = &webhooks{ObjectMeta: metav1.ObjectMeta{Annotations: injections(have.Annotations), OwnerReferences: have.OwnerReferences}}
	}
	out.Webhooks, out.OwnerReferences = want.Webhooks, want.OwnerReferences
	var present []byte
	if len(have.Webhooks) > 0 {
		present = have.Webhooks[0].ClientConfig.CABundle
	}
	for i := range out.Webhooks {
		// The webhook or cert-manager's cainjector injects the bundle, here and into the static
		// configuration, and the read of the static one may be old. A CA that is trusted here is
		// therefore never removed.
		bundle := &out.Webhooks[i].ClientConfig.CABundle
		if bytes.Contains(present, *bundle) || len(present) > 0 && len(want.Annotations) > 0 {
			*bundle = present
		}
	}
	for key, value := range want.Labels {
		metav1.SetMetaDataLabel(&out.ObjectMeta, key, value)
	}
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, injectPrefix) })
	for key, value := range want.Annotations {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
	}
	if equality.Semantic.DeepEqual(have, out) {
		return nil
	}
	return out
}

// injectPrefix begins the annotations that tell cert-manager's cainjector what to inject.
const injectPrefix = "cert-manager.io/inject-"

func injections(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, injectPrefix) })
	return out
}

// webhooks is a configuration of either kind. A ValidatingWebhookConfiguration has the fields of a
// mutating one, but for reinvocationPolicy.
type webhooks = admissionv1.MutatingWebhookConfiguration

// Name of both configurations that the keeper keeps.
const Name = "curfew-kinds"

const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"
)

// Configurations are what a keeper writes beside the static configurations; nil where nothing has
// to be sent. A ValidatingWebhookConfiguration has the fields of a mutating one.
func Configurations(
	input *Input, static, staticValidating *admissionv1.MutatingWebhookConfiguration,
) (mutating, validating *admissionv1.MutatingWebhookConfiguration) {
	plan := newPlan(input)
	return plan.render(mutatingKind, input, static), plan.render(validatingKind, input, staticValidating)
}

// render makes the configuration; nil if there is nothing to send, or nowhere to send it. It sets
// every field that the API server would default, so that the stored configuration equals the wanted
// one. Only validation may fail a request.
func (p *plan) render(kind string, input *Input, static *webhooks) *webhooks {
	entries, path, failure := p.validating, "/validate", admissionv1.Ignore
	var reinvocation *admissionv1.ReinvocationPolicyType
	if kind == mutatingKind {
		entries, path, reinvocation = p.mutating, "/mutate", new(admissionv1.IfNeededReinvocationPolicy)
	} else if input.FailClosed {
		failure = admissionv1.Fail
	}
	target := slices.IndexFunc(static.Webhooks, func(webhook admissionv1.MutatingWebhook) bool {
		service, url := webhook.ClientConfig.Service, webhook.ClientConfig.URL
		return service != nil && ptr.Deref(service.Path, "") == path || url != nil && strings.HasSuffix(*url, path)
	})
	if target < 0 || len(entries) == 0 {
		return nil
	}
	version := admissionv1.SchemeGroupVersion.String()
	out := &webhooks{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				"app.kubernetes.io/name": "curfew", "app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/managed-by": "curfew",
				enforcerDisabled: "true",
			},
			Annotations:     injections(static.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: static.Name, UID: static.UID}},
		},
		Webhooks: slices.Clone(entries),
	}
	for i := range out.Webhooks {
		webhook := &out.Webhooks[i]
		webhook.ClientConfig, webhook.TimeoutSeconds = static.Webhooks[target].ClientConfig, static.Webhooks[target].TimeoutSeconds
		webhook.FailurePolicy, webhook.ReinvocationPolicy = &failure, reinvocation
	}
	return out
}

func asUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

// typed reads a configuration of either kind. It cannot fail: the API server has validated it.
func typed(object *unstructured.Unstructured) *webhooks {
	out := &webhooks{}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
	out.ManagedFields = nil
	return out
}
