package convert_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/convert"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

var (
	update  = flag.Bool("update", false, "write the golden files again")
	options = convert.Options{ServiceAccount: "cleaner", Schedule: "*/10 * * * *", DeploymentTime: "none"}
	now     = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// Policies and rules like the examples of the projects are converted.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			must(t, err)
			result := convert.Source(filepath.Base(file), data, options)
			var have bytes.Buffer
			must(t, convert.Write(&have, result.Policies))
			have.WriteString("--- findings\n")
			for _, finding := range result.Findings {
				fmt.Fprintf(&have, "lost=%t %s\n", finding.Lost, finding)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				must(t, os.WriteFile(golden, have.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if have.String() != string(want) {
				t.Errorf("not what %s says: run go test with -update and look at the difference", golden)
			}
			for i := range result.Policies {
				usable(t, &result.Policies[i])
				valid(t, result.Policies[i])
			}
		})
	}
}

// valid checks the written policies against the schema of the kind, its rules included.
func valid(t *testing.T, p convert.Policy) {
	t.Helper()
	definitions, err := crd.All()
	must(t, err)
	schemas, err := lint.NewSchemas(definitions)
	must(t, err)
	var text bytes.Buffer
	must(t, convert.Write(&text, []convert.Policy{p}))
	var object map[string]any
	must(t, yaml.UnmarshalStrict(text.Bytes(), &object))
	if _, err := schemas.Stored(context.Background(), whole(object).(map[string]any)); err != nil {
		t.Errorf("the policy from %s is not valid: %v", p.Source, err)
	}
}

// usable checks that admission accepts the policy: its expressions compile and its schedule fires.
// A policy is suspended if a part of its source is missing.
func usable(t *testing.T, p *convert.Policy) *cleanup.Policy {
	t.Helper()
	compiled, spec := compile(t, p)
	parsed, err := schedule.Parse(spec.Schedule, spec.TimeZone)
	if err != nil || parsed.Never() || parsed.MinInterval() < 5*time.Minute {
		t.Errorf("%s: schedule %q: %v", p.Source, spec.Schedule, err)
	}
	lost := false
	for _, finding := range p.Findings {
		lost = lost || finding.Lost
	}
	if lost != spec.Suspend {
		t.Errorf("%s: suspend is %v, and something is not converted: %v", p.Source, spec.Suspend, lost)
	}
	return compiled
}

func compile(t *testing.T, p *convert.Policy) (*cleanup.Policy, *v1alpha1.CleanupSpec) {
	t.Helper()
	compiler := expression.NewCompiler(100)
	compiled, errs, _ := cleanup.Read(compiler, p.Object)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return compiled, p.Spec
}

// deletes reports whether the conditions of a converted policy hold for an object.
func deletes(t *testing.T, compiled *cleanup.Policy, object string) bool {
	t.Helper()
	var decoded map[string]any
	must(t, yaml.Unmarshal([]byte(object), &decoded))
	metadata, ok := decoded["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		decoded["metadata"] = metadata
	}
	for key, value := range map[string]string{"name": "x", "namespace": "ci", "creationTimestamp": "2026-11-01T00:00:00Z"} {
		switch given, ok := metadata[key]; {
		case !ok:
			metadata[key] = value
		case given == nil:
			delete(metadata, key)
		}
	}
	variables := &expression.Variables{Object: whole(decoded).(map[string]any), Now: now,
		Lookup: func(string) (bool, error) { return false, nil }}
	holds, err := compiled.Expressions.Matches(context.Background(), variables)
	return holds && err == nil
}

// expectDeletes fails the test unless the policy deletes the objects that are true, and no other.
func expectDeletes(t *testing.T, compiled *cleanup.Policy, objects map[string]bool) {
	t.Helper()
	for object, want := range objects {
		if have := deletes(t, compiled, object); have != want {
			t.Errorf("%s: is deleted: %t, want %t", object, have, want)
		}
	}
}

// split is an input of expectDeletes.
func split(deleted, kept []string) map[string]bool {
	out := map[string]bool{}
	for _, object := range kept {
		out[object] = false
	}
	for _, object := range deleted {
		out[object] = true
	}
	return out
}

// whole makes int64 of whole numbers, as the API server's own decoder does.
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
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// single converts a source that becomes one policy.
func single(t *testing.T, source string) *convert.Policy {
	t.Helper()
	result := convert.Source("", []byte(source), options)
	if len(result.Policies) != 1 {
		t.Fatalf("%d policies: %v", len(result.Policies), result.Findings)
	}
	return &result.Policies[0]
}

// No policy deletes anything while a part of its source is missing, for any input.
func FuzzSource(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("rules: [{id: a, resources: [x], jmespath: \"a[0].b[*].c || `1` && !(x == 'y')\", ttl: 1d}]")
	f.Fuzz(func(t *testing.T, text string) {
		result := convert.Source("f", []byte(text), options)
		for i := range result.Policies {
			usable(t, &result.Policies[i])
		}
		if err := convert.Write(&bytes.Buffer{}, result.Policies); err != nil {
			t.Error(err)
		}
	})
}

var must = builders.Must
