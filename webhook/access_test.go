package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

// answers is an AccessReviewer over a table of user names, which counts.
type answers struct {
	mu    sync.Mutex
	of    map[string]bool
	err   error
	asked []string
	last  authorizationv1.ResourceAttributes
}

func (a *answers) May(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, user.Username)
	a.last = what
	return a.of[user.Username], a.err
}

// cluster answers access reviews, and keeps the requests.
type cluster struct {
	mu       sync.Mutex
	may      map[string]bool
	code     int    // in place of an answer
	says     string // beside each answer
	hangs    bool
	paths    []string
	requests []authorizationv1.SubjectAccessReview
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	c.paths, c.requests = append(c.paths, r.URL.Path), append(c.requests, review)
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: c.may[review.Spec.User], Reason: c.says, EvaluationError: c.says}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	recorder.WriteHeader(cmp.Or(c.code, http.StatusCreated))
	err := json.NewEncoder(recorder).Encode(review)
	return recorder.Result(), err
}

// reviews asks a cluster.
func reviews(t *testing.T, c *cluster) *Reviews {
	t.Helper()
	out, err := NewReviews(&rest.Config{Host: "http://cluster", Transport: c, QPS: -1})
	must(t, err)
	return out
}

func TestReviews(t *testing.T) { synctest.Test(t, testReviews) }

func testReviews(t *testing.T) {
	c := &cluster{may: map[string]bool{"ann": true}, says: strings.Repeat("a", 1<<20)}
	asked := reviews(t, c)
	ann, bob := authenticationv1.UserInfo{Username: "ann"}, authenticationv1.UserInfo{Username: "bob"}
	jobs := authorizationv1.ResourceAttributes{Namespace: "ci", Group: "batch", Version: "v1", Resource: "jobs", Name: "a"}
	policies := authorizationv1.ResourceAttributes{Verb: "update", Group: "curfew.dev", Resource: "lifecyclepolicies", Name: "a"}
	with := func(what authorizationv1.ResourceAttributes, namespace, name string) authorizationv1.ResourceAttributes {
		what.Namespace, what.Name = namespace, name
		return what
	}
	many := authenticationv1.UserInfo{Username: "ann", Groups: []string{strings.Repeat("a", maxQuestion)}}
	full := authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"a", "b"}}}
	for _, step := range []struct {
		name   string
		after  time.Duration
		who    authenticationv1.UserInfo
		what   authorizationv1.ResourceAttributes
		may    bool
		cached bool
	}{
		{name: "a Job", who: ann, what: jobs, may: true},
		{name: "the next of a loop", who: ann, what: with(jobs, "ci", "b"), may: true, cached: true},
		{name: "another user", who: bob, what: jobs},
		{name: "a no", who: bob, what: jobs, cached: true},
		{name: "with all that is known of a user", who: full, what: jobs, may: true},
		{name: "another namespace", who: ann, what: with(jobs, "prod", ""), may: true},
		{name: "a policy", who: ann, what: policies, may: true},
		{name: "another policy", who: ann, what: with(policies, "", "b"), may: true},
		{name: "a user with long groups", who: many, what: jobs, may: true},
		{name: "a user with long groups, again", who: many, what: jobs, may: true},
		{name: "nearly ten seconds later", after: keepAnswers - time.Second, who: bob, what: jobs, cached: true},
		{name: "ten seconds later", after: time.Second + 1, who: bob, what: jobs},
	} {
		time.Sleep(step.after) // of synctest
		before := len(c.requests)
		may, err := asked.May(t.Context(), step.who, step.what)
		if err != nil || may != step.may || (len(c.requests) == before) != step.cached {
			t.Errorf("%s: %t, %v, asked %d times", step.name, may, err, len(c.requests)-before)
		}
	}
	jobs.Verb, jobs.Name = "delete", ""
	if sent := c.requests[2].Spec; c.paths[2] != "/apis/authorization.k8s.io/v1/subjectaccessreviews" || *sent.ResourceAttributes != jobs ||
		sent.UID != "7" || len(sent.Groups) != 1 || len(sent.Extra["k"]) != 2 {
		t.Errorf("sent %+v about %+v to %s", sent, sent.ResourceAttributes, c.paths[2])
	}
	if _, reason, _ := asked.cached.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "carl"}}); reason != "" {
		t.Errorf("a text of %d bytes is cached", len(reason))
	}
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		c.code = code
		for range 2 { // An error is not cached.
			before := len(c.requests)
			if may, err := asked.May(t.Context(), ann, with(jobs, "broken", "")); may || err == nil || len(c.requests) != before+1 {
				t.Errorf("with code %d: %t, %v, asked %d times", code, may, err, len(c.requests)-before)
			}
		}
	}
}

