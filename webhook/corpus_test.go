package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// corpus is k8s.io/api's golden set: an object of every kind and version of Kubernetes with every
// field set.
func corpus(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("finding the module k8s.io/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "HEAD", "*.json"))
	must(t, err)
	// 193 in v0.37. Far fewer would mean that they have moved, and that nothing is tested.
	if len(files) < 150 {
		t.Fatalf("%d objects in the golden set of k8s.io/api", len(files))
	}
	return files
}

// corpusSettings is a namespace where everything that Curfew can fill in is to be filled in.
var corpusSettings = map[string]string{
	wellknown.AnnotationDefaultTTL: "1d", wellknown.AnnotationDefaultPodTTL: "2h", wellknown.AnnotationDefaultDeadline: "12h",
	wellknown.AnnotationMaxTTL: "7d", wellknown.AnnotationMaxDeadline: "2d",
}

// plain drops what keeps Curfew from most objects of the golden set: they are being deleted, and a
// controller owns them.
func plain(object map[string]any) {
	metadata := object["metadata"].(map[string]any)
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences"} {
		delete(metadata, name)
	}
}

// blank drops on top of that what says something to Curfew, so that a default has its place.
func blank(object map[string]any) {
	plain(object)
	spec, _ := object["spec"].(map[string]any)
	template, _ := spec["jobTemplate"].(map[string]any)
	inTemplate, _ := template["spec"].(map[string]any)
	for _, name := range []string{"ttlSecondsAfterFinished", "activeDeadlineSeconds", "managedBy"} {
		delete(spec, name)
		delete(inTemplate, name)
	}
	if _, ok := spec["restartPolicy"]; ok {
		spec["restartPolicy"] = "Never"
	}
}

// TestCorpus sends every object of k8s.io/api's golden set through all webhooks, as it is and with
// less and less that keeps Curfew away, as CREATE and as UPDATE. No call fails, nothing is refused,
// and only these changes are made:
//
//   - as they are, objects are being deleted, and pass on UPDATE; on CREATE that means nothing;
//   - plain, a Job states its own TTL and deadline and names another manager: only the source is stamped. A Pod's restartPolicy
//     is none of the three, which counts as Always, and no other kind has a TTL;
//   - blank, Job and Pod get the defaults; no other kind does, a CronJob and its template included.
func TestCorpus(t *testing.T) {
	const ns = "full"
	stampedJob := []string{`+ metadata[annotations][curfew.dev/ttl-source]: "object"`}
	short := map[string][]string{
		"batch/v1, Kind=Job":          {"curfew: spec.ttlSecondsAfterFinished: 8 (8s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"},
		"batch/v1, Kind=CronJob":      {"curfew: spec.jobTemplate.spec.ttlSecondsAfterFinished: 8 (8s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"},
		"batch/v1beta1, Kind=CronJob": {"curfew: spec.jobTemplate.spec.ttlSecondsAfterFinished: 8 (8s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"},
	}
	variants := map[string]struct {
		change  func(map[string]any)
		changed map[string][]string
		warned  map[string][]string
	}{
		"as it is": {change: func(map[string]any) {}, changed: map[string][]string{"batch/v1, Kind=Job": stampedJob}, warned: short},
		"plain":    {change: plain, changed: map[string][]string{"batch/v1, Kind=Job": stampedJob}, warned: short},
		"blank": {
			change: blank,
			changed: map[string][]string{
				"batch/v1, Kind=Job": {
					`+ metadata[annotations][curfew.dev/deadline-source]: "namespace/full"`,
					`+ metadata[annotations][curfew.dev/ttl-source]: "namespace/full"`,
					`+ spec[activeDeadlineSeconds]: 43200`,
					`+ spec[ttlSecondsAfterFinished]: 86400`,
				},
				"/v1, Kind=Pod": {
					`+ metadata[annotations][curfew.dev/ttl-after-finished]: "2h"`,
					`+ metadata[annotations][curfew.dev/ttl-source]: "namespace/full"`,
				},
			},
		},
	}
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	files := corpus(t)
	for name, variant := range variants {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Platform = known })
			w.namespaces.cached[ns] = corpusSettings
			met := map[string]bool{}
			for _, file := range files {
				object := map[string]any{}
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, json.Unmarshal(text, &object))
				// A review or a Scale is no stored object and has no metadata; it is as good a request as any.
				if _, ok := object["metadata"].(map[string]any); ok {
					variant.change(object)
				}
				if text, err = json.Marshal(object); err != nil {
					t.Fatal(err)
				}
				meta := metav1.TypeMeta{}
				must(t, json.Unmarshal(text, &meta))
				kind := meta.GroupVersionKind().String()
				met[kind] = true
				asked := ask{namespace: ns, object: string(text)}
				if kind == "/v1, Kind=Namespace" {
					// As the API server sends it: the namespace that the request is about.
					asked.namespace = object["metadata"].(map[string]any)["name"].(string)
				}
				sendCorpus(t, w, asked, kind, variant.changed[kind], variant.warned[kind])
			}
			for _, kind := range slices.Concat(slices.Collect(maps.Keys(variant.changed)), slices.Collect(maps.Keys(variant.warned))) {
				if !met[kind] {
					t.Errorf("there is no %s in the golden set", kind)
				}
			}
		})
	}
}

