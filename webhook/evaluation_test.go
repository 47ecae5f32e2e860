package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// annotatedJob is the body of a review of a new Job with TTL 0 and n tiny annotations. The API
// server allows 256 KiB of them.
func annotatedJob(t testing.TB, n int) []byte {
	t.Helper()
	review := ask{path: PathValidate, namespace: "plain", user: "bob",
		object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain}, spec: {ttlSecondsAfterFinished: 0, template: {spec: {}}}}"}.review(t)
	var annotations strings.Builder
	for i := range n {
		annotations.WriteString(`,"` + string([]byte{letters[i%62], letters[i/62%62], letters[i/3844%62]}) + `":""`)
	}
	review.Request.Object.Raw = []byte(strings.Replace(string(review.Request.Object.Raw), `"metadata":{`, `"metadata":{"annotations":{`+annotations.String()[1:]+`},`, 1))
	body, err := json.Marshal(review)
	must(t, err)
	return body
}

// exempting is a policy with a minimum of a day, unless one of n conditions looks through all
// annotations and finds an exemption.
func exempting(t *testing.T, n int) *platform.Store {
	t.Helper()
	store, err := platform.New(nil)
	must(t, err)
	retention := parsed[v1alpha1.LifecyclePolicy](t, `{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: retention}, spec: {bounds: {minTTL: 1d}}}`)
	for i := range n {
		name := string(letters[i])
		retention.Spec.Match.MatchConditions = append(retention.Spec.Match.MatchConditions, v1alpha1.MatchCondition{Name: name,
			Expression: v1alpha1.Expression(`!has(object.metadata.annotations) || !object.metadata.annotations.exists(k, k.startsWith("` + name + `.example.com/"))`)})
	}
	if errs := store.SetPolicy(retention); len(errs) > 0 {
		t.Fatal(errs)
	}
	return store
}

// S9: content cannot make a review outlast the five seconds that the API server waits for it.
// Before, it took 17 seconds.
func TestReviewDoesNotOutlastItsTime(t *testing.T) {
	for name, test := range map[string]struct {
		conditions, annotations int
		want                    string
	}{
		"small":              {1, 10, "spec.ttlSecondsAfterFinished: 0 (0s) is below minTTL 1d of policy \"retention\": use 1d or more"},
		"large":              {1, 80_000, "spec.ttlSecondsAfterFinished: 0 (0s) is below minTTL 1d of policy \"retention\": use 1d or more"},
		"more than a review": {32, 80_000, "spec.ttlSecondsAfterFinished: cannot be checked: minTTL of policy \"retention\" cannot be read: policy \"retention\": spec.match.matchConditions["},
	} {
		w := newWorld(t, func(o *Options) { o.Platform = exempting(t, test.conditions) })
		// The machine may be busy: only what takes minutes is cut, which answers 429.
		w.webhooks.evaluating = time.Minute
		status, review := w.post(t, PathValidate, annotatedJob(t, test.annotations))
		response := review.Response
		if status != http.StatusOK || response.Allowed || response.Result.Code != http.StatusForbidden || !strings.Contains(response.Result.Message, test.want) {
			t.Errorf("%s: HTTP status %d, %d %s", name, status, response.Result.Code, response.Result.Message)
		}
	}
}

// A bound that was not evaluated in time, because the machine is busy, is a denial that clients try
// again.
func TestBoundsNeedTime(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Platform = exempting(t, 1) })
	w.webhooks.evaluating = time.Nanosecond
	_, review := w.post(t, PathValidate, annotatedJob(t, 1))
	response := review.Response
	if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.Result.Details.RetryAfterSeconds != 1 ||
		!strings.Contains(response.Result.Message, "spec.ttlSecondsAfterFinished: cannot be checked: minTTL of policy \"retention\" cannot be read: ") {
		t.Errorf("with a bound: %+v", response.Result)
	}
	without := ask{path: PathValidate, namespace: "plain", object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain, annotations: {a: b}}, spec: {template: {spec: {}}}}"}
	if got := w.ask(t, without); !got.Allowed {
		t.Errorf("without a TTL: %+v", got.Result)
	}
}

// Evaluations end with the time of their review, which may concern several objects: the time that
// the first object takes is not available to the others.
func TestEvaluationsEndWithTheReview(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Platform = exempting(t, 1) })
	w.webhooks.evaluating = time.Minute
	job := builders.MakeJob("plain", "a").TTL(0).Map()
	facts := policy.FactsOfObject(policy.JobProfile, job)
	for _, over := range []bool{false, true} {
		ctx, end := w.webhooks.limited(t.Context())
		if over {
			end()
		}
		scope, err := w.webhooks.scopeOf(ctx, platform.Whole(facts, job), false)
		if err != nil || ctx.Err() != nil {
			t.Fatalf("errors %v and %v, want none: the review's time is not over", err, ctx.Err())
		}
		if len(scope.Policies) != 1 {
			t.Fatalf("%d policies", len(scope.Policies))
		}
		bound := scope.Policies[0].Bounds.TTL.Min
		if undecided := (*lifetime.UndecidedError)(nil); errors.As(bound.Err, &undecided) != over || over && !undecided.Retry {
			t.Errorf("over: %t, minTTL %+v", over, bound)
		}
		end()
	}
}
