package webhookconfig

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

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
	variant
	client      Client
	static, own *follow.Mirror[*unstructured.Unstructured]
	keeper      *Keeper
	// selectors are the own namespaceSelectors by webhook when the configuration last was as planned.
	selectors map[string]*metav1.LabelSelector
}

func (k *Keeper) configuration(of variant, client Client) *configuration {
	read := func(object *unstructured.Unstructured) *unstructured.Unstructured {
		object.SetManagedFields(nil)
		return object
	}
	mirror := func(name string) *follow.Mirror[*unstructured.Unstructured] {
		out := follow.NewMirror(named{client, name}, read, k.options.Clock, k.log)
		out.OnChange(func(string, **unstructured.Unstructured, **unstructured.Unstructured) { k.Again() })
		return out
	}
	return &configuration{variant: of, client: client, static: mirror(k.options.Static), own: mirror(Name), keeper: k}
}

const fieldManager = "curfew-coverage"

// reconcile writes the configuration if it differs from the plan. Every write names the state that
// was compared.
func (c *configuration) reconcile(ctx context.Context, plan *plan) (wrote bool, err error) {
	for _, mirror := range []*follow.Mirror[*unstructured.Unstructured]{c.static, c.own} {
		if _, err := mirror.All(); err != nil {
			c.keeper.log.V(1).Info("not all is known yet", "reason", err.Error())
			return false, nil
		}
	}
	static, _ := c.static.Get(c.keeper.options.Static)
	have, exists := c.own.Get(Name)
	want, foreign, err := c.want(plan, static)
	selectors := selectorsByName(want)
	if err == nil && want != nil && have != nil {
		var kept []string
		kept, err = c.keepForeign(have, want)
		foreign = append(foreign, kept...)
	}
	if err == nil {
		c.keeper.record(c.kind, want, foreign)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("reading %s %q: %w", c.kind, c.keeper.options.Static, err)
	case exists && have.GetDeletionTimestamp() != nil:
		return false, nil // It is created again once it is deleted.
	case want == nil:
		return c.empty(ctx, have, exists)
	case !exists:
		object, err := asUnstructured(want)
		if err != nil {
			return false, err
		}
		if _, err = c.client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager}); err == nil {
			c.selectors = selectors
		}
		return c.wrote("created", len(want.Webhooks), err)
	}
	object, err := merge(have, want)
	if err != nil {
		return false, err
	}
	if object == nil {
		c.selectors = selectors
		return false, nil
	}
	if _, err = c.client.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager}); err == nil {
		c.selectors = selectors
	}
	return c.wrote("updated", len(want.Webhooks), err)
}

// empty takes the webhooks out of a configuration that is not needed. It is never deleted: where it
// was created in advance, the controller may not create it again. The garbage collector deletes it
// with its owner, the static configuration.
func (c *configuration) empty(ctx context.Context, have *unstructured.Unstructured, exists bool) (wrote bool, err error) {
	if !exists {
		return false, nil
	}
	if left, _, _ := unstructured.NestedSlice(have.Object, "webhooks"); len(left) == 0 {
		return false, nil
	}
	have = have.DeepCopy()
	unstructured.RemoveNestedField(have.Object, "webhooks")
	_, err = c.client.Update(ctx, have, metav1.UpdateOptions{FieldManager: fieldManager})
	return c.wrote("emptied", 0, err)
}

// record keeps what a configuration should be, for [Keeper.State].
func (k *Keeper) record(kind string, want *webhooks, foreign []string) {
	slices.Sort(foreign)
	foreign = slices.Compact(foreign)
	fingerprint := settings.NoWebhooks
	if want != nil {
		fingerprint = settings.Fingerprint(want.Webhooks)
	}
	k.mu.Lock()
	changed := k.wanted[kind] != fingerprint || !slices.Equal(k.foreign[kind], foreign)
	k.wanted[kind], k.foreign[kind] = fingerprint, foreign
	k.mu.Unlock()
	if changed && k.options.Changed != nil {
		k.options.Changed()
	}
}

// want returns the configuration for a plan, or nil if there is nothing to send or no static
// configuration, and the foreign requirements in the static one.
func (c *configuration) want(of *plan, static *unstructured.Unstructured) (want *webhooks, foreign []string, err error) {
	if static == nil {
		return nil, nil, nil
	}
	typed, err := read[webhooks](static)
	if err != nil {
		return nil, nil, err
	}
	return c.render(of, typed), foreignIn(typed, c.keeper.options.Namespace), nil
}

func (c *configuration) wrote(verb string, webhooks int, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("%s %q could not be %s: %w", c.kind, Name, verb, err)
	}
	c.keeper.log.Info("webhook configuration "+verb, "kind", c.kind, "name", Name, "webhooks", webhooks)
	return true, nil
}

// merge turns an existing configuration into the wanted one, and keeps metadata of others. It
// returns nil if nothing differs.
func merge(existing *unstructured.Unstructured, want *webhooks) (*unstructured.Unstructured, error) {
	have, err := read[webhooks](existing)
	if err != nil {
		return nil, err
	}
	changed := injection(have, want)
	for i := range want.Webhooks {
		if bundle := &want.Webhooks[i].ClientConfig.CABundle; len(have.Webhooks) > 0 && keepsBundle(have, *bundle) {
			*bundle = have.Webhooks[0].ClientConfig.CABundle
		}
	}
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			metav1.SetMetaDataLabel(&have.ObjectMeta, key, value)
			changed = true
		}
	}
	if !equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences) {
		have.OwnerReferences, changed = want.OwnerReferences, true
	}
	if !equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks) {
		have.Webhooks, changed = want.Webhooks, true
	}
	if !changed {
		return nil, nil
	}
	return asUnstructured(have)
}