func sendCorpus(t *testing.T, w *world, asked ask, kind string, changed, warned []string) {
	t.Helper()
	for _, update := range []bool{false, true} {
		original := asked.object
		if update {
			asked.old = original
			// On UPDATE nothing is filled in, and what stands there is not warned about again.
			changed, warned = nil, nil
		}
		asked.path = PathMutate
		response := w.ask(t, asked)
		if !response.Allowed || len(response.Warnings) > 0 {
			t.Errorf("%s, update %v: the mutating webhook answered %+v", kind, update, response)
		}
		asked.object = patchedObject(t, original, response)
		if have := diff(t, original, asked.object); !slices.Equal(have, changed) {
			t.Errorf("%s, update %v: changed %q, want %q", kind, update, have, changed)
		}
		asked.path, asked.user = PathValidate, robot
		response = w.ask(t, asked)
		if !response.Allowed || !slices.Equal(response.Warnings, warned) {
			t.Errorf("%s, update %v: the validating webhook answered %+v, want warnings %q", kind, update, response, warned)
		}
		asked.object, asked.user = original, ""
		for _, path := range []string{PathMutateNamespace, PathValidateNamespace, PathValidatePolicy} {
			if strings.HasSuffix(path, "-namespace") && kind != "/v1, Kind=Namespace" {
				continue
			}
			asked.path = path
			if response := w.ask(t, asked); !response.Allowed || len(response.Patch)+len(response.Warnings) > 0 {
				t.Errorf("%s, update %v: %s answered %+v", kind, update, path, response)
			}
		}
	}
}

// diff is what differs between two objects, a line a field.
func diff(t *testing.T, before, after string) []string {
	t.Helper()
	old, now := map[string]string{}, map[string]string{}
	flatten(t, before, old)
	flatten(t, after, now)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(old)) {
		if now[path] != old[path] {
			out = append(out, "- "+path+": "+old[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if now[path] != old[path] {
			out = append(out, "+ "+path+": "+now[path])
		}
	}
	return out
}

func flatten(t *testing.T, text string, into map[string]string) {
	t.Helper()
	var object any
	must(t, json.Unmarshal([]byte(text), &object))
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				walk(path+"["+key+"]", inner)
			}
		case []any:
			for i, inner := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), inner)
			}
		default:
			text, err := json.Marshal(value)
			must(t, err)
			into[path] = string(text)
		}
	}
	for key, value := range object.(map[string]any) {
		walk(key, value)
	}
}
