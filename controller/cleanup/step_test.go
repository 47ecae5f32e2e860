package cleanup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/v1alpha1"
)

// A run is due at its time, once, and of those that were missed only the last one is made up for.
func TestDue(t *testing.T) {
	instant := func(text string) time.Time {
		out, err := time.Parse("2006-01-02 15:04", text)
		must(t, err)
		return out
	}
	for name, c := range map[string]struct {
		created, now string
		deadline     *int64
		status       func(*v1alpha1.CleanupPolicyStatus)
		due          string
	}{
		"before the first":          {created: "2026-12-01 01:00", now: "2026-12-01 01:59"},
		"the first":                 {created: "2026-12-01 01:00", now: "2026-12-01 02:00", due: "2026-12-01 02:00"},
		"created after it":          {created: "2026-12-01 02:01", now: "2026-12-01 02:02"},
		"late":                      {created: "2026-12-01 01:00", now: "2026-12-01 09:00", due: "2026-12-01 02:00"},
		"missed a hundred":          {created: "2026-08-01 01:00", now: "2026-12-01 09:00", due: "2026-12-01 02:00"},
		"within the deadline":       {created: "2026-12-01 01:00", now: "2026-12-01 02:10", deadline: new(int64(600)), due: "2026-12-01 02:00"},
		"after the deadline":        {created: "2026-12-01 01:00", now: "2026-12-01 02:11", deadline: new(int64(600))},
		"after a huge deadline":     {created: "2026-12-01 01:00", now: "2026-12-01 02:11", deadline: new(int64(1 << 62)), due: "2026-12-01 02:00"},
		"it ran":                    {created: "2026-12-01 01:00", now: "2026-12-01 09:00", status: ran(instant("2026-12-01 02:00"))},
		"it ran yesterday":          {created: "2026-11-01 01:00", now: "2026-12-01 02:00", status: ran(instant("2026-11-30 02:00")), due: "2026-12-01 02:00"},
		"it ran before it was new":  {created: "2026-12-01 03:00", now: "2026-12-01 09:00", status: ran(instant("2026-11-30 02:00"))},
		"changed just now":          {created: "2026-11-01 01:00", now: "2026-12-01 09:00", status: func(s *v1alpha1.CleanupPolicyStatus) { s.ObservedGeneration = 1 }},
		"changed since it was due":  {created: "2026-11-01 01:00", now: "2026-12-01 09:00", status: changed(instant("2026-12-01 08:00"))},
		"changed before it was due": {created: "2026-11-01 01:00", now: "2026-12-01 09:00", status: changed(instant("2026-12-01 01:00")), due: "2026-12-01 02:00"},
		"changed right before it was due, and seen after": {created: "2026-11-01 01:00", now: "2026-12-01 02:01", status: announced(instant("2026-12-01 02:00")), due: "2026-12-01 02:00"},
		"changed before it is due":                        {created: "2026-11-01 01:00", now: "2026-12-01 01:59", status: announced(instant("2026-12-01 02:00"))},
		"the new schedule has no such run":                {created: "2026-11-01 01:00", now: "2026-12-01 04:01", status: announced(instant("2026-12-01 04:00"))},
		"changed, announced, and run": {created: "2026-11-01 01:00", now: "2026-12-01 02:01", status: func(s *v1alpha1.CleanupPolicyStatus) {
			ran(instant("2026-12-01 02:00"))(s)
			announced(instant("2026-12-01 02:00"))(s)
		}},
		"announced before it was created":         {created: "2026-12-01 01:00", now: "2026-12-01 01:30", status: announced(instant("2026-11-01 02:00"))},
		"changed too late for what was announced": {created: "2026-11-01 01:00", now: "2026-12-01 02:11", deadline: new(int64(600)), status: announced(instant("2026-12-01 02:00"))},
		"the clock was set back":                  {created: "2026-11-01 01:00", now: "2026-12-01 02:00", status: ran(instant("2026-12-05 02:00")), due: "2026-12-01 02:00"},
		"another API server's clock is behind":    {created: "2026-11-01 01:00", now: "2026-12-01 01:59", status: ran(instant("2026-12-01 02:00"))},
		"changed while the clock was ahead":       {created: "2026-11-01 01:00", now: "2026-12-01 09:00", status: changed(instant("2027-12-01 08:00"))},
	} {
		t.Run(name, func(t *testing.T) {
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.Schedule, s.StartingDeadlineSeconds = "0 2 * * *", c.deadline })
			p.Generation = 2
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetCreationTimestamp(metav1.NewTime(instant(c.created)))
			api := newCluster(t)
			if c.status != nil {
				c.status(&api.status)
			}
			cur := &current{object: object, policy: p, now: instant(c.now), ledger: &ledger{store: api}}
			for _, when := range []string{"at first", "after a crash between the first write and the run"} {
				due, next := cur.due()
				got := ""
				if !due.IsZero() {
					got = due.UTC().Format("2006-01-02 15:04")
				}
				if got != c.due || !next.After(instant(c.now)) {
					t.Errorf("%s due %q, want %q; next %s", when, got, c.due, next)
				}
				must(t, cur.observe(t.Context(), nil, next))
			}
		})
	}
}

