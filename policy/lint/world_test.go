package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const (
	policyTTL = "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: p}, spec: {match: {kinds: [{group: '*', kind: Job}]}, defaults: {ttl: {value: 2h}}}}\n---\n"
	plainJob  = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci}}\n---\n"
	trainJob  = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t, namespace: ci}, spec: {runtimeRef: {name: torch, kind: TrainingRuntime}}}\n---\n"
	torch     = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: torch, namespace: ci, annotations: {curfew.dev/ttl-after-finished: 1d}}}\n---\n"
)

// filled are defaults as a test compares them.
func filled(results []*Result) []string {
	var out []string
	for _, given := range NewReport(results).Defaults {
		out = append(out, given.Object.String()+": "+given.String())
	}
	return out
}

// TestDocumentsSpeakForEachOther: whatever the order of the documents.
func TestDocumentsSpeakForEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		documents      []string
		filled, lines  []string
		wantInManifest string
	}{
		"a policy gives a TTL": {documents: []string{policyTTL, plainJob}, filled: []string{`Job ci/a: ttlSecondsAfterFinished defaulted to 7200 (2h) from policy "p"`}},
		"a policy gives a label": {documents: []string{strings.Replace(policyTTL, "ttl: {value: 2h}", "ttlLabel: {value: 2026-12-31}", 1), plainJob},
			filled: []string{`Job ci/a: curfew.dev/ttl defaulted to 2026-12-31 from policy "p"`}, wantInManifest: "curfew.dev/ttl: \"2026-12-31\""},
		"a policy asks the namespace": {documents: []string{
			strings.Replace(policyTTL, "value: 2h", "expression: namespaceObject.metadata.labels.keep", 1), plainJob,
			"{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {keep: 3h}}}\n---\n"},
			filled: []string{`Job ci/a: ttlSecondsAfterFinished defaulted to 10800 (3h) from policy "p"`}},
		"a policy asks for the name that the API server makes a label of": {documents: []string{
			strings.Replace(policyTTL, "match: {", "match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ci}}, ", 1), plainJob,
			"{apiVersion: v1, kind: Namespace, metadata: {name: ci}}\n---\n"},
			filled: []string{`Job ci/a: ttlSecondsAfterFinished defaulted to 7200 (2h) from policy "p"`}},
		"a policy that asks about a namespace that is not there": {documents: []string{strings.Replace(policyTTL, "match: {", "match: {namespaceSelector: {matchLabels: {team: ml}}, ", 1), plainJob},
			lines: []string{`warning Job ci/a known-namespace metadata.namespace: namespace "ci" is not among the manifests, and policy "p" asks about it: send it along`}},
		"a policy that cannot be evaluated": {documents: []string{strings.Replace(policyTTL, "match: {", "match: {matchConditions: [{name: c, expression: object.spec.x}], ", 1) + plainJob},
			lines: []string{`warning Job ci/a unusable-default no default from spec.match of policy "p": policy "p": spec.match.matchConditions[0] (c): evaluating: no such key: spec`}},
		"a policy that cannot be evaluated twice for the same reason": {documents: []string{
			strings.NewReplacer("ttl: {value: 2h}", "ttlSucceeded: {expression: object.spec.x}, ttlFailed: {expression: object.spec.x}").Replace(policyTTL) + plainJob},
			lines: []string{`warning Job ci/a policy-evaluates policy "p": spec.defaults.ttlFailed.expression: evaluating: no such key: spec; the object gets nothing from it, and is kept`,
				`warning Job ci/a unusable-default no default from spec.defaults.ttlSucceeded.expression of policy "p": evaluating: no such key: spec`}},
		"the bounds of a policy": {documents: []string{
			strings.Replace(policyTTL, "defaults: {ttl: {value: 2h}}", "bounds: {maxTTL: 1h, maxTTLLabel: 2h, latestDate: 2026-12-31}", 1),
			"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, labels: {curfew.dev/ttl: 90d}}, spec: {ttlSecondsAfterFinished: 7200}}"},
			lines: []string{
				`error Job ci/a bounds spec.ttlSecondsAfterFinished: 7200 (2h) is above maxTTL 1h of policy "p": use 1h or less`,
				`error Job ci/a ttl-label metadata.labels[curfew.dev/ttl]: 90d is above maxTTLLabel 2h of policy "p": use 2h or less`}},
		"the bounds of a policy, for a Namespace": {documents: []string{
			"{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: p}, spec: {bounds: {maxTTLLabel: 90d}}}\n---\n",
			"{apiVersion: v1, kind: Namespace, metadata: {name: pr-42, labels: {curfew.dev/ttl: 120d}}}\n---\n"},
			lines: []string{`error Namespace pr-42 ttl-label metadata.labels[curfew.dev/ttl]: 120d is above maxTTLLabel 90d of policy "p": use 90d or less`}},
		"numbers where strings are expected": {documents: []string{
			"{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: p}, spec: {defaults: {ttl: {value: 86400}}}}\n---\n",
			"{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/default-ttl: 86400, example.com/other: 1}}}\n---\n",
			"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, annotations: {curfew.dev/protect: true}, labels: {curfew.dev/ttl: 90}}}"},
			lines: []string{
				`error LifecyclePolicy p schema spec.defaults.ttl.value: Invalid value: 86400: is a number: write it in quotes: "86400"`,
				`error Namespace ci schema metadata.annotations[curfew.dev/default-ttl]: 86400 is not a string: write it in quotes: "86400"`,
				`error Job ci/a schema metadata.annotations[curfew.dev/protect]: true is not a string: write it in quotes: "true"`,
				`error Job ci/a schema metadata.labels[curfew.dev/ttl]: 90 is not a string: write it in quotes: "90"`}},
		"a runtime speaks first": {documents: []string{trainJob, torch, namespaceCI}, wantInManifest: "curfew.dev/ttl-source: runtime/torch"},
		"a runtime of another namespace does not": {documents: []string{trainJob, strings.Replace(torch, "namespace: ci", "namespace: x", 1), namespaceCI},
			filled: []string{`TrainJob ci/t: curfew.dev/ttl-after-finished defaulted to 1d from namespace "ci"`}},
		"a profile teaches a kind": {documents: []string{namespaceCI,
			"{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: {group: x.dev, version: v1, kind: Run, resource: runs}, state: {finished: 'false', finishTime: 'null', outcome: '\"Failed\"'}, fields: {ttl: spec.keep}, podTemplates: ['spec.workers[*]']}}\n---\n",
			"{apiVersion: x.dev/v1, kind: Run, metadata: {name: r, namespace: ci}, spec: {workers: [{}, {spec: {ttlSecondsAfterFinished: 5}}]}}\n---\n"},
			filled: []string{`Run ci/r: keep defaulted to 86400 (1d) from namespace "ci"`},
			lines:  []string{`error Run ci/r pod-template-ttl spec.workers[1].spec.ttlSecondsAfterFinished: a pod template cannot have a TTL: set spec.keep`}},
		"a custom kind outside of namespaces": {documents: []string{namespaceCI,
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: plans.x.dev}, spec: {group: x.dev, names: {kind: Plan}, scope: Cluster}}\n---\n",
			"{apiVersion: x.dev/v1, kind: Plan, metadata: {name: a, labels: {curfew.dev/ttl: 1y}}}\n---\n",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, labels: {curfew.dev/ttl: 1y}}}\n---\n"},
			lines: []string{
				`warning Plan a ttl-label metadata.labels[curfew.dev/ttl]: "1y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`,
				`warning ClusterRole a ttl-label metadata.labels[curfew.dev/ttl]: "1y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range []string{"as written", "reversed"} {
				documents := slices.Clone(test.documents)
				if order == "reversed" {
					slices.Reverse(documents)
				}
				results := lintText(t, strings.Join(documents, "\n---\n"), offline(t))
				var have []string
				for _, line := range lines(results) {
					_, line, _ = strings.Cut(line, " ")
					have = append(have, line)
				}
				wanted := slices.Clone(test.lines)
				slices.Sort(have)
				slices.Sort(wanted)
				if !slices.Equal(have, wanted) {
					t.Errorf("%s: found\n\t%s\nwant\n\t%s", order, strings.Join(have, "\n\t"), strings.Join(wanted, "\n\t"))
				}
				if have := filled(results); !slices.Equal(have, test.filled) {
					t.Errorf("%s: filled in %q, want %q", order, have, test.filled)
				}
				var text strings.Builder
				for _, result := range results {
					out, err := result.YAML()
					must(t, err)
					text.Write(out)
				}
				if !strings.Contains(text.String(), test.wantInManifest) {
					t.Errorf("%s: %q is not in\n%s", order, test.wantInManifest, &text)
				}
			}
		})
	}
}

func TestPoliciesAreCheckedThemselves(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"a good one":                       {text: policyTTL},
		"a name that the API server makes": {text: strings.Replace(policyTTL, "name: p", "generateName: p-", 1)},
		"an expression in a block, by its line in the file": {
			text: "apiVersion: curfew.dev/v1alpha1\nkind: LifecyclePolicy\nmetadata: {name: p}\nspec:\n  defaults:\n    ttl:\n      expression: |\n        has(object.metadata) &&\n          objekt.x\n",
			want: []string{"f.yaml:9 error LifecyclePolicy p policy-compiles spec.defaults.ttl.expression: line 2, column 3: undeclared reference to 'objekt'"}},
		"a value that the schema refuses, with the fix": {text: strings.Replace(policyTTL, "value: 2h", "value: soon", 1),
			want: []string{`f.yaml:1 error LifecyclePolicy p schema spec.defaults.ttl.value: Invalid value: "soon": spec.defaults.ttl.value in body should match '^(never|[0-9]+|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|ms|s|m|h|d|w))+)$'; "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`}},
		"a misspelt field, and therefore nothing said": {text: strings.Replace(policyTTL, "defaults", "default", 1),
			want: []string{
				`f.yaml:1 error LifecyclePolicy p schema spec.default: unknown field "spec.default": remove it, or correct its name`,
				`f.yaml:1 error LifecyclePolicy p schema spec: Invalid value: the policy has no effect: set defaults, bounds, warnBelow or propagationPolicy`}},
		"a rule of the schema": {text: strings.Replace(policyTTL, "value: 2h", "value: 2h, expression: \"'1d'\"", 1),
			want: []string{`f.yaml:1 error LifecyclePolicy p schema spec.defaults.ttl: Invalid value: set exactly one of value and expression`}},
		"a wrong shape": {text: strings.Replace(policyTTL, "{ttl: {value: 2h}}", "5", 1),
			want: []string{`f.yaml:1 error LifecyclePolicy p schema spec.defaults: Invalid value: "integer": spec.defaults in body must be of type object: "integer"`}},
		"no name, another version": {text: "{apiVersion: curfew.dev/v1, kind: KindProfile}",
			want: []string{`f.yaml:1 error KindProfile (document 1) schema apiVersion: Invalid value: "curfew.dev/v1": there is no such version: use curfew.dev/v1alpha1`}},
		"no name": {text: strings.Replace(policyTTL, "name: p", "", 1), want: []string{`f.yaml:1 error LifecyclePolicy (document 1) schema metadata.name: Required value: name or generateName is required`}},
		"a profile": {text: "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: {group: x.dev, version: v1, kind: Run, resource: runs}, state: {finished: object.status.x == 1 +, finishTime: 'null', outcome: '\"Failed\"'}, podTemplates: ['a[0]']}}",
			want: []string{
				`f.yaml:1 error KindProfile x schema spec.podTemplates[0]: Invalid value: "a[0]": spec.podTemplates[0] in body should match '^\.?[^\s.\[\]*]+(\[\*\])?(\.[^\s.\[\]*]+(\[\*\])?)*$'; "a[0]" is not a field path: `,
				`f.yaml:1 error KindProfile x policy-compiles spec.state.finished: line 1, column 23: Syntax error: mismatched input '<EOF>'`}},
		"bounds that leave nothing of each other": {
			text: "{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/max-ttl: 1d}}}\n---\n" +
				"{apiVersion: v1, kind: Namespace, metadata: {name: other, annotations: {curfew.dev/max-ttl: 1d}}}\n---\n" +
				"{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: p}, spec: {match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ci}}}, bounds: {minTTL: 2d}}}\n",
			want: []string{
				`f.yaml:1 error Namespace ci namespace-values metadata.annotations[curfew.dev/max-ttl]: 1d is below minTTL 2d of policy "p": raise it, or lower the other`,
				`f.yaml:5 error LifecyclePolicy p policy-bounds spec.bounds.minTTL: 2d is above curfew.dev/max-ttl 1d of namespace "ci": lower it, or raise the other`}},
	} {
		t.Run(name, func(t *testing.T) {
			have := lines(lintText(t, test.text, offline(t)))
			if !slices.EqualFunc(have, test.want, strings.HasPrefix) {
				t.Errorf("have\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

// TestClusterSpeaksWhereDocumentsDoNot: its policies, profiles and runtimes hold, and give way to
// those that are posted.
func TestClusterSpeaksWhereDocumentsDoNot(t *testing.T) {
	store, err := builtin()
	must(t, err)
	live := &v1alpha1.LifecyclePolicy{}
	live.Name = "p"
	live.Spec.Defaults = &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{Value: new(v1alpha1.TTL)}}
	*live.Spec.Defaults.TTL.Value = "5h"
	if errs := store.SetPolicy(live); len(errs) > 0 {
		t.Fatal(errs)
	}
	with := store.Snapshot()
	store.PutPolicy("p", nil)
	world := func() *cluster {
		return &cluster{
			snapshot:   with,
			namespaces: map[string]*resolution.NamespacePolicy{"ci": resolution.ParseNamespace("ci", nil, nil)},
			runtimes:   map[string]map[string]any{"TrainingRuntime ci/torch": {"metadata": map[string]any{"name": "torch", "annotations": map[string]any{wellknown.AnnotationTTL: "9d"}}}},
		}
	}
	for name, test := range map[string]struct {
		text          string
		filled, lines []string
		source        string
	}{
		"its policy":               {text: plainJob, filled: []string{`Job ci/a: ttlSecondsAfterFinished defaulted to 18000 (5h) from policy "p"`}},
		"a posted policy over its": {text: policyTTL + plainJob, filled: []string{`Job ci/a: ttlSecondsAfterFinished defaulted to 7200 (2h) from policy "p"`}},
		"its runtime":              {text: trainJob, source: "runtime/torch"},
		"a runtime that it does not have": {text: strings.Replace(trainJob, "name: torch", "name: gone", 1),
			lines: []string{`f.yaml:1 warning TrainJob ci/t unusable-runtime spec.runtimeRef.name: runtime "gone" does not exist: this TrainJob is kept until it exists and sets a TTL`}},
	} {
		t.Run(name, func(t *testing.T) {
			options := offline(t)
			options.Source = world()
			results := lintText(t, test.text, options)
			if have := filled(results); !slices.Equal(have, test.filled) {
				t.Errorf("filled in %q, want %q", have, test.filled)
			}
			if have := lines(results); !slices.Equal(have, test.lines) {
				t.Errorf("found %q, want %q", have, test.lines)
			}
			last := results[len(results)-1]
			metadata, _ := last.Manifest["metadata"].(map[string]any)
			annotations, _ := metadata["annotations"].(map[string]any)
			if source, _ := annotations[wellknown.AnnotationTTLSource].(string); test.source != "" && source != test.source {
				t.Errorf("its source is %q, want %q", source, test.source)
			}
		})
	}
	options := offline(t)
	cluster := world()
	options.Source = cluster
	lintText(t, strings.Repeat(plainJob, 3)+trainJob+trainJob, options)
	if want := []string{"ci", "TrainingRuntime ci/torch"}; !slices.Equal(cluster.asked, want) {
		t.Errorf("asked the cluster for %q, want each once: %q", cluster.asked, want)
	}
}

func TestTooManyPolicies(t *testing.T) {
	var text strings.Builder
	for i := range 4 {
		text.WriteString(strings.Replace(policyTTL, "name: p", fmt.Sprintf("name: p%d", i), 1))
	}
	options := offline(t)
	options.MaxPlatform = 3
	documents, _ := Read(Input{Data: []byte(text.String())}, Limits{})
	_, err := Lint(t.Context(), documents, options)
	if limit := (*LimitError)(nil); !errors.As(err, &limit) || err.Error() != "4 policies and profiles are too many: split it, 3 is the most" {
		t.Errorf("error %v, want a LimitError: 4 where 3 are allowed", err)
	}
}
