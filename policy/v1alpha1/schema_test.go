package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	crds "curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

// crd checks objects as the API server does: pruned, defaulted, by schema and by the rules in it.
type crd struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func load(t *testing.T, file string) *crd {
	t.Helper()
	text, err := os.ReadFile("../../manifests/crd/" + file)
	must(t, err)
	var external apiextensionsv1.CustomResourceDefinition
	must(t, yaml.UnmarshalStrict(text, &external))
	var props apiextensions.JSONSchemaProps
	must(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil))
	structural, err := schema.NewStructural(&props)
	must(t, err)
	if errs := schema.ValidateStructural(nil, structural); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	schemaValidator, _, err := validation.NewSchemaValidator(&props)
	must(t, err)
	return &crd{structural, schemaValidator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	must(t, yaml.Unmarshal([]byte(text), &object))
	return whole(object).(map[string]any)
}

// whole makes int64 of the numbers, as the API server's own decoder does.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		return int64(v)
	}
	return value
}

func (c *crd) check(object, old map[string]any) field.ErrorList {
	defaulting.Default(object, c.structural)
	var previous any
	if old != nil {
		defaulting.Default(old, c.structural)
		previous = old
	}
	errs := validation.ValidateCustomResource(nil, object, c.schema)
	if pruned := pruning.PruneWithOptions(object, c.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(pruned) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath(pruned[0]), "unknown field"))
	}
	failed, _ := c.rules.Validate(context.Background(), nil, c.structural, object, previous, celconfig.RuntimeCELCostBudget)
	return append(errs, failed...)
}

func TestLifecyclePolicySchema(t *testing.T) {
	crd := load(t, "curfew.dev_lifecyclepolicies.yaml")
	for name, c := range map[string]struct{ spec, want string }{
		"small":                {`{defaults: {ttl: {value: 1d}}}`, ""},
		"all":                  {`{match: {kinds: [{group: "*", kind: Job}], matchConditions: [{name: a, expression: "true"}]}, defaults: {ttl: {expression: "'1d'"}, ttlFailed: {value: never}, deadline: {value: 12h}, ttlLabel: {value: 2026-12-24T003000Z}}, bounds: {maxTTL: 2w, minTTLLabel: 1h, maxTTLLabel: 9w, latestDate: "2026-12-31"}, warnBelow: "90", mode: Warn, priority: 5, backfill: true}`, ""},
		"says nothing":         {`{match: {}}`, "the policy has no effect: set defaults, bounds, warnBelow or propagationPolicy"},
		"empty defaults":       {`{defaults: {}}`, "should have at least 1 properties"},
		"both":                 {`{defaults: {ttl: {value: 1d, expression: "'1d'"}}}`, "set exactly one of value and expression"},
		"neither":              {`{defaults: {deadline: {}}}`, "set exactly one of value and expression"},
		"bad TTL":              {`{defaults: {ttl: {value: soon}}}`, "spec.defaults.ttl.value"},
		"fraction":             {`{defaults: {ttl: {value: 1.5h}}}`, ""},
		"a number as TTL":      {`{defaults: {ttl: {value: 86400}}}`, `spec.defaults.ttl.value: Invalid value: 86400: is a number: write it in quotes: "86400"`},
		"a number as deadline": {`{defaults: {deadline: {value: 60}}}`, `spec.defaults.deadline.value: Invalid value: 60: is a number: write it in quotes: "60"`},
		"a number as label":    {`{defaults: {ttlLabel: {value: 60}}}`, `spec.defaults.ttlLabel.value: Invalid value: 60: is a number: write it in quotes: "60"`},
		"a number as bound":    {`{bounds: {maxTTL: 3600}}`, `spec.bounds.maxTTL: Invalid value: 3600: is a number: write it in quotes: "3600"`},
		"a number as limit":    {`{warnBelow: 60}`, `spec.warnBelow: Invalid value: 60: is a number: write it in quotes: "60"`},
		"a number as date":     {`{bounds: {latestDate: 20261231}}`, `spec.bounds.latestDate: Invalid value: 20261231: is a number: write it in quotes: "20261231"`},
		"a boolean as TTL":     {`{defaults: {ttl: {value: true}}}`, "spec.defaults.ttl.value"},
		"never deadline":       {`{defaults: {deadline: {value: never}}}`, "spec.defaults.deadline.value"},
		"negative":             {`{bounds: {minTTL: "-1"}}`, "spec.bounds.minTTL"},
		"a week in a label":    {`{defaults: {ttlLabel: {value: 1w}}}`, ""},
		"a long duration":      {`{warnBelow: "` + strings.Repeat("0", 63) + `1"}`, "spec.warnBelow"},
		"no date":              {`{bounds: {latestDate: "2026-13-01"}}`, "spec.bounds.latestDate"},
		"mode":                 {`{warnBelow: 1m, mode: Shrug}`, "spec.mode"},
		"long expression":      {`{defaults: {ttl: {expression: "` + strings.Repeat("a", 4097) + `"}}}`, "Too long"},
		"unknown field":        {`{warnBelow: 1m, ttl: 1d}`, "unknown field"},
		"condition twice":      {`{warnBelow: 1m, match: {matchConditions: [{name: a, expression: "true"}, {name: b, expression: ""}]}}`, "should be at least 1 chars long"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, crd.check(decode(t, "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: x}, spec: "+c.spec+"}"), nil), c.want)
		})
	}
}

