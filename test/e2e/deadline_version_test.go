package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// hunts is a kind whose later versions have a deadline of their own, as TrainJobs have: FIELD
// stands for its place in the schema.
const huntKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hunts.version.example.com}
spec:
  group: version.example.com
  scope: Namespaced
  names: {plural: hunts, singular: hunt, kind: Hunt}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {prey: {type: string}FIELD}}
            status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

const huntProfile = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-hunts, labels: {curfew.dev/aggregate-to-controller: "true"}}
rules:
  - {apiGroups: [version.example.com], resources: [hunts], verbs: [get, list, watch, delete, patch]}
  - {apiGroups: [version.example.com], resources: [hunts/status], verbs: [patch]}
---
apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: hunts}
spec:
  kind: {group: version.example.com, version: v1, kind: Hunt, resource: hunts}
  state:
    finished: object.?status.?conditions.orValue([]).exists(c, c.type in ["Complete", "Failed"] && c.status == "True")
    finishTime: object.?status.?conditions.orValue([]).filter(c, c.type in ["Complete", "Failed"] && c.status == "True")[?0].?lastTransitionTime
    outcome: 'object.status.conditions.exists(c, c.type == "Complete" && c.status == "True") ? "Succeeded" : "Failed"'
    started: object.?metadata.?creationTimestamp.orValue(null)
  fields: {deadline: spec.limitSeconds}
  deadline:
    allowDefault: true
    enforcement:
      - {ifServed: spec.limitSeconds, by: Controller, acts: "true", graceSeconds: 5, stop: [{action: MarkFailed}]}
      - {by: Curfew, stop: [{action: MarkFailed}]}
`

// A definition that comes to have a deadline field, and loses it again, is noticed without a
// restart: without the field Curfew enforces the annotation; with it the annotation is copied
// there, the kind's own controller enforces it, and Curfew is the backstop a grace period later.
func TestDeadlineFollowsTheInstalledVersion(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "1h")
	install := func(field string) {
		t.Helper()
		s.apply(strings.Replace(huntKind, "FIELD", field, 1))
	}
	install("")
	s.awaitEstablished("hunts.version.example.com")
	s.apply(huntProfile)
	hunt := func(name, annotations, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "version.example.com/v1", "kind": "Hunt", "metadata": {"name": %q, "annotations": {%s}}, "spec": {%s}}`, name, annotations, spec)
	}
	create := func(name, annotations, spec string) time.Time {
		t.Helper()
		s.expectSuccess(s.kubectlInput(hunt(name, annotations, spec), "create", "-f", "-"))
		return s.metaOf("hunt", name).CreationTimestamp.Time
	}
	awaitDefault := func(path, want string) {
		t.Helper()
		s.poll("a default at "+path, func(context.Context) (bool, error) {
			out := s.kubectlInput(hunt("probe", "", `"prey": "snark"`), "create", "--dry-run=server", "-o", "jsonpath={"+path+"}", "-f", "-")
			return out.stdout == want, nil
		})
	}
	awaitWatched := func(times int) {
		t.Helper()
		s.poll("Hunts to be watched anew", func(context.Context) (bool, error) {
			return len(logLines(suite.controller.Log, "kind is watched", "hunts")) >= times, nil
		})
	}
	failed := func(name string, from time.Time) {
		t.Helper()
		s.expectSuccess(s.kubectl("wait", "hunt/"+name, "--for=condition=Failed", "--timeout=10m"))
		when, err := time.Parse(time.RFC3339, s.jsonpath("hunt", name, `.status.conditions[?(@.type=="Failed")].lastTransitionTime`))
		s.ok(err)
		if when.Before(from) {
			t.Errorf("%s failed at %s, want %s or later", name, when.Format(time.TimeOnly), from.Format(time.TimeOnly))
		}
	}
	annotation := `"` + wellknown.AnnotationActiveDeadline + `": `

	awaitDefault(`.metadata.annotations.curfew\.dev/active-deadline`, "1h")
	awaitWatched(1)
	created := create("without", annotation+`"3s"`, "")
	failed("without", created.Add(3*second))

	install(", limitSeconds: {type: integer, minimum: 1}")
	awaitDefault(".spec.limitSeconds", "3600")
	awaitWatched(2)
	created = create("with", "", `"limitSeconds": 2`)
	copied := create("copied", annotation+`"3s"`, "")
	if got := s.jsonpath("hunt", "copied", ".spec.limitSeconds"); got != "3" {
		t.Errorf("where there is a field, the annotation made it %q, want 3", got)
	}
	failed("with", created.Add(2*second+5*second))
	failed("copied", copied.Add(3*second+5*second))

	install("")
	awaitDefault(`.metadata.annotations.curfew\.dev/active-deadline`, "1h")
	created = create("again", annotation+`"3s"`, "")
	failed("again", created.Add(3*second))
}

