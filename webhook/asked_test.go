package webhook

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
)

// TestAccessOutsideOfAdmission holds that whoever is asked over HTTP asks what admission would.
func TestAccessOutsideOfAdmission(t *testing.T) {
	behind := &answers{of: map[string]bool{"system:serviceaccount:curfew-system:curfew-controller": true}}
	webhooks := newWorld(t, func(o *Options) {
		o.Access, o.ControllerUser, o.RequireDelete, o.KyvernoLabel = behind, "system:serviceaccount:curfew-system:curfew-controller", true, true
	}).webhooks
	if asked := webhooks.RuleOptions(); !asked.RequireDelete || !asked.KyvernoLabel {
		t.Error("others would judge by other settings")
	}
	if namespace, err := webhooks.Source().Namespace(t.Context(), "ci"); err != nil || namespace.TTL.All == nil {
		t.Errorf("others would judge by another namespace: %+v, %v", namespace, err)
	}
	if _, err := webhooks.Source().Runtime(t.Context(), nil); !errors.Is(err, platform.ErrUnknown) {
		t.Errorf("without a source of runtimes the error is %v, want that they are not known", err)
	}
	review := func(profile *policy.Profile, spec map[string]any) rules.Access {
		object := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "ci"}, "spec": spec}
		access, err := webhooks.Access(t.Context(), authenticationv1.UserInfo{Username: "ann"}, &rules.Request{
			Operation: rules.Create, Object: object, Facts: policy.FactsOfObject(profile, object),
		})
		must(t, err)
		return access
	}
	ttl := map[string]any{"ttlSecondsAfterFinished": int64(60)}
	if have := review(policy.JobProfile, ttl); !reflect.DeepEqual(have, rules.Access{User: rules.No, Controller: rules.Yes}) {
		t.Errorf("of a Job with a TTL: %+v", have)
	}
	if behind.last.Resource != "jobs" || behind.last.Group != "batch" || behind.last.Namespace != "ci" {
		t.Errorf("asked about %+v", behind.last)
	}
	behind.asked = nil
	bare := *policy.JobProfile
	bare.Resource = ""
	for _, have := range []rules.Access{review(policy.JobProfile, nil), review(&bare, ttl)} {
		if !reflect.DeepEqual(have, rules.Access{}) || len(behind.asked) > 0 {
			t.Errorf("asked %q without need: %+v", behind.asked, have)
		}
	}
}

// With --require-delete a review that gets no answer denies. An error would let the request pass
// where the webhook fails open. Without the flag the author is warned of nothing.
func TestNoAnswerToAnAccessReview(t *testing.T) {
	for _, require := range []bool{true, false} {
		access := &answers{err: errors.New("the authorizer does not answer")}
		w := newWorld(t, func(o *Options) { o.Access, o.RequireDelete = access, require })
		response := w.ask(t, ask{path: PathValidate, namespace: "plain", user: "ann",
			object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}"})
		if response.Allowed == require || require && (response.Result.Code != http.StatusTooManyRequests || !strings.HasSuffix(response.Result.Message, "the authorizer does not answer; see: kubectl curfew explain rule/review-time")) {
			t.Errorf("required %t: allowed %t, %v", require, response.Allowed, response.Result)
		}
	}
}

// byResource permits to delete objects of some kinds.
type byResource []string

func (b byResource) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	return slices.Contains(b, what.Resource), nil
}

// A request that sets when the object itself is deleted and when others are needs both permissions.
func TestBothLifetimesAreAskedAbout(t *testing.T) {
	const runtime = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: torch, namespace: plain, " +
		"labels: {curfew.dev/ttl: 300d}, annotations: {curfew.dev/ttl-after-finished: 1m}}, spec: {}}"
	const job = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain, annotations: {curfew.dev/pod-ttl: 1h}}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}"
	const own = "" // These reviews do not name the resource of the object itself.
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	for name, c := range map[string]struct {
		object string
		may    byResource
		denied string
	}{
		"the runtime alone": {runtime, byResource{own}, "trainjobs.trainer.kubeflow.org"},
		"TrainJobs alone":   {runtime, byResource{"trainjobs"}, "metadata.labels[curfew.dev/ttl]"},
		"a runtime, both":   {runtime, byResource{"trainjobs", own}, ""},
		"the Job alone":     {job, byResource{own}, "the verb delete on pods"},
		"Pods alone":        {job, byResource{"pods"}, "the verb delete on jobs.batch"},
		"a Job, both":       {job, byResource{"pods", own}, ""},
	} {
		w := newWorld(t, func(o *Options) { o.Platform, o.Access, o.RequireDelete = known, c.may, true })
		response := w.ask(t, ask{path: PathValidate, namespace: "plain", user: "ann", object: c.object})
		if response.Allowed != (c.denied == "") || !strings.Contains(response.Result.Message, c.denied) {
			t.Errorf("%s: allowed %t, %s", name, response.Allowed, response.Result.Message)
		}
	}
}
