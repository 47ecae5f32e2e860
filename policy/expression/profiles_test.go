package expression_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

type sample struct {
	Name   string         `json:"name"`
	Object map[string]any `json:"object"`
	Want   struct {
		Finished, Suspended, Errored bool
		Outcome                      string
		Started, FinishTime          time.Time
		// Error is what the error has to contain.
		Error string
	} `json:"want"`
}

func builtin(t testing.TB) map[string]*expression.Profile {
	t.Helper()
	all, err := profiles.All()
	must(t, err)
	compiler := expression.NewCompiler(expression.DefaultCacheSize)
	out := make(map[string]*expression.Profile, len(all))
	for _, object := range all {
		profile, errs := compiler.Profile(object)
		if len(errs) > 0 {
			t.Errorf("built-in profile %s does not compile: %v", object.Name, errs.ToAggregate())
		}
		out[strings.ToLower(profile.Kind.Kind)+"."+profile.Kind.Group] = profile
	}
	return out
}

// fileOf is the file of samples of a profile: the kind, unless two groups have it.
func fileOf(kind schema.GroupVersionKind) string {
	if kind.Group == "batch.volcano.sh" {
		return "volcanojob.yaml"
	}
	return strings.ToLower(kind.Kind) + ".yaml"
}

func TestBuiltinProfilesReadTheirKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, profile := range builtin(t) {
		if profile.State == nil {
			continue
		}
		file := fileOf(profile.Kind)
		seen[file] = true
		text, err := os.ReadFile(filepath.Join("testdata", "states", file))
		must(t, err)
		var samples []sample
		if err := yaml.UnmarshalStrict(text, &samples); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, kind := range []string{"new", "suspended", "succeeded", "failed"} {
			if !hasRow(samples, kind) && !(kind == "suspended" && profile.Kind.Kind == "Pod") {
				t.Errorf("%s has no row %q", file, kind)
			}
		}
		for i := range samples {
			t.Run(file+"/"+samples[i].Name, func(t *testing.T) { checkSample(t, profile, &samples[i]) })
		}
	}
	files, err := filepath.Glob("testdata/states/*.yaml")
	must(t, err)
	for _, file := range files {
		if !seen[filepath.Base(file)] {
			t.Errorf("%s belongs to no profile", file)
		}
	}
}

func hasRow(samples []sample, name string) bool {
	for i := range samples {
		if strings.HasPrefix(samples[i].Name, name) {
			return true
		}
	}
	return false
}

func checkSample(t *testing.T, profile *expression.Profile, s *sample) {
	facts := policy.FactsOfObject(profile.Profile, s.Object)
	if s.Want.Error != "" {
		if facts.StateError == nil || !strings.Contains(facts.StateError.Error(), s.Want.Error) {
			t.Fatalf("error %v, want one of %s", facts.StateError, s.Want.Error)
		}
		if facts.Finished {
			t.Error("finished in spite of an error (S6)")
		}
		return
	}
	if facts.StateError != nil {
		t.Fatal(facts.StateError)
	}
	outcome := lifetime.NoOutcome
	switch s.Want.Outcome {
	case "succeeded":
		outcome = lifetime.Succeeded
	case "failed":
		outcome = lifetime.Failed
	}
	if facts.Finished != s.Want.Finished || facts.Outcome != outcome || facts.Suspended != s.Want.Suspended || facts.Errored != s.Want.Errored ||
		!facts.FinishTime.Equal(s.Want.FinishTime) || !facts.Started.Equal(s.Want.Started) {
		t.Errorf("got %+v, want %+v", facts.State, s.Want)
	}
}