// One grammar: what the schema accepts is a duration, unless it is too long or no whole number of
// seconds, and the schema accepts what Curfew reads.
func TestDurationsAgreeWithTheSchema(t *testing.T) {
	crd := load(t, "curfew.dev_lifecyclepolicies.yaml")
	fits := func(spec map[string]any) bool {
		return len(crd.check(map[string]any{"apiVersion": "curfew.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": map[string]any{"name": "x"}, "spec": spec}, nil)) == 0
	}
	agree := func(t *rapid.T, text string, schema bool, err error) {
		if schema && err != nil && !strings.Contains(err.Error(), "is too long") && !strings.Contains(err.Error(), "is not a whole number of seconds") {
			t.Fatalf("the schema accepts %q: %v", text, err)
		}
		if !schema && err == nil {
			t.Fatalf("the schema refuses %q", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`([0-9]{0,3}\.?[0-9]{0,3}(ns|us|ms|s|m|h|d|w|y|H)?){0,3}`),
			rapid.StringMatching(`[0-9]{1,70}`),
			rapid.StringMatching(`([0-9]{1,4}[smhdw]){1,16}`),
			rapid.StringMatching(`[-+ ]?[0-9.]{0,4}[a-z]?`),
			rapid.Just("never"),
		).Draw(t, "text")
		_, err := lifetime.ParseDuration(text)
		agree(t, text, fits(map[string]any{"warnBelow": text}), err)
		_, err = lifetime.ParseTTL(text)
		agree(t, text, fits(map[string]any{"defaults": map[string]any{"ttl": map[string]any{"value": text}}}), err)
		_, err = lifetime.ParseTTLLabel(text)
		agree(t, text, fits(map[string]any{"defaults": map[string]any{"ttlLabel": map[string]any{"value": text}}}), err)
	})
}

func expect(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) > 0:
		t.Error(errs.ToAggregate())
	case want != "" && len(errs) == 0:
		t.Errorf("accepted, want %q", want)
	case want != "" && !strings.Contains(errs.ToAggregate().Error(), want):
		t.Errorf("got %v, want %q", errs.ToAggregate(), want)
	}
}

const state = `state: {finished: "true", finishTime: "null", outcome: "'Failed'"}`

