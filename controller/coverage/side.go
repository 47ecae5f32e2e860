package coverage

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/controller/follow"
)

// Client is one kind of webhook configuration; a resource of a dynamic client is one.
type Client interface {
	follow.Source
	Create(ctx context.Context, object *unstructured.Unstructured, options metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, object *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error
}

// named is the one object of a name, which is what permissions can be limited to.
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

// side is one of the two configurations: the static one, which is only read, and the keeper's own.
type side struct {
	kind        string
	client      Client
	static, own *follow.Mirror[*unstructured.Unstructured]
	staticName  string
	kept        kept
	keeper      *Keeper
}

// kept is what the two kinds of configuration differ in.
type kept interface {
	// want is the configuration for a plan; nil where nothing has to be sent.
	want(of *plan, static *unstructured.Unstructured) (metav1.Object, error)
	// merge makes an existing configuration the wanted one; false where it was already.
	merge(have *unstructured.Unstructured, want metav1.Object) (*unstructured.Unstructured, bool, error)
}

func newSide(k *Keeper, kind string, client Client, of kept) side {
	mirror := func(name string) *follow.Mirror[*unstructured.Unstructured] {
		out := follow.NewMirror[*unstructured.Unstructured](named{client, name}, func(object *unstructured.Unstructured) *unstructured.Unstructured {
			object.SetManagedFields(nil)
			return object
		}, k.options.Clock, k.log)
		out.OnChange(func(string, **unstructured.Unstructured, **unstructured.Unstructured) { k.Again() })
		return out
	}
	return side{kind: kind, client: client, static: mirror(k.options.Static), own: mirror(Name), staticName: k.options.Static, kept: of, keeper: k}
}

// reconcile writes the configuration where it is not as planned. Every write names the state that was judged.
func (s *side) reconcile(ctx context.Context, plan *plan) (wrote bool, err error) {
	if _, err := s.static.All(); err != nil {
		return false, s.keeper.unknown(err)
	}
	if _, err := s.own.All(); err != nil {
		return false, s.keeper.unknown(err)
	}
	static, _ := s.static.Get(s.staticName)
	have, exists := s.own.Get(Name)
	var want metav1.Object
	if static != nil { // Without it the webhook is not to be asked at all.
		if want, err = s.kept.want(plan, static); err != nil {
			return false, fmt.Errorf("reading %s %q: %w", s.kind, s.staticName, err)
		}
	}
	switch {
	case exists && have.GetDeletionTimestamp() != nil:
		return false, nil // It is made anew once it is gone.
	case want == nil && exists:
		uid, version := have.GetUID(), have.GetResourceVersion()
		return s.wrote("deleted", 0, s.client.Delete(ctx, Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}))
	case want == nil:
		return false, nil
	case !exists:
		object, err := asUnstructured(want)
		if err != nil {
			return false, err
		}
		_, err = s.client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		return s.wrote("created", webhooksIn(object), err)
	}
	object, changed, err := s.kept.merge(have, want)
	if err != nil || !changed {
		return false, err
	}
	_, err = s.client.Update(ctx, object, metav1.UpdateOptions{FieldManager: fieldManager})
	return s.wrote("updated", webhooksIn(object), err)
}

const fieldManager = "curfew-coverage"

func (s *side) wrote(verb string, webhooks int, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("%s %q could not be %s: %w", s.kind, Name, verb, err)
	}
	s.keeper.log.Info("webhook configuration "+verb, "kind", s.kind, "name", Name, "webhooks", webhooks)
	return true, nil
}

func webhooksIn(object *unstructured.Unstructured) int {
	list, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	return len(list)
}

func asUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return &unstructured.Unstructured{Object: content}, err
}

func read[T any](object *unstructured.Unstructured) (*T, error) {
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
}

// owned makes the metadata of an existing configuration the wanted one, and keeps what others added.
func owned(have, want *metav1.ObjectMeta) (changed bool) {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			metav1.SetMetaDataLabel(have, key, value)
			changed = true
		}
	}
	if !equality.Semantic.DeepEqual(have.OwnerReferences, want.OwnerReferences) {
		have.OwnerReferences, changed = want.OwnerReferences, true
	}
	return changed
}

type mutating struct{}

func (mutating) want(of *plan, object *unstructured.Unstructured) (metav1.Object, error) {
	static, err := read[admissionv1.MutatingWebhookConfiguration](object)
	if err != nil {
		return nil, err
	}
	if out := mutatingConfiguration(of.mutating, static); out != nil {
		return out, nil
	}
	return nil, nil
}

func (mutating) merge(object *unstructured.Unstructured, wanted metav1.Object) (*unstructured.Unstructured, bool, error) {
	have, err := read[admissionv1.MutatingWebhookConfiguration](object)
	if err != nil {
		return nil, false, err
	}
	want := wanted.(*admissionv1.MutatingWebhookConfiguration)
	for i := range want.Webhooks {
		if bundle := &want.Webhooks[i].ClientConfig.CABundle; len(*bundle) == 0 && len(have.Webhooks) > 0 {
			*bundle = have.Webhooks[0].ClientConfig.CABundle // The webhook is about to inject one.
		}
	}
	changed := owned(&have.ObjectMeta, &want.ObjectMeta)
	if !equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks) {
		have.Webhooks, changed = want.Webhooks, true
	}
	out, err := asUnstructured(have)
	return out, changed, err
}

type validating struct{ failure admissionv1.FailurePolicyType }

func (v validating) want(of *plan, object *unstructured.Unstructured) (metav1.Object, error) {
	static, err := read[admissionv1.ValidatingWebhookConfiguration](object)
	if err != nil {
		return nil, err
	}
	if out := validatingConfiguration(of.validating, static, v.failure); out != nil {
		return out, nil
	}
	return nil, nil
}

func (validating) merge(object *unstructured.Unstructured, wanted metav1.Object) (*unstructured.Unstructured, bool, error) {
	have, err := read[admissionv1.ValidatingWebhookConfiguration](object)
	if err != nil {
		return nil, false, err
	}
	want := wanted.(*admissionv1.ValidatingWebhookConfiguration)
	for i := range want.Webhooks {
		if bundle := &want.Webhooks[i].ClientConfig.CABundle; len(*bundle) == 0 && len(have.Webhooks) > 0 {
			*bundle = have.Webhooks[0].ClientConfig.CABundle
		}
	}
	changed := owned(&have.ObjectMeta, &want.ObjectMeta)
	if !equality.Semantic.DeepEqual(have.Webhooks, want.Webhooks) {
		have.Webhooks, changed = want.Webhooks, true
	}
	out, err := asUnstructured(have)
	return out, changed, err
}
