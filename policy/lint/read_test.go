package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// where is what a test wants to know of a document.
type where struct {
	Index, Line int
	Name        string
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		source Input
		want   []where
		errs   []string
	}{
		"one document": {source: Input{Data: []byte("# a\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")}, want: []where{{1, 2, "a"}}},
		"documents with markers, comments and nothing between": {
			source: Input{Data: []byte("---\n# only a comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # b\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n...\n")},
			want:   []where{{1, 4, "a"}, {2, 8, "b"}},
		},
		"a directive":                         {source: Input{Data: []byte("%YAML 1.1\n---\napiVersion: v1\nkind: Pod\n")}, want: []where{{1, 3, ""}}},
		"a marker inside a text is no marker": {source: Input{Data: []byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    ---\n    b\n---x: 1\n")}, want: []where{{1, 1, ""}}},
		"a bad document leaves the others readable": {
			source: Input{Name: "f.yaml", Data: []byte("apiVersion: v1\nkind: [Pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n")},
			want:   []where{{2, 4, "b"}},
			errs:   []string{"f.yaml: document 1 (line 1): not readable as YAML: did not find expected ',' or ']'"},
		},
		"a key twice":              {source: Input{Data: []byte("apiVersion: v1\nkind: Pod\nkind: Job\n")}, errs: []string{`document 1 (line 3): not readable as YAML: key "kind" already set in map`}},
		"no kind":                  {source: Input{Data: []byte("---\napiVersion: v1\n")}, errs: []string{"document 1 (line 2): kind is absent: give one, such as Job"}},
		"kind of a wrong type":     {source: Input{Data: []byte("apiVersion: v1\nkind: 5\n")}, errs: []string{"document 1 (line 1): kind is 5: give one, such as Job"}},
		"metadata of a wrong type": {source: Input{Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: []\n")}, errs: []string{"document 1 (line 1): metadata is a list: write an object with a name"}},
		"no object":                {source: Input{Data: []byte("just text\n")}, errs: []string{`document 1 (line 1): "just text" is not an object: write apiVersion, kind and metadata`}},
		"a List, and a list in a list": {
			source: Input{Data: []byte("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: Pod\n    metadata: {name: b}\n")},
			want:   []where{{1, 4, "a"}, {1, 10, "b"}},
		},
		"a typed list, whose items have no kind": {source: Input{Data: []byte(`{"apiVersion":"batch/v1","kind":"JobList","items":[{"metadata":{"name":"a"}}]}`), JSON: true}, want: []where{{1, 1, "a"}}},
		"a JSON array": {
			source: Input{Data: []byte("[\n {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}},\n 7]"), JSON: true},
			want:   []where{{1, 2, "a"}},
			errs:   []string{"document 1 (line 3): 7 is not an object: write apiVersion, kind and metadata"},
		},
		"JSON texts in a row": {source: Input{Data: []byte("{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n{\"apiVersion\":\"v1\",\n\"kind\":\"Job\"}")}, want: []where{{1, 1, ""}, {2, 2, ""}}},
		"YAML in flow style":  {source: Input{Data: []byte("{apiVersion: v1, kind: Pod, metadata: {name: a}}")}, want: []where{{1, 1, "a"}}},
		"YAML where only JSON is allowed": {
			source: Input{Data: []byte("apiVersion: v1"), JSON: true},
			errs:   []string{"document 1 (line 1): not readable as JSON: invalid character 'a' looking for beginning of value"},
		},
		"a key twice in JSON":    {source: Input{Data: []byte(`{"kind":"Pod","kind":"Job"}`), JSON: true}, errs: []string{`document 1 (line 1): duplicate field "kind": keep one of them`}},
		"an alias within itself": {source: Input{Data: []byte("a: &a [*a]\n")}, errs: []string{"document 1 (line 1): an alias refers to what contains it: write the value out"}},
		"aliases of a long text": {
			source: Input{Data: []byte("a: &a " + strings.Repeat("x", 10000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n")},
			errs:   []string{"document 1 (line 1): its aliases come to more than 1074602 bytes: write the values out"},
		},
		"aliases of aliases": {source: Input{Data: []byte(bomb(40))}, errs: []string{fmt.Sprintf("document 1 (line 1): its aliases come to more than %d bytes: write the values out", 2*len(bomb(40))+1<<20)}},
		"nothing":            {source: Input{}},
	} {
		t.Run(name, func(t *testing.T) {
			documents, errs := Read(test.source, Limits{})
			var have []where
			for _, document := range documents {
				have = append(have, where{document.Index, document.Line, document.ref("").Name})
			}
			if !slices.Equal(test.want, have) {
				t.Errorf("documents %v, want %v", have, test.want)
			}
			var texts []string
			for _, err := range errs {
				texts = append(texts, err.Error())
			}
			if !slices.Equal(test.errs, texts) {
				t.Errorf("errors %q, want %q", texts, test.errs)
			}
		})
	}
}

// bomb doubles with each line.
func bomb(lines int) string {
	out := "a0: &a0 [x]\n"
	for i := range lines {
		out += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return out
}

func TestReadLimits(t *testing.T) {
	pods := []byte(strings.Repeat("---\napiVersion: v1\nkind: Pod\n", 3))
	for name, test := range map[string]struct {
		limits Limits
		want   string
	}{
		"bytes":     {Limits{Bytes: 10}, "pods.yaml: 87 bytes are too many: split it, 10 is the most"},
		"documents": {Limits{Documents: 2}, "pods.yaml: 3 documents are too many: split it, 2 is the most"},
		"nodes":     {Limits{Nodes: 10}, "pods.yaml: 24 nodes are too many: split it, 10 is the most"},
	} {
		t.Run(name, func(t *testing.T) {
			documents, errs := Read(Input{Name: "pods.yaml", Data: pods}, test.limits)
			var limit *LimitError
			if len(documents) != 0 || len(errs) != 1 || !errors.As(errs[0], &limit) || errs[0].Error() != test.want {
				t.Errorf("have %d documents and %v, want %s", len(documents), errs, test.want)
			}
		})
	}
	if documents, errs := Read(Input{Data: pods}, Limits{Bytes: len(pods), Documents: 3, Nodes: 24}); len(documents) != 3 || errs != nil {
		t.Errorf("at the limits: %d documents, %v", len(documents), errs)
	}
}

func TestLines(t *testing.T) {
	documents, errs := Read(Input{Data: []byte(`# a comment
---
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  annotations:
    curfew.dev/ttl-after-finished: soon
spec:
  tasks:
  - name: x
  - name: y
    template: {spec: {ttl: 1}}
`)}, Limits{})
	must(t, errs...)
	for field, want := range map[string]int{
		"":         3,
		"metadata": 5,
		"metadata.annotations[curfew.dev/ttl-after-finished]": 8,
		"metadata.annotations[curfew.dev/other]":              7,
		"spec.ttlSecondsAfterFinished":                        9,
		"spec.tasks[1].template.spec.ttl":                     13,
		"spec.tasks[0].name":                                  11,
		"spec.tasks[7].name":                                  10,
		"status.phase":                                        3,
		"[[..]":                                               3,
	} {
		if have := documents[0].lineOf(field); have != want {
			t.Errorf("%q: line %d, want %d", field, have, want)
		}
	}
}
