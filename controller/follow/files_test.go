package follow

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/v1alpha1"
)

const filePolicy = `apiVersion: curfew.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: ci}
spec: {bounds: {minTTL: 1h}}
`

func filesIn(t *testing.T, files map[string]string) Files {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(_ context.Context, object map[string]any) (map[string]any, error) { return object, nil }
	return Files{Dir: dir, Stored: stored, Clock: clock.RealClock{}}
}

// One bad file makes nothing known: a bound that is left out would keep nothing (S6).
func TestFilesThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"another kind":    {"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", "v1 Secret: only LifecyclePolicies"},
		"another version": {"apiVersion: curfew.dev/v1\nkind: LifecyclePolicy\nmetadata: {name: x}\n", "only LifecyclePolicies"},
		"no kind":         {"spec: {}\n", "only LifecyclePolicies"},
		"duplicate key":   {filePolicy + "spec: {}\n", `key "spec" already set`},
		"not YAML":        {"a: b: c", "mapping values"},
		"no name":         {"apiVersion: curfew.dev/v1alpha1\nkind: LifecyclePolicy\n", "metadata.name is missing"},
		"twice":           {filePolicy, "LifecyclePolicy ci is in the files twice"},
	} {
		t.Run(name, func(t *testing.T) {
			files := filesIn(t, map[string]string{"a.yaml": filePolicy, "b.yml": "# nothing\n---\n" + test.text})
			list, err := files.Source(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies)).List(t.Context(), metav1.ListOptions{})
			if err == nil || list != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// What cannot be opened may hold the bound that keeps an object (S6).
func TestFileThatCannotBeOpened(t *testing.T) {
	files := filesIn(t, map[string]string{"a.yaml": filePolicy})
	if err := os.Symlink(filepath.Join(files.Dir, "gone"), filepath.Join(files.Dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if all, _, err := files.Read(t.Context()); err == nil {
		t.Errorf("read %d objects without an error", len(all))
	}
	files.Dir += "/gone"
	if all, _, err := files.Read(t.Context()); err == nil {
		t.Errorf("read %d objects of a folder that is gone", len(all))
	}
}

// The watch ends once a file has changed, and the same name with other content is another object.
func TestFilesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := filesIn(t, map[string]string{"a.yaml": filePolicy})
		source := files.Source(v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies))
		before, err := source.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events, err := source.Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		if err := os.WriteFile(filepath.Join(files.Dir, "a.yaml"), []byte(strings.ReplaceAll(filePolicy, "1h", "2h")), 0o600); err != nil {
			t.Fatal(err)
		}
		if event, more := <-events.ResultChan(); more {
			t.Errorf("event %v", event)
		}
		after, err := source.List(t.Context(), metav1.ListOptions{})
		if err != nil || after.Items[0].GetUID() == before.Items[0].GetUID() {
			t.Errorf("%v: the UID is the same", err)
		}
	})
}