// TestClockWasAhead: nothing that was written down while the clock was years ahead stops a policy.
// Each of its runs is due, but none from before it was created or changed.
func TestClockWasAhead(t *testing.T) {
	years := metav1.NewTime(start.AddDate(10, 0, 0))
	for name, edit := range map[string]func(created *metav1.Time, status *v1alpha1.CleanupPolicyStatus){
		"right":   func(*metav1.Time, *v1alpha1.CleanupPolicyStatus) {},
		"ran":     func(_ *metav1.Time, s *v1alpha1.CleanupPolicyStatus) { s.LastScheduleTime = &years },
		"changed": func(_ *metav1.Time, s *v1alpha1.CleanupPolicyStatus) { s.ScheduleSinceTime = &years },
		"created": func(created *metav1.Time, _ *v1alpha1.CleanupPolicyStatus) { *created = years },
		"all": func(created *metav1.Time, s *v1alpha1.CleanupPolicyStatus) {
			*created, s.LastScheduleTime, s.ScheduleSinceTime, s.NextScheduleTime = years, &years, &years, &years
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, p := newCluster(t), tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			api.status.ObservedGeneration = p.Generation
			created := metav1.NewTime(start.AddDate(0, 0, -7))
			if edit(&created, &api.status); name != "ran" {
				api.status.LastScheduleTime = &metav1.Time{Time: start}
			}
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetCreationTimestamp(created)
			runs := 0
			for minute := range 10 * 24 * 60 {
				cur := api.cur(p, start.Add(time.Duration(minute+1)*time.Minute))
				cur.object = object
				due, next := cur.due()
				must(t, cur.observe(t.Context(), nil, next))
				if !due.IsZero() {
					runs++
					api.status.LastScheduleTime = &metav1.Time{Time: due}
				}
			}
			want := 10
			if name == "ran" {
				want++ // It is unknown whether it ran at the start.
			}
			if runs != want {
				t.Errorf("%d runs in ten days, want %d", runs, want)
			}
		})
	}
}

func ran(t time.Time) func(*v1alpha1.CleanupPolicyStatus) {
	return func(s *v1alpha1.CleanupPolicyStatus) {
		s.ObservedGeneration, s.LastScheduleTime = 2, &metav1.Time{Time: t}
	}
}

// announced is a status of the policy as it was before an edit.
func announced(t time.Time) func(*v1alpha1.CleanupPolicyStatus) {
	return func(s *v1alpha1.CleanupPolicyStatus) {
		s.ObservedGeneration, s.NextScheduleTime = 1, &metav1.Time{Time: t}
	}
}

func changed(t time.Time) func(*v1alpha1.CleanupPolicyStatus) {
	return func(s *v1alpha1.CleanupPolicyStatus) {
		s.ObservedGeneration, s.ScheduleSinceTime = 2, &metav1.Time{Time: t}
	}
}

// A run that was interrupted for too long, or whose policy has changed since, deletes nothing more,
// and counts what it had deleted.
func TestInterruptedRunOfAnotherPolicy(t *testing.T) {
	defer small(2)()
	for name, edit := range map[string]func(*current){
		"changed":  func(c *current) { c.policy.Generation = 2 },
		"too late": func(c *current) { c.now = start.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.StartingDeadlineSeconds = new(int64(60)) })
			c.killAt = 7 // The first batch is announced, and not all of it is deleted.
			_ = c.work(t.Context(), p)
			deleted := len(c.sent)
			c.dead, c.killAt = false, 0
			if len(c.status.UncountedDeletions) == 0 {
				t.Fatal("it was killed too early")
			}
			cur := c.cur(p, start)
			edit(cur)
			must(t, c.controller().finish(t.Context(), cur, true))
			if len(c.sent) != deleted || c.status.Deleted != int64(deleted) || c.status.LastRun.Phase != v1alpha1.RunFailed || len(c.status.UncountedDeletions) > 0 {
				t.Errorf("%d deleted before, %d in the end; %d counted, run %+v", deleted, len(c.sent), c.status.Deleted, c.status.LastRun)
			}
		})
	}
}

