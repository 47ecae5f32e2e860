package rules

import (
	"context"
	"slices"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

const durations = "use seconds (90) or units s, m, h, d, w (1h30m, 7d)"

var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

// row is one request and what a rule says to it. Without old it is a CREATE.
type row struct {
	old, object map[string]any
	namespace   map[string]string
	policies    []*resolution.PlatformPolicy
	options     Options
	want        []string
}

func annotated(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[wellknown.Prefix+pairs[i]] = pairs[i+1]
	}
	return out
}

func at(key string) string { return "metadata.annotations[curfew.dev/" + key + "]" }

func job() *builders.JobWrapper { return builders.MakeJob("ci", "a") }
func pod() *builders.PodWrapper { return builders.MakePod("ci", "a") }

func profileOf(object map[string]any) *policy.Profile {
	kind, _ := object["kind"].(string)
	for _, profile := range policy.BuiltinProfiles() {
		if profile.Kind.Kind == kind {
			return profile
		}
	}
	profile := &policy.Profile{Name: kind}
	profile.Kind.Kind, profile.Kind.Version = kind, "v1"
	return profile
}

func review(r row) *Decision {
	request := &Request{Operation: Create, Object: r.object, Options: r.options, Scope: &resolution.Scope{Policies: r.policies, Creating: r.old == nil}}
	request.Facts = policy.FactsOfObject(profileOf(r.object), r.object)
	if request.Facts.Namespace != "" {
		request.Scope.Namespace = resolution.ParseNamespace("ci", r.namespace, nil)
	}
	if request.Facts.IsNamespace() {
		request.Scope.Namespace = resolution.ParseNamespace(request.Facts.Name, request.Facts.Annotations, nil)
		request.Outer = func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy { return r.policies }
	}
	if r.old != nil {
		request.Operation, request.Old = Update, r.old
		request.OldFacts = policy.FactsOfObject(profileOf(r.old), r.old)
	}
	effective := resolution.Resolve(request.Facts, request.Scope)
	request.Effective = &effective
	return Review(request)
}

// run holds each row against the findings of one rule, as "severity field: message".
func run(t *testing.T, rule Rule, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, finding := range review(r).Findings {
				if finding.Rule == rule.Name {
					got = append(got, string(finding.Severity)+" "+finding.String())
				}
			}
			equal(t, got, r.want)
		})
	}
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

var trainJob = &policy.Profile{Name: "trainjob", ImmutableDeadline: true, DefaultDeadline: true, AnnotatedDeadline: true,
	Deadline: fieldpath.MustFieldPath("spec.activeDeadlineSeconds"),
	State:    func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil }}

var trainingRuntime = &policy.Profile{Name: "runtime", RuntimeOf: "TrainJob", TTL: fieldpath.MustFieldPath("spec.ttlSecondsAfterFinished"),
	Forbidden: []policy.Forbidden{{Path: fieldpath.MustFieldPath("spec.template.spec.replicatedJobs[*].template.spec.activeDeadlineSeconds"), Reason: "set it on the TrainJob"}}}

var pipelineRun = &policy.Profile{Name: "pipelinerun", ImmutableDeadline: true, Deadline: fieldpath.MustFieldPath("spec.timeout"), DurationDeadline: true,
	State: func(context.Context, map[string]any) (policy.State, error) { return policy.State{}, nil }}

func init() {
	pipelineRun.Kind.Kind = "PipelineRun"
	trainJob.Kind.Kind, trainingRuntime.Kind.Kind = "TrainJob", "TrainingRuntime"
	trainJob.Kind.Group = "trainer.kubeflow.org"
}

func object(kind string, spec map[string]any, annotations ...string) map[string]any {
	fields := map[string]any{}
	for key, value := range annotated(annotations...) {
		fields[key] = value
	}
	return map[string]any{"kind": kind, "metadata": map[string]any{"name": "a", "namespace": "ci", "annotations": fields}, "spec": spec}
}

// judge asks all rules about an object of a profile and returns what one of them finds.
func judge(rule Rule, profile *policy.Profile, request Request, old, object map[string]any) []string {
	request.Operation, request.Object, request.Facts = Create, object, policy.FactsOfObject(profile, object)
	if old != nil {
		request.Operation, request.Old, request.OldFacts = Update, old, policy.FactsOfObject(profile, old)
	}
	if request.Scope == nil {
		request.Scope = &resolution.Scope{}
	}
	effective := resolution.Resolve(request.Facts, request.Scope)
	request.Effective = &effective
	var got []string
	for _, finding := range Review(&request).Findings {
		if finding.Rule == rule.Name {
			got = append(got, string(finding.Severity)+" "+finding.String())
		}
	}
	return got
}
