package lint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	must(t, err)
	return out
}

// FuzzLint: lint can judge and write every manifest that it can read, reads the same manifest from
// its own output, and adds nothing to a manifest that has its defaults.
func FuzzLint(f *testing.F) {
	files, err := filepath.Glob("../../manifests/samples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(namespaceCI + `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"ci"}}`))
	f.Add([]byte(`[{"apiVersion":"v1","kind":"PodList","items":[{"spec":{"restartPolicy":1e300}}]}]`))
	f.Add([]byte("kind: Job\napiVersion: batch/v1\nmetadata: &a\n  ownerReferences: [{controller: true}]\n  labels: *a\n"))
	f.Add([]byte(policyTTL + trainJob + torch))
	f.Add([]byte("{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: {group: batch, version: v1, kind: Job, resource: jobs}, state: {finished: object.spec.x, finishTime: 'null', outcome: '1'}, fields: {ttl: spec.a.b}, runtime: {reference: {name: spec.r}, kinds: [{version: v1, kind: Job, resource: jobs}]}}}\n---\n" + plainJob))
	f.Fuzz(func(t *testing.T, data []byte) {
		namespaces, _ := Read(Input{Data: []byte(namespaceDefault)}, Limits{})
		documents, _ := Read(Input{Data: data}, Limits{Bytes: 1 << 16})
		results, err := Lint(t.Context(), append(namespaces, documents...), offline(t))
		must(t, err)
		for _, result := range results {
			text, err := result.YAML()
			if err != nil {
				t.Fatalf("writing: %v", err)
			}
			if !reads(text, result.Manifest) {
				t.Fatalf("reads differently:\n%s\nwant\n%s", text, mustJSON(t, result.Manifest))
			}
		}
		again, err := Lint(t.Context(), manifests(results), offline(t))
		must(t, err)
		for i, result := range again {
			if string(mustJSON(t, result.Manifest)) != string(mustJSON(t, results[i].Manifest)) {
				t.Fatalf("the second time it becomes\n%s\nafter\n%s", mustJSON(t, result.Manifest), mustJSON(t, results[i].Manifest))
			}
		}
	})
}

func manifests(results []*Result) []*Document {
	var out []*Document
	for _, result := range results {
		out = append(out, &Document{Index: len(out) + 1, Line: 1, Object: result.Manifest})
	}
	return out
}