// The account of an interrupted run may not read what the run was about to delete, and the policy
// has changed. Whatever became of these objects is not known, and the new policy runs.
func TestInterruptedRunThatMayNotRead(t *testing.T) {
	defer small(2)()
	c := newCluster(t)
	p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
	c.killAt = 7
	_ = c.work(t.Context(), p)
	deleted, announced := len(c.sent), 0
	for _, page := range c.status.UncountedDeletions {
		announced += len(page.UIDs)
	}
	if c.dead, c.killAt = false, 0; announced == 0 {
		t.Fatal("it was killed too early")
	}
	c.forbidden = true
	if err := c.work(t.Context(), p); !isForbidden(err) || len(c.status.UncountedDeletions) == 0 {
		t.Fatalf("the same policy waits for the permission: %v, %+v", err, c.status)
	}
	p.Generation = 2
	must(t, c.controller().finish(t.Context(), c.cur(p, start), false))
	run := c.status.LastRun
	if len(c.sent) != deleted || run.Phase != v1alpha1.RunFailed || len(c.status.UncountedDeletions) > 0 || run.Lost != int64(announced) || run.Deleted != 0 {
		t.Errorf("%d of %d announced were deleted; sent %v, run %+v", deleted, announced, c.sent, run)
	}
	if exact := c.condition(v1alpha1.ConditionCountsExact); !strings.HasPrefix(exact, "False NoAnswer") {
		t.Error(exact)
	}
}

// A kind that cannot be listed keeps no other kind from its run, which says so.
func TestKindCannotBeListed(t *testing.T) {
	c := newCluster(t)
	process := c.controller()
	account, err := process.options.Account(types.NamespacedName{})
	must(t, err)
	account.Metadata.(*metadatafake.FakeMetadataClient).PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("the conversion webhook failed"))
	})
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) {
		s.MatchConstraints.ResourceRules[0].Resources = []string{"secrets", "configmaps"}
	})
	must(t, process.start(t.Context(), c.cur(p, start), start))
	c.check("without Secrets")
	if stalled := c.condition(v1alpha1.ConditionStalled); !strings.HasPrefix(stalled, "True KindNotListed") || !strings.Contains(stalled, "secrets: Internal error") {
		t.Error(stalled)
	}
}

// A run starts at its time, whatever is done for its policy and for others before. Reviews of
// permissions are the slowest part of that. A policy whose runs are too close to each other never
// runs.
func TestRunsAreOnTime(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration // its time the policy is first seen
		review time.Duration // takes so long, for each of three verbs
		fails  bool
		others int
		least  time.Duration // --cleanup-min-interval
	}{
		"quiet":                         {before: time.Minute},
		"a slow review":                 {before: 40 * time.Second, review: 10 * time.Second},
		"a review that takes too long":  {before: 40 * time.Second, review: time.Minute},
		"reviews that fail":             {before: 200 * time.Second, fails: true},
		"slow reviews of many policies": {before: 5 * time.Second, review: 10 * time.Second, others: 100},
		"too frequent":                  {before: time.Minute, least: 25 * time.Hour},
		"just rare enough":              {before: time.Minute, least: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(start.Add(-c.before)))
				process := newCluster(t).process(map[string]string{"p": "0 2 * * *", "other": "0 5 * * *"}, func(ctx context.Context) error {
					switch {
					case !time.Now().Before(start):
						return nil
					case c.fails:
						return errors.New("the review failed")
					}
					loop.Pause(ctx, clock.RealClock{}, c.review)
					return ctx.Err()
				})
				process.options.MinInterval = c.least
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { process.serve(ctx); close(done) }()
				for i := range c.others {
					process.queue.Add(fmt.Sprintf("%s/other-%d", v1alpha1.ClusterCleanupPolicies, i))
				}
				synctest.Wait()
				process.queue.Add(v1alpha1.ClusterCleanupPolicies + "/p")
				time.Sleep(c.before + time.Minute)
				cancel()
				<-done
				object, err := process.read(t.Context(), v1alpha1.ClusterCleanupPolicies+"/p")
				must(t, err)
				text, _, _ := unstructured.NestedString(object.Object, "status", "lastRun", "startTime")
				if c.least == 25*time.Hour {
					const why = "message:spec.schedule: two runs are 24h0m0s apart: leave at least 25h0m0s between them observedGeneration:1 reason:InvalidField status:False type:Ready"
					if output := fmt.Sprint(object.Object["status"]); text != "" || !strings.Contains(output, why) {
						t.Errorf("run at %q: %s", text, output)
					}
					return
				}
				if instant, err := time.Parse(time.RFC3339, text); err != nil || instant.Before(start) || instant.After(start.Add(time.Second)) {
					t.Errorf("the run started at %q: %v", text, object.Object["status"])
				}
			})
		})
	}
}
