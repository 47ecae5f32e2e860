package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Builtin returns the built-in profiles, and the schemas of Curfew's own kinds.
func Builtin() (*platform.Store, *lint.Schemas, error) {
	all, err := profiles.All()
	if err != nil {
		return nil, nil, err
	}
	known, err := platform.New(all)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := crd.All()
	if err != nil {
		return nil, nil, err
	}
	schemas, err := lint.NewSchemas(definitions)
	return known, schemas, err
}

// AddAll makes all manifests context for each other.
func AddAll(ctx context.Context, linter *lint.Linter, from *folders.Manifests, progress *console.Progress) error {
	err := from.Each(ctx, progress, func(document *lint.Document) error { return linter.Add(ctx, document) })
	if err != nil || !linter.Added() {
		return err
	}
	return from.Each(ctx, progress, func(document *lint.Document) error {
		linter.AddRuntime(document)
		return nil
	})
}

// ReadOverlay reads the policies and profiles of --with as the API server would store them, and
// rejects what it would reject. Other kinds are an error, because they would have no effect.
func ReadOverlay(ctx context.Context, files []string) (Overlay, error) {
	var out Overlay
	if len(files) == 0 {
		return out, nil
	}
	if slices.Contains(files, "-") {
		return out, errors.New("--with=-: standard input cannot be used here: name a file or a directory")
	}
	sources, err := folders.ReadSources(files, strings.NewReader(""))
	if err != nil {
		return out, fmt.Errorf("--with=%s", strings.TrimPrefix(err.Error(), "-f ")) // as lint's flag is named
	}
	_, schemas, err := Builtin()
	if err != nil {
		return out, err
	}
	for _, source := range sources {
		documents, errs := lint.Read(source, lint.Limits{})
		if len(errs) > 0 {
			return out, fmt.Errorf("--with: %w", errs[0])
		}
		for _, document := range documents {
			if err := out.take(ctx, schemas, &unstructured.Unstructured{Object: document.Object}); err != nil {
				return out, fmt.Errorf("--with=%s: document %d: %w", source.Name, document.Index, err)
			}
		}
	}
	return out, nil
}

func (o *Overlay) take(ctx context.Context, schemas *lint.Schemas, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	counts := kind.Group == wellknown.Group && (kind.Kind == "LifecyclePolicy" || kind.Kind == "KindProfile")
	if !counts {
		return fmt.Errorf("a %s of %s has no effect here: give LifecyclePolicies and KindProfiles of %s",
			kind.Kind, object.GetAPIVersion(), v1alpha1.GroupVersion)
	}
	stored, err := schemas.Stored(ctx, object.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	if kind.Kind == "KindProfile" {
		into := &v1alpha1.KindProfile{}
		o.profiles = append(o.profiles, into)
		return runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into)
	}
	into := &v1alpha1.LifecyclePolicy{}
	o.policies = append(o.policies, into)
	return runtime.DefaultUnstructuredConverter.FromUnstructured(stored, into)
}

// Canary finds out whether the API server calls Curfew's webhook.
type Canary struct {
	Objects dynamic.Interface
	// Said are the warnings to requests of objects.
	Said *CollectedWarnings
	// Left are namespaces that an installation may leave out on purpose: of --protect, and
	// Curfew's.
	Left []string
}

// Reviewed reports whether the API server calls Curfew's webhook for objects of a namespace; where
// the answer is not Yes, why says so. A dry run creates a suspended Job whose TTL cannot be read:
// every installation sends that to the webhook, which warns of it or denies it. Anything else that
// refuses the Job may have done so first: the answer is Unknown then.
func (c *Canary) Reviewed(ctx context.Context, namespace string) (answer rules.Answer, why string, err error) {
	pods := map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": "canary"}}}
	job := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"suspend": true, "template": map[string]any{"spec": pods}},
	}}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	job.SetGenerateName("curfew-canary-")
	job.SetAnnotations(map[string]string{wellknown.AnnotationTTL: "unreadable"})
	c.Said.Texts = nil
	jobs := c.Objects.Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(namespace)
	_, err = jobs.Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	text := strings.Join(c.Said.Texts, " ")
	if err != nil {
		text += err.Error()
	}
	const unknown = "whether the API server calls Curfew's webhook is not known: "
	refusal := apierrors.APIStatus(nil)
	switch {
	case strings.Contains(text, policy.AnnotationPath(wellknown.AnnotationTTL)):
		return rules.Yes, "", nil
	case err == nil && judging.Protects(c.Left, namespace):
		return rules.Unknown, fmt.Sprintf("%snamespace %q is protected or Curfew's own, which may be left out", unknown, namespace), nil
	case err == nil:
		return rules.No, fmt.Sprintf("the API server does not call Curfew's webhook for namespace %q", namespace), nil
	case errors.As(err, &refusal) && refusal.Status().Code < http.StatusInternalServerError:
		return rules.Unknown, unknown + console.OneLine(err.Error()), nil
	default:
		return rules.Unknown, "", fmt.Errorf("asking whether the API server calls Curfew's webhook: %w", err)
	}
}