// keepsBundle reports whether the present bundle stays. The webhook or cert-manager's cainjector
// injects it, here and into the static configuration, and the read of the static one may be old. A
// CA that is trusted here is therefore never removed.
func keepsBundle(have *webhooks, static []byte) bool {
	present := have.Webhooks[0].ClientConfig.CABundle
	return bytes.Contains(present, static) || len(present) > 0 && len(injections(have.Annotations)) > 0
}

// injectPrefix begins the annotations that tell cert-manager's cainjector what to inject.
const injectPrefix = "cert-manager.io/inject-"

func injections(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, injectPrefix) {
			out[key] = value
		}
	}
	return out
}

// injection gives a configuration the cainjector's annotations that are wanted, and no others. It
// reports whether that changed any.
func injection(have, want *webhooks) bool {
	present := injections(have.Annotations)
	if maps.Equal(present, want.Annotations) {
		return false
	}
	for key := range present {
		delete(have.Annotations, key)
	}
	for key, value := range want.Annotations {
		metav1.SetMetaDataAnnotation(&have.ObjectMeta, key, value)
	}
	return true
}

// webhooks is a configuration of either kind. A ValidatingWebhookConfiguration has the fields of a
// mutating one, but for reinvocationPolicy.
type webhooks = admissionv1.MutatingWebhookConfiguration

// Name of both configurations that the keeper keeps.
const Name = "curfew-kinds"

// usualTimeout is how long a request waits for Curfew, in seconds, where the static configuration
// does not say.
const usualTimeout = 5

// variant is the difference between the two configurations.
type variant struct {
	kind string
	// path of the static webhook whose address is copied.
	path         string
	failure      admissionv1.FailurePolicyType
	reinvocation *admissionv1.ReinvocationPolicyType
	entries      func(*plan) []entry
}

// mutating never fails a request.
var mutating = variant{kind: "MutatingWebhookConfiguration", path: "/mutate", failure: admissionv1.Ignore,
	reinvocation: new(admissionv1.IfNeededReinvocationPolicy), entries: func(p *plan) []entry { return p.mutating }}

func validating(failure admissionv1.FailurePolicyType) variant {
	return variant{
		kind: "ValidatingWebhookConfiguration", path: "/validate", failure: failure,
		entries: func(p *plan) []entry { return p.validating },
	}
}

// Configurations are what a keeper writes beside the static configurations; nil where nothing has
// to be sent.
func Configurations(
	in *Input, static *admissionv1.MutatingWebhookConfiguration, staticValidating *admissionv1.ValidatingWebhookConfiguration,
	failure admissionv1.FailurePolicyType,
) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration, error) {
	plan := newPlan(in)
	typed, err := convert[webhooks](staticValidating)
	if err != nil {
		return nil, nil, err
	}
	mutates, validates := mutating.render(plan, static), validating(failure).render(plan, typed)
	if validates == nil {
		return mutates, nil, nil
	}
	out, err := convert[admissionv1.ValidatingWebhookConfiguration](validates)
	return mutates, out, err
}

// render makes the configuration; nil if there is nothing to send, or nowhere to send it. It sets
// every field that the API server would default, so that the stored configuration equals the wanted
// one.
func (v variant) render(of *plan, static *webhooks) *webhooks {
	entries := v.entries(of)
	client, timeout := v.target(static)
	if client == nil || len(entries) == 0 {
		return nil
	}
	version := admissionv1.SchemeGroupVersion.String()
	out := &webhooks{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: v.kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				"app.kubernetes.io/name": "curfew", "app.kubernetes.io/part-of": "curfew", "app.kubernetes.io/managed-by": "curfew",
				enforcerDisabled: "true",
			},
			Annotations:     injections(static.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: version, Kind: v.kind, Name: static.Name, UID: static.UID}},
		},
	}
	for _, e := range entries {
		out.Webhooks = append(out.Webhooks, admissionv1.MutatingWebhook{
			Name: e.name, ClientConfig: *client.DeepCopy(), Rules: e.rules,
			FailurePolicy: new(v.failure), MatchPolicy: new(admissionv1.Equivalent),
			NamespaceSelector: e.namespaces.DeepCopy(), ObjectSelector: e.objects.DeepCopy(),
			SideEffects: new(admissionv1.SideEffectClassNone), TimeoutSeconds: new(timeout),
			AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: v.reinvocation, MatchConditions: e.conditions,
		})
	}
	return out
}

// target finds the address of the webhook in a static configuration; nil where there is none.
func (v variant) target(static *webhooks) (*admissionv1.WebhookClientConfig, int32) {
	for i := range static.Webhooks {
		webhook := &static.Webhooks[i]
		if pathOf(&webhook.ClientConfig) != v.path {
			continue
		}
		client, timeout := webhook.ClientConfig.DeepCopy(), int32(usualTimeout)
		if webhook.TimeoutSeconds != nil {
			timeout = *webhook.TimeoutSeconds
		}
		if client.Service != nil && client.Service.Port == nil {
			client.Service.Port = new(int32(443))
		}
		return client, timeout
	}
	return nil, 0
}

func pathOf(client *admissionv1.WebhookClientConfig) string {
	switch {
	case client.Service != nil && client.Service.Path != nil:
		return *client.Service.Path
	case client.URL != nil:
		if parsed, err := url.Parse(*client.URL); err == nil {
			return parsed.Path
		}
	}
	return ""
}

func asUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

func read[T any](object *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
}

func convert[T any](object any) (*T, error) {
	content, err := asUnstructured(object)
	if err != nil {
		return nil, err
	}
	return read[T](content)
}