func TestKindProfileSchema(t *testing.T) {
	crd := load(t, "curfew.dev_kindprofiles.yaml")
	for name, c := range map[string]struct{ spec, want string }{
		"templates only":       {`podTemplates: [spec.template]`, ""},
		"state":                {state, ""},
		"state without end":    {`state: {finished: "true", outcome: "'Failed'"}`, "spec.state.finishTime: Required value"},
		"TTL without state":    {`fields: {ttl: spec.ttl}`, "a TTL field needs state"},
		"deadline":             {state + `, deadline: {enforcement: [{by: Controller}]}`, ""},
		"deadline, no state":   {`deadline: {enforcement: [{by: Controller}]}`, "a deadline needs state"},
		"Curfew without stop":  {state + `, deadline: {enforcement: [{by: Curfew}]}`, "stop is required where Curfew enforces the deadline"},
		"backstop":             {state + `, deadline: {enforcement: [{by: Controller, acts: "true", stop: [{action: MarkFailed}]}]}`, ""},
		"backstop, not told":   {state + `, deadline: {enforcement: [{by: Controller, stop: [{action: MarkFailed}]}]}`, "acts is required where Curfew is the backstop"},
		"acts without stop":    {state + `, deadline: {enforcement: [{by: Controller, acts: "true"}]}`, "acts is only for by: Controller with stop"},
		"acts by Curfew":       {state + `, deadline: {enforcement: [{by: Curfew, acts: "true", stop: [{action: MarkFailed}]}]}`, "acts is only for by: Controller with stop"},
		"delete itself":        {state + `, deadline: {enforcement: [{by: Curfew, stop: [{action: Delete}]}]}`, "Delete needs child"},
		"DeletePods first":     {state + `, deadline: {enforcement: [{by: Curfew, stop: [{action: DeletePods}, {action: MarkFailed}]}]}`, "the first step of stop must be MarkFailed or Suspend"},
		"Delete first":         {state + `, deadline: {enforcement: [{by: Controller, stop: [{action: Delete, child: {version: v1, kind: Pod, resource: pods}}]}]}`, "the first step of stop must be MarkFailed or Suspend"},
		"Suspend first":        {state + `, deadline: {enforcement: [{by: Curfew, stop: [{action: Suspend}, {action: DeletePods}]}]}`, ""},
		"suspend a child":      {state + `, deadline: {enforcement: [{by: Curfew, stop: [{action: Suspend, child: {version: v1, kind: Pod, resource: pods}}]}]}`, "Suspend acts on the object itself"},
		"path with brackets":   {`podTemplates: ["spec.jobs[0].template"]`, "spec.podTemplates[0]"},
		"path with list":       {`podTemplates: ["spec.jobs[*].template"]`, ""},
		"runtime":              {state + `, runtime: {reference: {name: spec.ref, clusterScope: spec.cluster}, kinds: [{version: v1, kind: T, resource: ts}]}`, ""},
		"runtime without kind": {state + `, runtime: {reference: {name: spec.ref}, kinds: [{version: v1, kind: T, resource: ts}]}`, "one name can belong to several kinds"},
		"runtime, no state":    {`runtime: {reference: {name: spec.ref, defaultKind: T}, kinds: [{version: v1, kind: T, resource: ts}]}`, "a runtime needs state"},
		"propagation":          {`propagationPolicy: Sideways`, "spec.propagationPolicy"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, crd.check(kindProfile(t, "Example", c.spec), nil), c.want) })
	}
	for kind, denied := range map[string]bool{
		"{group: batch, version: v1, kind: Job, resource: jobs}":                  true,
		"{group: batch, version: v2, kind: Job, resource: jobs}":                  true,
		"{version: v1, kind: Pod, resource: pods}":                                true,
		`{group: "", version: v1, kind: Pod, resource: pods}`:                     true,
		"{group: batch.volcano.sh, version: v1alpha1, kind: Job, resource: jobs}": false,
		"{group: metrics.k8s.io, version: v1beta1, kind: Pod, resource: pods}":    false,
		"{version: v1, kind: Job, resource: jobs}":                                false,
		"{group: batch, version: v1, kind: CronJob, resource: cronjobs}":          false,
	} {
		want := ""
		if denied {
			want = "Curfew has code of its own for Jobs and Pods, which no KindProfile replaces"
		}
		expect(t, crd.check(decode(t, "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: "+kind+"}}"), nil), want)
	}
	t.Run("updates", func(t *testing.T) {
		const denied = "group and kind are immutable"
		for name, c := range map[string]struct{ from, to, want string }{
			"kind":                 {"group: example.com, kind: Example", "group: example.com, kind: Other", denied},
			"group":                {"group: example.com, kind: Example", "group: example.org, kind: Example", denied},
			"to the core group":    {"group: example.com, kind: Example", "kind: Example", denied},
			"from the core group":  {"kind: Example", "group: example.com, kind: Example", denied},
			"neither":              {"group: example.com, kind: Example", "group: example.com, kind: Example", ""},
			"in the core group":    {"kind: Example", "kind: Example", ""},
			"the core group, said": {"kind: Example", `group: "", kind: Example`, ""},
		} {
			schemaOf := func(kind, path string) map[string]any {
				return decode(t, "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {podTemplates: ["+path+"], kind: {version: v1, resource: examples, "+kind+"}}}")
			}
			t.Run(name, func(t *testing.T) { expect(t, crd.check(schemaOf(c.to, "spec.b"), schemaOf(c.from, "spec.a")), c.want) })
		}
	})
}

func kindProfile(t *testing.T, kind, spec string) map[string]any {
	return decode(t, "{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: x}, spec: {kind: {group: example.com, version: v1, kind: "+kind+", resource: examples}, "+spec+"}}")
}