// A field in the schema does not mean that anyone enforces it: its feature gate may be off. Without
// a sign that the kind's own controller acts, Curfew fails the object at its deadline, and not a
// grace period later; with one, it leaves the object to that controller. Defaults and the
// annotation stay out of a field that no controller may act on, since an API server can reject it.
func TestDeadlineFieldThatNoControllerEnforces(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "1h")
	const group = "gated.example.com"
	gated := strings.NewReplacer("version.example.com", group, "hunt", "chase", "Hunt", "Chase", "FIELD", ", limitSeconds: {type: integer, minimum: 1}",
		`acts: "true", graceSeconds: 5`, `acts: "object.?status.?startTime.hasValue()", graceSeconds: 600`)
	s.apply(gated.Replace(huntKind))
	const kind = "chases." + group
	s.awaitEstablished(kind)
	s.apply(gated.Replace(huntProfile))
	chase := func(name, annotations, spec string) string {
		return fmt.Sprintf(`{"apiVersion": "`+group+`/v1", "kind": "Chase", "metadata": {"name": %q, "annotations": {%s}}, "spec": {%s}}`, name, annotations, spec)
	}
	s.poll("a default as an annotation", func(context.Context) (bool, error) {
		out := s.kubectlInput(chase("probe", "", `"prey": "snark"`), "create", "--dry-run=server", "-o", `jsonpath={.metadata.annotations.curfew\.dev/active-deadline} {.spec.limitSeconds}`, "-f", "-")
		return out.stdout == "1h ", nil
	})
	setStatus := func(name, status string) {
		t.Helper()
		s.expectSuccess(s.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", `{"status":{`+status+`}}`))
	}
	conditions := func(name string) string { return s.jsonpath(kind, name, ".status.conditions[*]['reason','message']") }
	s.expectSuccess(s.kubectlInput(chase("acted-on", "", `"limitSeconds": 600`), "create", "-f", "-"))
	setStatus("acted-on", fmt.Sprintf(`"startTime": %q`, now().UTC().Format(time.RFC3339)))
	// The deadline is short from now on: its controller acts before it, however slow this machine is.
	s.expectSuccess(s.kubectl("patch", kind, "acted-on", "--type=merge", "-p", `{"spec":{"limitSeconds":6}}`))
	s.expectSuccess(s.kubectlInput(chase("ignored", "", `"limitSeconds": 3`), "create", "-f", "-"))
	s.expectSuccess(s.kubectlInput(chase("noted", `"`+wellknown.AnnotationActiveDeadline+`": "3s"`, ""), "create", "-f", "-"))
	for _, name := range []string{"ignored", "noted"} {
		s.expectSuccess(s.kubectl("wait", kind+"/"+name, "--for=condition=Failed", "--timeout=10m"))
		due := s.metaOf(kind, name).CreationTimestamp.Add(3 * second)
		when, err := time.Parse(time.RFC3339, s.jsonpath(kind, name, `.status.conditions[?(@.type=="Failed")].lastTransitionTime`))
		s.ok(err)
		if when.Before(due) {
			t.Errorf("%s failed at %s, its deadline was %s", name, when.Format(time.TimeOnly), due.Format(time.TimeOnly))
		}
		if got := conditions(name); !strings.HasPrefix(got, "DeadlineExceeded") || !strings.Contains(got, "longer than its deadline of 3s") {
			t.Errorf("%s has the conditions %q", name, got)
		}
		if field := s.jsonpath(kind, name, ".spec.limitSeconds"); name == "noted" && field != "" {
			t.Errorf("the annotation was copied into the field: %q", field)
		}
	}
	s.outlastDeadline(now().Add(6 * second)) // Its deadline has passed, too.
	if got := conditions("acted-on"); got != "" {
		t.Errorf("Curfew did not leave it to its controller: %q", got)
	}
	setStatus("acted-on", fmt.Sprintf(`"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "by its controller", "lastTransitionTime": %q}]`,
		now().UTC().Format(time.RFC3339)))
	s.outlastDeadline(now())
	if got := conditions("acted-on"); got != "DeadlineExceeded by its controller" {
		t.Errorf("failed by its controller, it has the conditions %q", got)
	}
}

// What Kubernetes' own tests expect of the deadline of a Job holds for one that Curfew filled in:
// it is an ordinary one.
func TestDefaultDeadlineOfJobsIsCarriedOut(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "6s")
	held := inTemplate(hold, "true")
	s.expectSuccess(s.create(job("hangs", held)))
	nowhere := job("nowhere")
	nowhere.Spec.Template.Spec.NodeSelector = map[string]string{"e2e.curfew.dev/none": "true"}
	s.expectSuccess(s.create(nowhere))
	paused := job("paused", held)
	paused.Spec.Suspend = new(true)
	s.expectSuccess(s.create(paused))
	hangs := s.getJob("hangs")
	running := s.podOf(hangs)
	for _, name := range []string{"hangs", "nowhere"} {
		when := s.awaitJobFinish(s.getJob(name))
		failed := s.getJob(name)
		if reason := failed.Status.Conditions[len(failed.Status.Conditions)-1].Reason; reason != policy.ReasonDeadlineExceeded {
			t.Errorf("%s failed with %s, want %s", name, reason, policy.ReasonDeadlineExceeded)
		}
		if due := failed.Status.StartTime.Add(6 * second); when.Before(due) {
			t.Errorf("%s failed at %s, before its deadline %s", name, when, due)
		}
	}
	s.awaitGone(running)
	s.outlast(now())
	suspended := s.getJob("paused")
	if c := suspended.Status.Conditions; len(c) != 1 || c[0].Type != "Suspended" || suspended.Status.StartTime != nil {
		t.Errorf("suspended, its conditions are %v and its start %v", c, suspended.Status.StartTime)
	}
	resumed := time.Now().Truncate(second)
	s.patchJob("paused", `{"spec":{"suspend":false}}`)
	moment := s.awaitJobFinish(suspended)
	if started := s.getJob("paused").Status.StartTime; started.Time.Before(resumed) || moment.Before(started.Add(6*second)) {
		t.Errorf("resumed at %s it started at %s and failed at %s, want its whole deadline", resumed, started, moment)
	}
}

