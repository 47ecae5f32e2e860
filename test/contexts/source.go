package contexts

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Parse reads YAML into the JSON form of an object.
func Parse(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Store holds the platform of a case: what comes with Curfew, and the policies and profiles of the
// case.
func (c Case) Store(t testing.TB) *platform.Store {
	t.Helper()
	builtin, err := profiles.All()
	if err != nil {
		t.Fatal(err)
	}
	out, err := platform.New(builtin)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range c.Profiles {
		out.SetProfile(typed[v1alpha1.KindProfile](t, text))
	}
	for _, text := range c.Policies {
		out.SetPolicy(typed[v1alpha1.LifecyclePolicy](t, text))
	}
	out.SetNoMultiKueue(func(context.Context) (bool, error) { return c.NoMultiKueue, nil })
	return out
}

func typed[T any](t testing.TB, text string) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(Parse(t, text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Facts returns the facts of the object, and the object.
func (c Case) Facts(t testing.TB, snapshot *platform.Snapshot) (*policy.Facts, map[string]any) {
	t.Helper()
	object := Parse(t, c.Object)
	read := unstructured.Unstructured{Object: object}
	return policy.FactsOfObject(snapshot.Profiles.For(read.GroupVersionKind()), object), object
}

// Meta is the metadata of the namespace; nil if there is none.
func (c Case) Meta(t testing.TB) *metav1.PartialObjectMetadata {
	t.Helper()
	if c.Namespace == "" {
		return nil
	}
	return typed[metav1.PartialObjectMetadata](t, c.Namespace)
}

// Source reads the case.
type Source struct {
	Case
	T testing.TB
}

// Snapshot implements [platform.Source].
func (s Source) Snapshot(context.Context) (*platform.Snapshot, error) {
	return s.Store(s.T).Snapshot(), nil
}

// Namespace implements [platform.Source].
func (s Source) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	if meta := s.Meta(s.T); meta != nil && meta.Name == name {
		return resolution.NamespaceOf(&meta.ObjectMeta), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
}

// LiveNamespace is the same.
func (s Source) LiveNamespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return s.Namespace(ctx, name)
}

// Runtime implements [platform.Source].
func (s Source) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	if s.Case.Runtime == "" {
		return nil, nil
	}
	object := Parse(s.T, s.Case.Runtime)
	if read := (&unstructured.Unstructured{Object: object}); read.GetName() != reference.Name || read.GetKind() != reference.Kind.Kind {
		return nil, nil
	}
	return object, nil
}

// PodCounter implements [platform.Source].
func (Source) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

// Render writes a context as the cases want it.
func Render(scope *resolution.Scope, failures int) string {
	var parts []string
	if namespacePolicy := scope.Namespace; namespacePolicy != nil {
		parts = append(parts, fmt.Sprintf("namespace %s %s", namespacePolicy.Name, namespacePolicy.Mode)+said(&namespacePolicy.TTL, namespacePolicy.Deadline, &namespacePolicy.Bounds))
	}
	if runtimePolicy := scope.Runtime; runtimePolicy != nil {
		text := "runtime " + runtimePolicy.Name + said(&runtimePolicy.TTL, runtimePolicy.Deadline, &lifetime.Bounds{})
		if runtimePolicy.Missing {
			text += " missing"
		}
		parts = append(parts, text)
	}
	for _, platformPolicy := range scope.Policies {
		parts = append(parts, "policy "+platformPolicy.Name+said(&platformPolicy.TTL, platformPolicy.Deadline, &platformPolicy.Bounds))
	}
	if failures > 0 {
		parts = append(parts, fmt.Sprintf("%d failures", failures))
	}
	return strings.Join(parts, "; ")
}

func said(ttl *lifetime.TTLSet, deadline *lifetime.Setting, bounds *lifetime.Bounds) string {
	out, label := "", bounds.Label
	if label == bounds.TTL { // A namespace has the same bounds for both.
		label = lifetime.Range{}
	}
	for _, row := range []struct {
		name string
		of   *lifetime.Setting
	}{
		{"ttl", ttl.For(lifetime.Failed)}, {"deadline", deadline}, {"min-ttl", bounds.TTL.Min}, {"max-ttl", bounds.TTL.Max},
		{"min-ttl-label", label.Min}, {"max-ttl-label", label.Max},
		{"min-deadline", bounds.Deadline.Min}, {"max-deadline", bounds.Deadline.Max},
	} {
		if row.of == nil {
			continue
		}
		out += " " + row.name + "=" + row.of.Text
		if row.of.Err != nil {
			out += "!"
		}
	}
	return out
}