// Beyond the rate, which all users share, an answer is an error at once and never a "no".
func TestAccessReviewsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{may: map[string]bool{"ann": true}}
		asked := reviews(t, c)
		ask := func(namespace string) (bool, error) {
			return asked.May(t.Context(), authenticationv1.UserInfo{Username: "ann"}, authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "jobs"})
		}
		if _, err := ask("cached"); err != nil {
			t.Fatal(err)
		}
		answered, refused, began := 0, 0, time.Now()
		var group sync.WaitGroup
		for i := range 4 * reviewsPerSecond {
			group.Go(func() {
				may, err := ask(fmt.Sprint("n", i))
				c.mu.Lock()
				defer c.mu.Unlock()
				switch {
				case may && err == nil:
					answered++
				case may || err == nil:
					t.Error("no answer is a no")
				case time.Since(began) == 0:
					refused++
				}
			})
		}
		synctest.Wait()
		if may, err := ask("cached"); !may || err != nil {
			t.Errorf("from the cache: %t, %v", may, err)
		}
		group.Wait()
		// A burst, and then those that come within the two seconds that a question may take.
		if most := 3 * reviewsPerSecond; answered < most-3 || answered > most || answered+refused < 4*reviewsPerSecond-3 {
			t.Errorf("%d answered and %d refused at once, want %d answered", answered, refused, most)
		}
	})
}

// A hung API server costs two seconds.
func TestHungAccessReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		may, err := reviews(t, &cluster{hangs: true}).May(t.Context(), authenticationv1.UserInfo{Username: "ann"}, authorizationv1.ResourceAttributes{Resource: "jobs"})
		if took := time.Since(began); may || err == nil || took != accessTimeout {
			t.Errorf("%t, %v after %s", may, err, took)
		}
	})
}

