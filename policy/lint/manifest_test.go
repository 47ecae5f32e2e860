package lint

import (
	"strings"
	"testing"
)

const namespaceDefault = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: default\n  annotations:\n    curfew.dev/default-ttl: 1d\n---\n"

func TestYAML(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"order and comments stay": {
			text: "# what builds\nkind: Job\napiVersion: batch/v1 # the only one\nmetadata:\n  # its name\n  name: a\nspec:\n  template:\n    spec:\n      containers:\n      - name: b\n        command: [sh, -c, \"exit 0\"]\n",
			want: "# what builds\nkind: Job\napiVersion: batch/v1 # the only one\nmetadata:\n  # its name\n  name: a\n  annotations:\n    curfew.dev/ttl-source: namespace/default\nspec:\n  template:\n    spec:\n      containers:\n      - name: b\n        command: [sh, -c, \"exit 0\"]\n  ttlSecondsAfterFinished: 86400\n",
		},
		"indented lists stay indented": {
			text: "apiVersion: batch/v1\nkind: Job\nspec:\n  x:\n    - a\n",
			want: "apiVersion: batch/v1\nkind: Job\nspec:\n  x:\n    - a\n  ttlSecondsAfterFinished: 86400\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: namespace/default\n",
		},
		"nothing filled in, nothing changed": {text: "\n# a comment\napiVersion: batch/v1\nkind:   CronJob   # odd\n\nspec: {}\n\n", want: "# a comment\napiVersion: batch/v1\nkind:   CronJob   # odd\n\nspec: {}\n"},
		"an author's stamp is overwritten": {
			text: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: object # mine\n    yes: \"no\"\n",
			want: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: namespace/default # mine\n    yes: \"no\"\nspec:\n  ttlSecondsAfterFinished: 86400\n",
		},
		"an author's stamp is taken away": {
			text: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    curfew.dev/deadline-source: policy/x\n    b: c\nspec:\n  restartPolicy: Always\n",
			want: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    b: c\nspec:\n  restartPolicy: Always\n",
		},
		"annotations without a value": {
			text: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n  name: a\n",
			want: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: namespace/default\n  name: a\nspec:\n  ttlSecondsAfterFinished: 86400\n",
		},
		"behind an alias it is written anew": {
			text: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  labels: &m {a: b}\n  annotations: *m\n",
			want: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    a: b\n    curfew.dev/ttl-source: namespace/default\n  labels:\n    a: b\nspec:\n  ttlSecondsAfterFinished: 86400\n",
		},
		"what a merge key brings is not lost": {
			text: "apiVersion: batch/v1\nkind: Job\nx: &m\n  annotations:\n    a: b\nmetadata:\n  <<: *m\n  name: a\n",
			want: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    a: b\n    curfew.dev/ttl-source: namespace/default\n  name: a\nspec:\n  ttlSecondsAfterFinished: 86400\nx:\n  annotations:\n    a: b\n",
		},
		"an item of a list": {
			text: "apiVersion: v1\nkind: List\nitems:\n- kind: Job # first\n  apiVersion: batch/v1\n",
			want: "kind: Job # first\napiVersion: batch/v1\nspec:\n  ttlSecondsAfterFinished: 86400\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: namespace/default\n",
		},
		"JSON is written anew": {
			text: `{"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "a"}}`,
			want: "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    curfew.dev/ttl-source: namespace/default\n  name: a\nspec:\n  ttlSecondsAfterFinished: 86400\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces, _ := Read(Input{Data: []byte(namespaceDefault)}, Limits{})
			documents, errs := Read(Input{Data: []byte(test.text)}, Limits{})
			must(t, errs...)
			results, err := Lint(t.Context(), append(namespaces, documents...), offline(t))
			must(t, err)
			for range 2 {
				have, err := results[1].YAML()
				must(t, err)
				if string(have) != test.want {
					t.Errorf("have\n%s\nwant\n%s", have, test.want)
				}
			}
			if again, _ := Read(Input{Data: []byte(test.text)}, Limits{}); strings.Contains(test.text, "Job") && len(results[1].assigned) > 0 {
				if !reads(mustJSON(t, again[0].Object), results[1].Document.Object) {
					t.Error("the posted document itself was changed")
				}
			}
		})
	}
}
