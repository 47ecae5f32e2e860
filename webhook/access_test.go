package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
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

func TestCachedReviews(t *testing.T) {
	behind := &answers{of: map[string]bool{"ann": true}}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(behind, clock)
	may := func(user authenticationv1.UserInfo, namespace, name string, want bool) {
		t.Helper()
		got, err := cached.May(t.Context(), user, authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: "batch", Resource: "jobs", Name: name,
		})
		if err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	ann, bob := authenticationv1.UserInfo{Username: "ann"}, authenticationv1.UserInfo{Username: "bob"}
	may(ann, "ci", "a", true)
	may(ann, "ci", "b", true) // a loop that creates Jobs asks once
	if len(behind.asked) != 1 || behind.last.Name != "" {
		t.Fatalf("asked %q about name %q, want once and about all names", behind.asked, behind.last.Name)
	}
	may(bob, "ci", "a", false)
	may(ann, "prod", "a", true)
	may(authenticationv1.UserInfo{Username: "bob", Groups: []string{"admins"}}, "ci", "a", false)
	if len(behind.asked) != 4 {
		t.Errorf("asked %q, want anew for another user, namespace and set of groups", behind.asked)
	}
	behind.of["bob"] = true
	may(bob, "ci", "a", false)
	clock.Step(keepAnswers + 1)
	may(bob, "ci", "a", true) // a role that was granted meanwhile
	behind.err = errors.New("no answer")
	clock.Step(keepAnswers + 1)
	for range 2 {
		if _, err := cached.May(t.Context(), ann, authorizationv1.ResourceAttributes{}); err == nil {
			t.Error("an error was remembered as an answer, or lost")
		}
	}
	behind.err = nil
	for i := range 2 * maxAnswers {
		_, _ = cached.May(t.Context(), ann, authorizationv1.ResourceAttributes{Namespace: string(rune('a' + i))})
	}
	if len(cached.answers.Keys()) > maxAnswers {
		t.Errorf("%d answers are remembered, want at most %d", len(cached.answers.Keys()), maxAnswers)
	}
}

// A runtime's TTL applies to the objects that use the runtime. So the webhook asks whether the user
// may delete them.
func TestAccessOfWhatUsesARuntime(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	if err != nil {
		t.Fatal(err)
	}
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

// byGroup permits the members of a group.
type byGroup struct{ asked int }

func (b *byGroup) May(_ context.Context, user authenticationv1.UserInfo, _ authorizationv1.ResourceAttributes) (bool, error) {
	b.asked++
	return slices.Contains(user.Groups, "admins"), nil
}

// Anyone can post names with separators. A review of such a name is never answered by the review of
// the user that it imitates.
func TestCachedReviewsTellUsersApart(t *testing.T) {
	what := authorizationv1.ResourceAttributes{Namespace: "ci", Group: "batch", Resource: "jobs"}
	extra := func(key string, values ...string) map[string]authenticationv1.ExtraValue {
		return map[string]authenticationv1.ExtraValue{key: values}
	}
	ann := authenticationv1.UserInfo{Username: "ann", Groups: []string{"admins", "system:authenticated"}, Extra: extra("k", "a", "b")}
	behind := &byGroup{}
	cached := NewCachedReviews(behind, clocktesting.NewFakeClock(time.Unix(1000, 0)))
	imitations := []authenticationv1.UserInfo{
		{Username: "ann", Groups: []string{"admins\x01system:authenticated"}, Extra: ann.Extra},
		{Username: "ann", Groups: []string{"admins\x00system:authenticated"}, Extra: ann.Extra},
		{Username: "ann", Groups: []string{"adminssystem:authenticated"}, Extra: ann.Extra},
		{Username: "ann\x00", Extra: ann.Extra},
		{Username: "ann", UID: "admins", Groups: []string{"system:authenticated"}, Extra: ann.Extra},
		{Username: "ann", Extra: extra("k", "a b")},
		{Username: "ann", Extra: extra("k", "a")},
		{Username: "ann", Extra: map[string]authenticationv1.ExtraValue{"k": {"a"}, "b": {}}},
	}
	for _, user := range imitations {
		if may, err := cached.May(t.Context(), user, what); may || err != nil {
			t.Errorf("user %q is allowed: %t, error %v; want a review of its own that denies", user, may, err)
		}
	}
	if may, err := cached.May(t.Context(), ann, what); !may || err != nil || behind.asked != len(imitations)+1 {
		t.Errorf("ann may %t, %v; asked %d times", may, err, behind.asked)
	}
}

// No tenant uses up the questions of others, by whatever accounts of its namespace it asks.
func TestAccessReviewsAreShared(t *testing.T) {
	behind := &answers{of: map[string]bool{"ann": true}}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(behind, clock)
	cached.Limit = 40
	ask := func(requester, user, namespace string) error {
		_, err := cached.May(requestedBy(t.Context(), requester), authenticationv1.UserInfo{Username: user},
			authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "jobs"})
		return err
	}
	flood := func() (answered int) {
		for i := range 100 {
			account := fmt.Sprint("system:serviceaccount:theirs:", i)
			// A request also asks about the controller, and about the account of a policy.
			for _, user := range []string{account, "system:serviceaccount:curfew-system:curfew-controller"} {
				if ask(account, user, fmt.Sprint("n", i)) == nil {
					answered++
				}
			}
		}
		return answered
	}
	for range 2 {
		if answered := flood(); answered != 10 {
			t.Errorf("%d questions of one tenant were answered, want half of 20", answered)
		}
		for user, want := range map[string]error{"ann": nil, "system:serviceaccount:ours:a": nil} {
			if err := ask(user, user, "ci"); !errors.Is(err, want) {
				t.Errorf("%s got %v", user, err)
			}
		}
		// Neither what was refused nor what was cached counts.
		for range 20 {
			if err := ask("ann", "ann", "ci"); err != nil {
				t.Errorf("from the cache: %v", err)
			}
		}
		if err := ask("ann", "ann", "other"); err != nil {
			t.Errorf("a second question: %v", err)
		}
		clock.Step(keepAnswers + time.Second)
	}
	if tenants := len(cached.asked.of(digestOf("")).by); tenants > cached.Limit {
		t.Errorf("%d tenants are remembered, want at most %d", tenants, cached.Limit)
	}
}

