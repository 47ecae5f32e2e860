package follow

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Files reads objects from the YAML files of a directory, instead of from the API server. An empty
// directory name means that there are none.
type Files struct {
	Dir string
	// Stored returns an object as the API server would store it, or why that would reject it.
	Stored func(ctx context.Context, object map[string]any) (map[string]any, error)
	Clock  clock.Clock
}

// filesEvery is how often files are looked at for changes. They are read again before a deletion,
// at most once a second.
const filesEvery = 5 * time.Second

// fileKinds are the kinds that a directory may hold.
var fileKinds = map[schema.GroupVersionKind]schema.GroupVersionResource{
	v1alpha1.GroupVersion.WithKind("LifecyclePolicy"):                      v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies),
	v1alpha1.GroupVersion.WithKind("KindProfile"):                          v1alpha1.GroupVersion.WithResource(v1alpha1.KindProfiles),
	definitionResource.GroupVersion().WithKind("CustomResourceDefinition"): definitionResource,
}

// Source lists and watches the objects of one resource. Of a resource that no file may hold, there
// are none.
func (f Files) Source(resource schema.GroupVersionResource) Source { return fileSource{f, resource} }

type fileSource struct {
	Files
	resource schema.GroupVersionResource
}

// List implements [Source]. One bad file is an error: a bound that is not known keeps nothing.
func (s fileSource) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	all, version, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{}
	out.SetResourceVersion(version)
	for i := range all {
		if fileKinds[all[i].GroupVersionKind()] == s.resource && selects(options.FieldSelector, all[i].GetName()) {
			out.Items = append(out.Items, all[i])
		}
	}
	return out, nil
}

// selects reports whether a field selector, which asks for a name if for anything, selects a name.
func selects(selector, name string) bool {
	return selector == "" || selector == "metadata.name="+name
}

// Watch implements [Source]. It ends when the files have changed, so that they are listed again.
func (s fileSource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-out.StopChan():
		case <-ctx.Done():
		}
	}()
	go func() {
		defer close(events)
		defer cancel()
		for loop.Pause(ctx, s.Clock, filesEvery) {
			if _, version, err := s.Read(ctx); err != nil || version != options.ResourceVersion {
				return
			}
		}
	}()
	return out, nil
}

// Read reads all files, and returns the objects and a fingerprint of their content.
func (f Files) Read(ctx context.Context) ([]unstructured.Unstructured, string, error) {
	if f.Dir == "" {
		return nil, "none", nil
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, "", fmt.Errorf("reading the files of policies and profiles: %w", err)
	}
	var out []unstructured.Unstructured
	var errs []error
	sum := sha256.New()
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(f.Dir, entry.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, _ = fmt.Fprintf(sum, "%q%q", entry.Name(), text) // It never fails.
		found, err := f.parse(ctx, entry.Name(), text)
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, found...)
	}
	return out, hex.EncodeToString(sum.Sum(nil)), errors.Join(append(errs, duplicates(out))...)
}

// parse reads the documents of one file.
func (f Files) parse(ctx context.Context, name string, text []byte) (out []unstructured.Unstructured, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, number, err)
		}
		object := map[string]any{}
		if err := decode(document, &object); err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, number, err)
		}
		if len(object) == 0 {
			continue
		}
		read, err := f.object(ctx, object)
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, number, err)
		}
		out = append(out, *read)
	}
}

// decode rejects duplicate keys and keeps whole numbers whole.
func decode(document []byte, into *map[string]any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// object is one object as the API server would have it.
func (f Files) object(ctx context.Context, object map[string]any) (*unstructured.Unstructured, error) {
	kind := (&unstructured.Unstructured{Object: object}).GroupVersionKind()
	if _, ok := fileKinds[kind]; !ok {
		return nil, fmt.Errorf("%s %s: only LifecyclePolicies and KindProfiles of %s and CustomResourceDefinitions of %s can come from files",
			kind.GroupVersion(), kind.Kind, v1alpha1.GroupVersion, definitionResource.GroupVersion())
	}
	object, err := f.Stored(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Kind, err)
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: object}
	if out.GetName() == "" {
		return nil, fmt.Errorf("%s: metadata.name is missing", kind.Kind)
	}
	sum := sha256.Sum256(text)
	out.SetUID(types.UID(hex.EncodeToString(sum[:16]))) // Other content is another object.
	out.SetGeneration(1)
	if kind.Group == definitionResource.Group {
		out.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	}
	return out, nil
}

func duplicates(all []unstructured.Unstructured) error {
	seen := map[string]bool{}
	for i := range all {
		key := all[i].GetKind() + " " + all[i].GetName()
		if seen[key] {
			return fmt.Errorf("%s is in the files twice", key)
		}
		seen[key] = true
	}
	return nil
}