// Zero, negative and boolean deadlines are refused: in a field by the schema of its kind, in the
// annotation by Curfew.
func TestTrainJobDeadlineValues(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.creates(row{s.runtime("TrainingRuntime", "any"), ""})
	own := at("spec.runtimeRef.kind", "TrainingRuntime")
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"zero":     {0, "spec.activeDeadlineSeconds: Invalid value: 0: spec.activeDeadlineSeconds in body should be greater than or equal to 1"},
		"negative": {-5, "spec.activeDeadlineSeconds: Invalid value: -5: spec.activeDeadlineSeconds in body should be greater than or equal to 1"},
		"boolean":  {true, "spec.activeDeadlineSeconds in body must be of type int"},
	} {
		if out := s.create(s.trainJob(name, "any", own, at("spec.activeDeadlineSeconds", c.value))); !out.failed || !strings.Contains(out.stderr, c.want) {
			t.Errorf("%s: kubectl said %q, want %q", name, out.stderr, c.want)
		}
	}
	const webhook, key = "validate.jobsets.jobset.x-k8s.io.curfew.dev", "metadata.annotations[curfew.dev/active-deadline]: "
	s.eventually(row{s.jobSet("zero", noted(wellknown.AnnotationActiveDeadline, "0")), denied(webhook, key+`"0" is below 1: a deadline is 1s or more`)})
	s.wouldCreate(
		row{s.jobSet("negative", noted(wellknown.AnnotationActiveDeadline, "-5")), denied(webhook, key+`"-5" is negative: a duration is 0 or more`)},
		row{s.jobSet("boolean", noted(wellknown.AnnotationActiveDeadline, "true")), denied(webhook, key+`"true" is not a duration: `+readable)},
		row{s.jobSet("never", noted(wellknown.AnnotationActiveDeadline, "never")), denied(webhook, key+`"never" is not a duration: `+readable)},
	)
}

// The samples for those who train are admitted as they are, and what their author wrote is what
// they have. The policy among them is for the whole cluster, so that this test runs before the
// parallel ones.
func TestTrainingSamples(t *testing.T) {
	s := newSpace(t)
	sample := func(name string) []string {
		return []string{"--namespace=", "-f", "../../manifests/samples/" + name + ".yaml"}
	}
	apply := func(name string) output {
		return s.expectSuccess(s.kubectl(append([]string{"apply"}, sample(name)...)...))
	}
	experiments := *s
	experiments.name = "experiments"
	probe := func(output string) {
		t.Helper()
		experiments.eventually(row{s.trainJob("probe", "torch-curfew"), output})
	}
	apply("1-namespaces")
	defer s.afterwards("delete", "namespace", "ci", "experiments", "--wait=false")
	apply("5-training-platform")
	const announced = `runtime "torch-curfew" deletes this TrainJob 2h after it has succeeded, and 3d after it has failed`
	probe(warned(`activeDeadlineSeconds defaulted to 28800 (8h) from policy "training"`, announced))
	s.expectStderr(apply("6-trainjob"), "Warning: curfew: "+announced)
	if got := s.expectSuccess(s.kubectl("get", "trainjob", "fine-tune", "--namespace=experiments", "-o", "jsonpath={.spec.activeDeadlineSeconds}")).stdout; got != "14400" {
		t.Errorf("the deadline of the data scientist became %s", got)
	}
	s.expectStderr(apply("7-trainjob-before-v2.2"), "Warning: curfew: "+announced)
	if got := s.expectSuccess(s.kubectl("get", "trainjob", "fine-tune-annotated", "--namespace=experiments", "-o", "jsonpath={.spec.activeDeadlineSeconds}")).stdout; got != "14400" {
		t.Errorf("the annotation of the data scientist became %s in the field", got)
	}
	long := s.trainJob("long", "torch-curfew", at("spec.activeDeadlineSeconds", 90000))
	if out := experiments.create(long); !out.failed || !strings.Contains(out.stderr, `90000 (1d1h) is above maxDeadline 1d of policy "training": use 1d or less`) {
		t.Errorf("of a deadline above the bound kubectl said %q", out.stderr)
	}
	s.expectSuccess(s.kubectl(append([]string{"delete"}, sample("5-training-platform")...)...))
	probe(warned(`spec.runtimeRef.name: runtime "torch-curfew" does not exist: this TrainJob is kept until it exists and sets a TTL`))
}