// The questions about the controller count for the user who made the request.
func TestAccessReviewsOfARequest(t *testing.T) {
	behind := &answers{of: map[string]bool{"ann": true, "root": true}}
	cached := NewCachedReviews(behind, clocktesting.NewFakeClock(time.Unix(1000, 0)))
	cached.Limit = 8
	w := newWorld(t, func(o *Options) { o.Access, o.RequireDelete, o.ControllerUser = cached, true, "root" })
	for _, c := range []struct {
		user, namespace string
		allowed         bool
		asked           int
	}{{"ann", "plain", true, 2}, {"ann", "ci", false, 2}, {"bob", "ci", false, 3}} {
		response := w.ask(t, ask{path: PathValidate, namespace: c.namespace, user: c.user,
			object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}"})
		if response.Allowed != c.allowed || len(behind.asked) != c.asked {
			t.Errorf("%s in %s: allowed %t after questions about %q, want %d", c.user, c.namespace, response.Allowed, behind.asked, c.asked)
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
			said := response.Result.Message + strings.Join(response.Warnings, "\n")
			if response.Allowed == (c.denied && require) || strings.Contains(said, why) != c.says {
				t.Errorf("%s, required %t: %t %s", name, require, response.Allowed, said)
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
		"never an answer":       {reviewer: &updaters{err: errNoNamespace}, new: protected, asked: 1, denied: "(whether you may is not known)"},
		"added":                 {reviewer: &updaters{}, old: job(bare), new: protected, asked: 1, denied: "bounds.protect of policy"},
		"it stands":             {reviewer: &updaters{}, old: job(protected), new: other},
		"not protected":         {reviewer: &updaters{}, new: bare},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := platform.New(builtinProfiles(t))
			if err != nil {
				t.Fatal(err)
			}
			if errs := known.SetPolicy(parsed[v1alpha1.LifecyclePolicy](t, text)); len(errs) > 0 {
				t.Fatal(errs)
			}
			w := newWorld(t, func(o *Options) {
				o.Platform, o.Access = known, NewCachedReviews(c.reviewer, clocktesting.NewFakeClock(time.Unix(1000, 0)))
			})
			for range 2 { // The second answer is cached.
				response := w.ask(t, ask{path: PathValidate, namespace: "plain", old: c.old, object: job(c.new)})
				if response.Allowed != (c.denied == "") || !strings.Contains(response.Result.Message, c.denied) {
					t.Errorf("allowed %t: %s", response.Allowed, response.Result.Message)
				}
				if !response.Allowed && (response.Result.Code == http.StatusTooManyRequests) != c.retry {
					t.Errorf("code %d", response.Result.Code)
				}
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
	if err != nil {
		t.Fatal(err)
	}
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

// Two policies are two questions.
func TestCachedReviewsOfPolicies(t *testing.T) {
	behind := &updaters{of: map[string]bool{"a": true}}
	cached := NewCachedReviews(behind, clocktesting.NewFakeClock(time.Unix(1000, 0)))
	for name, want := range map[string]bool{"a": true, "b": false} {
		may, err := cached.May(t.Context(), authenticationv1.UserInfo{Username: "ann"}, authorizationv1.ResourceAttributes{Verb: "update", Resource: "lifecyclepolicies", Name: name})
		if err != nil || may != want {
			t.Errorf("policy %s: allowed %t, error %v; want %t", name, may, err, want)
		}
	}
}