func TestBuiltinProfilesCompileTogether(t *testing.T) {
	all := builtin(t)
	var list []*expression.Profile
	for _, profile := range all {
		list = append(list, profile)
	}
	index := expression.Link(list...)
	if len(index) != len(all) {
		t.Fatalf("%d kinds of %d profiles: two speak of one", len(index), len(all))
	}
	runtime := index[schema.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainingRuntime"}]
	if len(runtime.Templates) != 2 || runtime.Templates[1].Profile.Kind.Kind != "Job" || runtime.Templates[0].Profile.TTL == nil {
		t.Errorf("templates of TrainingRuntime are %+v", runtime.Templates)
	}
	if len(runtime.Forbidden) != 3 || runtime.State != nil {
		t.Errorf("TrainingRuntime: %+v", runtime)
	}
}

func TestServedLeavesOutWhatTheInstalledVersionLacks(t *testing.T) {
	trainJob := builtin(t)["trainjob.trainer.kubeflow.org"]
	if trainJob.Profile.Deadline == nil || trainJob.Enforcement.By != v1alpha1.EnforcedByController || !trainJob.AnnotatedDeadline {
		t.Errorf("with the field: %+v", trainJob.Enforcement)
	}
	if got := len(trainJob.Enforcement.Stop); got != 3 || trainJob.Enforcement.Grace != 30*time.Second {
		t.Errorf("with the field: %+v", trainJob.Enforcement)
	}
	old := trainJob.Served(func(path fieldpath.FieldPath) bool { return path.String() != "spec.activeDeadlineSeconds" })
	if old.Profile.Deadline != nil || old.Enforcement.By != v1alpha1.EnforcedByCurfew || !old.AnnotatedDeadline {
		t.Errorf("without the field: %+v", old.Enforcement)
	}
	if old.Enforcement.Stop[0].Child == nil || old.Enforcement.Stop[0].Action != v1alpha1.StopMarkFailed {
		t.Errorf("without the field the JobSet has to be marked: %+v", old.Enforcement.Stop)
	}
	if trainJob.Profile.Deadline == nil {
		t.Error("Served changed its receiver")
	}
}

func TestTrainJobFindsItsRuntime(t *testing.T) {
	runtime := builtin(t)["trainjob.trainer.kubeflow.org"].Runtime
	for name, c := range map[string]struct{ ref, want string }{
		"defaults":   {`{"name":"torch"}`, "ClusterTrainingRuntime torch"},
		"namespaced": {`{"name":"torch","kind":"TrainingRuntime","apiGroup":"trainer.kubeflow.org"}`, "TrainingRuntime ci/torch"},
		"none":       {`{}`, ""},
		"unknown":    {`{"name":"torch","kind":"Foo"}`, `error spec.runtimeRef.name: "Foo" of group "trainer.kubeflow.org" is not a kind of runtime that the profile knows`},
		"group":      {`{"name":"torch","apiGroup":"example.com"}`, `error spec.runtimeRef.name: "ClusterTrainingRuntime" of group "example.com" is not a kind of runtime that the profile knows`},
		"slash":      {`{"name":"a/b"}`, `error spec.runtimeRef.name: "a/b" is not a name`},
		"dots":       {`{"name":".."}`, `error spec.runtimeRef.name: ".." is not a name`},
		"percent":    {`{"name":"a%2Fb"}`, `error spec.runtimeRef.name: "a%2Fb" is not a name`},
		"no name":    {`{"name":7}`, "error spec.runtimeRef.name: 7 is not a name"},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			must(t, json.Unmarshal([]byte(`{"spec":{"runtimeRef":`+c.ref+`}}`), &object))
			got, err := runtime.Reference("ci", object)
			text := ""
			switch {
			case err != nil:
				text = "error " + err.Error()
			case got != nil:
				text = got.String()
			}
			if text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

func TestRuntimePolicyReadsFieldsAndAnnotations(t *testing.T) {
	runtime := builtin(t)["trainjob.trainer.kubeflow.org"].Runtime
	ref, err := runtime.Reference("ci", map[string]any{"spec": map[string]any{"runtimeRef": map[string]any{"name": "torch"}}})
	must(t, err)
	if runtimePolicy := ref.Policy(nil, nil); !runtimePolicy.Missing || runtimePolicy.Deadline != nil || runtimePolicy.Path != "spec.runtimeRef.name" || runtimePolicy.Unusable() == nil {
		t.Errorf("a runtime that is gone: %+v", runtimePolicy)
	}
	r := ref.Policy(map[string]any{"spec": map[string]any{"runPolicy": map[string]any{"ttlSecondsAfterFinished": int64(60), "activeDeadlineSeconds": int64(3600)}}}, nil)
	if setting := r.TTL.For(lifetime.Failed); setting == nil || setting.TTL.After != time.Minute || setting.Source.String() != "runtime/torch" || setting.Path != "spec.runPolicy.ttlSecondsAfterFinished" {
		t.Errorf("field: %+v", setting)
	}
	if r.Deadline == nil || r.Deadline.TTL.After != time.Hour || r.Deadline.Source.String() != "runtime/torch" {
		t.Errorf("deadline: %+v", r.Deadline)
	}
	r = ref.Policy(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "nonsense"}}}, nil)
	if setting := r.TTL.For(lifetime.Succeeded); setting == nil || setting.Err == nil {
		t.Errorf("an unreadable annotation has to stay unreadable (S6): %+v", setting)
	}
	r = ref.Policy(map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": map[string]any{
		"runPolicy": map[string]any{"ttlSecondsAfterFinished": int64(60), "activeDeadlineSeconds": int64(3600)},
	}}, nil)
	if !r.Missing || r.Unusable() == nil || r.TTL.For(lifetime.Failed) != nil || r.Deadline != nil {
		t.Errorf("a runtime that is being deleted has to keep (it is not reviewed): %+v", r)
	}
}