// A runtime's TTL applies to the objects that use the runtime. So the webhook asks whether the user
// may delete them.
func TestAccessOfWhatUsesARuntime(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	for kind, namespace := range map[string]string{"TrainingRuntime": "ci", "ClusterTrainingRuntime": ""} {
		access := &answers{of: map[string]bool{}}
		w := newWorld(t, func(o *Options) { o.Platform, o.Access, o.RequireDelete = known, access, true })
		response := w.ask(t, ask{path: PathValidate, namespace: namespace,
			object: "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: " + kind + ", metadata: {name: torch, namespace: '" + namespace + "', annotations: {curfew.dev/ttl-after-finished: 1d}}, spec: {}}"})
		if response.Allowed {
			t.Errorf("%s: allowed, though the user may not delete TrainJobs", kind)
		}
		want := authorizationv1.ResourceAttributes{Namespace: namespace, Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
		if access.last != want {
			t.Errorf("%s: asked about %+v, want %+v", kind, access.last, want)
		}
	}
}

// A PodTally with a TTL has Curfew delete the Pods that it matches.
func TestTallyOfOneWhoMayNotDeletePods(t *testing.T) {
	tally := func(ttl string) string {
		return "{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: a, namespace: plain}, spec: {selector: {matchLabels: {app: theirs}}" + ttl + "}}"
	}
	const why = `spec.ttlAfterCounted: sets when each Pod of this tally is deleted, but you may not delete it yourself: ask for the verb delete on pods in namespace "plain"`
	for name, c := range map[string]struct {
		user, old, new string
		denied, says   bool
	}{
		"a new one":      {user: "bob", new: tally(", ttlAfterCounted: 1h"), denied: true, says: true},
		"a shorter TTL":  {user: "bob", old: tally(", ttlAfterCounted: 2h"), new: tally(", ttlAfterCounted: 1h"), denied: true, says: true},
		"a TTL comes":    {user: "bob", old: tally(""), new: tally(", ttlAfterCounted: 1h"), denied: true, says: true},
		"it stays":       {user: "bob", old: tally(", ttlAfterCounted: 60m"), new: tally(", ttlAfterCounted: 1h")},
		"it only counts": {user: "bob", new: tally("")},
		"never":          {user: "bob", new: tally(", ttlAfterCounted: never")},
		"one who may":    {user: "root", new: tally(", ttlAfterCounted: 1h")},
	} {
		for _, require := range []bool{true, false} {
			access := &answers{of: map[string]bool{"root": true}}
			w := newWorld(t, func(o *Options) { o.Access, o.RequireDelete = access, require })
			response := w.ask(t, ask{path: PathValidatePolicy, namespace: "plain", user: c.user, object: c.new, old: c.old})
			output := response.Result.Message + strings.Join(response.Warnings, "\n")
			if response.Allowed == (c.denied && require) || strings.Contains(output, why) != c.says {
				t.Errorf("%s, required %t: %t %s", name, require, response.Allowed, output)
			}
			if c.says && (access.last.Resource != "pods" || access.last.Namespace != "plain") {
				t.Errorf("%s: asked about %+v", name, access.last)
			}
		}
	}
}

// updaters permit by the name of a policy.
type updaters struct {
	of    map[string]bool
	err   error
	asked []authorizationv1.ResourceAttributes
}

func (u *updaters) May(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb == "update" {
		u.asked = append(u.asked, what)
	}
	return what.Verb != "update" || u.of[what.Name], u.err
}

// A policy that denies protection never binds those who may update that very policy. What cannot be
// found out is denied, and a request that protects nothing costs no access review.
func TestProtectionIsLeftToThoseWhoMayUpdateThePolicy(t *testing.T) {
	const text = "{metadata: {name: platform}, spec: {match: {kinds: [{group: batch, kind: Job}]}, bounds: {protect: Deny}}}"
	job := func(annotations string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain, annotations: {" + annotations + "}}, spec: {template: {spec: {}}}}"
	}
	const protected, bare, other = `curfew.dev/protect: "true"`, "", `a: b, curfew.dev/protect: "true"`
	for name, c := range map[string]struct {
		reviewer *updaters
		old, new string
		denied   string
		asked    int
		retry    bool
	}{
		"they may":              {reviewer: &updaters{of: map[string]bool{"platform": true}}, new: protected, asked: 1},
		"they may not":          {reviewer: &updaters{}, new: protected, asked: 1, denied: "ask for the verb update on that LifecyclePolicy"},
		"they may, another one": {reviewer: &updaters{of: map[string]bool{"other": true}}, new: protected, asked: 1, denied: "ask for the verb update on that LifecyclePolicy"},
		"no answer":             {reviewer: &updaters{of: map[string]bool{"platform": true}, err: errors.New("no answer")}, new: protected, asked: 1, denied: "is not known yet: try again in a second", retry: true},
		"never an answer":       {reviewer: &updaters{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, new: protected, asked: 1, denied: "(whether you may is not known)"},
		"added":                 {reviewer: &updaters{}, old: job(bare), new: protected, asked: 1, denied: "bounds.protect of policy"},
		"it stands":             {reviewer: &updaters{}, old: job(protected), new: other},
		"not protected":         {reviewer: &updaters{}, new: bare},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := platform.New(builtinProfiles(t))
			must(t, err)
			if errs := known.SetPolicy(parsed[v1alpha1.LifecyclePolicy](t, text)); len(errs) > 0 {
				t.Fatal(errs)
			}
			w := newWorld(t, func(o *Options) {
				o.Platform, o.Access = known, c.reviewer
			})
			response := w.ask(t, ask{path: PathValidate, namespace: "plain", old: c.old, object: job(c.new)})
			if response.Allowed != (c.denied == "") || !strings.Contains(response.Result.Message, c.denied) {
				t.Errorf("allowed %t: %s", response.Allowed, response.Result.Message)
			}
			if !response.Allowed && (response.Result.Code == http.StatusTooManyRequests) != c.retry {
				t.Errorf("code %d", response.Result.Code)
			}
			want := authorizationv1.ResourceAttributes{Verb: "update", Group: "curfew.dev", Version: "v1alpha1", Resource: "lifecyclepolicies", Name: "platform"}
			if c.reviewer.err == nil && len(c.reviewer.asked) != c.asked || len(c.reviewer.asked) > 0 && c.reviewer.asked[0] != want {
				t.Errorf("asked %+v", c.reviewer.asked)
			}
		})
	}
}

// deadlines notes until when there may be an answer, by verb.
type deadlines map[string]time.Time

func (d deadlines) May(ctx context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	d[cmp.Or(what.Verb, verbDelete)], _ = ctx.Deadline()
	return true, nil
}

// The questions about policies take none of the time of those about deleting.
func TestSlowReviewsOfPolicies(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	if errs := known.SetPolicy(parsed[v1alpha1.LifecyclePolicy](t, "{metadata: {name: platform}, spec: {match: {kinds: [{group: batch, kind: Job}]}, bounds: {protect: Deny}}}")); len(errs) > 0 {
		t.Fatal(errs)
	}
	asked := deadlines{}
	w := newWorld(t, func(o *Options) { o.Platform, o.Access, o.RequireDelete = known, asked, true })
	w.ask(t, ask{path: PathValidate, namespace: "plain", object: `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain, ` +
		`annotations: {curfew.dev/protect: "true"}}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}`})
	if len(asked) != 2 || !asked[verbDelete].After(asked["update"]) {
		t.Errorf("asked %v", asked)
	}
}

var must = builders.Must