func TestBuiltinProfilesFitTheSchema(t *testing.T) {
	crd := load(t, "curfew.dev_kindprofiles.yaml")
	all, err := profiles.All()
	if err != nil || len(all) < 20 {
		t.Fatalf("%d profiles, %v", len(all), err)
	}
	for _, profile := range all {
		text, err := yaml.Marshal(profile)
		must(t, err)
		object := decode(t, string(text))
		delete(object, "status")
		want := ""
		if kind := profile.Spec.Kind; policy.HasOwnCode(apischema.GroupKind{Group: kind.Group, Kind: kind.Kind}) {
			want = "which no KindProfile replaces" // The one reason: the files document what the code does.
		}
		errs := crd.check(object, nil)
		if expect(t, errs, want); len(errs) > 1 {
			t.Errorf("profile %s has errors %v, want at most the expected one", profile.Name, errs.ToAggregate())
		}
	}
}

const uid = "7d0c6f3e-4f0b-4c59-9d36-1d5a3a7d7f1"

func TestPodTallySchema(t *testing.T) {
	crd := load(t, "curfew.dev_podtallies.yaml")
	object := func(spec, status string) map[string]any {
		return decode(t, "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: x}, spec: "+spec+", status: "+status+"}")
	}
	const build = "{selector: {matchLabels: {app: build}}}"
	uids := func(from, to int) string {
		var out []string
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("%s%03d", uid[:33], i))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	for name, c := range map[string]struct{ spec, status, want string }{
		"labels":              {build, "{}", ""},
		"expressions":         {"{selector: {matchExpressions: [{key: app, operator: Exists}]}}", "{}", ""},
		"TTL":                 {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: 10m}", "{}", ""},
		"never":               {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: never}", "{}", ""},
		"no selector":         {"{}", "{}", "spec.selector: Required value"},
		"empty selector":      {"{selector: {}}", "{}", "an empty selector would match every Pod of the namespace"},
		"empty labels":        {"{selector: {matchLabels: {}, matchExpressions: []}}", "{}", "an empty selector would match every Pod of the namespace"},
		"bad TTL":             {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: soon}", "{}", "spec.ttlAfterCounted"},
		"a number as TTL":     {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: 60}", "{}", `is a number: write it in quotes: "60"`},
		"unknown field":       {"{selector: {matchLabels: {app: build}}, ttl: 1m}", "{}", "unknown field"},
		"uncounted":           {build, "{uncountedTerminatedPods: {succeeded: " + uids(0, 250) + ", failed: " + uids(250, 500) + "}}", ""},
		"uncounted, one list": {build, "{uncountedTerminatedPods: {failed: " + uids(0, 500) + "}}", ""},
		"too many uncounted":  {build, "{uncountedTerminatedPods: {succeeded: " + uids(0, 250) + ", failed: " + uids(250, 501) + "}}", "at most 500 Pods can be uncounted"},
		"too many in one":     {build, "{uncountedTerminatedPods: {failed: " + uids(0, 501) + "}}", "Too many"},
		"negative":            {build, "{active: -1}", "status.active"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, crd.check(object(c.spec, c.status), nil), c.want) })
	}
	for name, c := range map[string]struct{ to, want string }{
		"another selector": {"{selector: {matchLabels: {app: test}}}", "the selector is immutable: create another PodTally"},
		"a label more":     {"{selector: {matchLabels: {app: build, team: x}}}", "the selector is immutable: create another PodTally"},
		"another TTL":      {"{selector: {matchLabels: {app: build}}, ttlAfterCounted: 1h}", ""},
		"unchanged":        {build, ""},
	} {
		t.Run(name, func(t *testing.T) { expect(t, crd.check(object(c.to, "{}"), object(build, "{}")), c.want) })
	}
}

// must ends the test at an error.
// kubectl get shows a field of the API in each column, of the column's type.
func TestColumns(t *testing.T) {
	part := regexp.MustCompile(`\.(\w+)(\[\?\(@\.type=="(Ready|Stalled|Conflicting)"\)\]|\[0\])?`)
	definitions, err := crds.All()
	must(t, err)
	for _, definition := range definitions {
		version := &definition.Spec.Versions[0]
		version.Schema.OpenAPIV3Schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"creationTimestamp": {Type: "string"}}}
		for _, column := range version.AdditionalPrinterColumns {
			props := *version.Schema.OpenAPIV3Schema
			for _, match := range part.FindAllStringSubmatch(column.JSONPath, -1) {
				if props = props.Properties[match[1]]; match[2] != "" && props.Items != nil {
					props = *props.Items.Schema
				}
			}
			if column.Type != props.Type && !(column.Type == "date" && props.Type == "string") && !(column.Type == "string" && (props.Type == "array" || props.XIntOrString)) || part.ReplaceAllString(column.JSONPath, "") != "" {
				t.Errorf("%s: column %s shows %s of type %q", definition.Name, column.Name, column.JSONPath, props.Type)
			}
		}
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
