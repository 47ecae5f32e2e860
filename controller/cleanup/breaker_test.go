package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// withEngine has the process delete by a real engine, on real time, until it is stopped.
func (c *Controller) withEngine(t *testing.T) (ctx context.Context, engine *expire.Engine, stop func()) {
	t.Helper()
	engine, err := expire.New(expire.Options{Triggers: []expire.Trigger{{Name: string(policy.TriggerCleanup), Deletes: true}}, MaxConcurrency: 4, Log: c.options.Log})
	must(t, err)
	c.options.Engine, c.options.Clock = engine, clock.RealClock{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	return ctx, engine, func() { cancel(); <-ended }
}

// Objects that a webhook never lets anyone delete have the engine pause the deletions of the policy
// in their namespace. They fail, and the run deletes everything that is listed after them, with a
// line of the log for each.
func TestPausedDeletionsDoNotWedgeARun(t *testing.T) {
	for name, c := range map[string]struct {
		denied, code, lost int
	}{
		"one object, an error":          {1, http.StatusInternalServerError, 0},
		"many objects, errors":          {12, http.StatusInternalServerError, 0},
		"one object, too many requests": {1, http.StatusTooManyRequests, 0},
		"many objects, no answers":      {12, http.StatusGatewayTimeout, 12},
	} {
		t.Run(name, func(t *testing.T) {
			defer small(20)()
			synctest.Test(t, func(t *testing.T) {
				api := newCluster(t)
				api.more("tmp-%02d", 60)
				api.denies = map[string]int{}
				for i := range c.denied {
					api.denies[fmt.Sprintf("tmp-%02d", i)] = c.code
				}
				process, lines := api.controller(), make(chan string, 1000)
				process.options.Log = funcr.New(func(_, line string) { lines <- line }, funcr.Options{})
				ctx, _, stop := process.withEngine(t)
				began := time.Now()
				cur := api.cur(tmpPolicy(t, func(*v1alpha1.CleanupSpec) {}), began)
				if err := process.start(ctx, cur, began); err != nil {
					t.Errorf("the run ended with %v", err)
				}
				run := api.status.LastRun
				if run.Phase != v1alpha1.RunCompleted || int(run.Deleted) != 65-c.denied || int(run.Lost) != c.lost || len(api.sent) != 65-c.denied {
					t.Errorf("%d deleted, run %+v, Stalled %s", len(api.sent), run, api.condition(v1alpha1.ConditionStalled))
				}
				stop() // It writes all lines before.
				logged := map[types.UID]int{}
				for len(lines) > 0 {
					line := <-lines
					var kind, object string
					var uid types.UID
					if _, err := fmt.Sscanf(line, `"level"=0 "msg"="deleted" "kind"=%q "object"=%q "uid"=%q`, &kind, &object, &uid); err != nil {
						continue
					}
					if logged[uid]++; kind != "ConfigMap" || !strings.Contains(line, ` "source"="cleanup/p" "trigger"="cleanup" "lateness"=`) {
						t.Error(line)
					}
				}
				if !maps.Equal(logged, api.sent) {
					t.Errorf("deleted %v, and the log says %v", api.sent, logged)
				}
				if took := time.Since(began); took > 20*time.Minute { // Seven by median; one of a hundred runs takes over ten, by chance.
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// busyAccount answers 429 for a while, as API Priority and Fairness does to an account.
type busyAccount struct {
	*cluster
	until time.Time
	sent  int
}

// Do implements deletion.Action.
func (b *busyAccount) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	b.mu.Lock()
	busy := time.Now().Before(b.until)
	if busy {
		b.sent++
	}
	b.mu.Unlock()
	if !busy {
		return b.cluster.Do(ctx, due)
	}
	out := deletion.Failure(http.StatusTooManyRequests, deletion.FromServer, errors.New("too many requests"))
	out.After = 3 * time.Second
	return out
}

// While the API server answers 429 to the account of a run, the run sends few requests, and not
// one for each object. It deletes everything afterwards.
func TestBusyAccountIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &busyAccount{cluster: newCluster(t), until: time.Now().Add(20 * time.Second)}
		api.more("tmp-x%03d", 200)
		process := api.controller()
		ctx, _, stop := process.withEngine(t)
		account, err := process.options.Account(types.NamespacedName{})
		must(t, err)
		account.Delete = api
		began := time.Now()
		if err := process.start(ctx, api.cur(tmpPolicy(t, nothing), began), began); err != nil {
			t.Errorf("the run ended with %v", err)
		}
		if run := api.status.LastRun; run.Deleted != 205 || api.sent > 4+6 {
			t.Errorf("%d deleted, and %d requests in the 20 seconds in which it was to wait for 3 after each: want 205, and at most 10", run.Deleted, api.sent)
		}
		stop()
	})
}

// more adds objects like tmp-1.
func (c *cluster) more(format string, count int) {
	for i := range count {
		name := fmt.Sprintf(format, i)
		c.objects[name] = c.objects["tmp-1"].DeepCopy()
		c.objects[name].Name, c.objects[name].UID = name, types.UID("uid-"+name)
	}
}
