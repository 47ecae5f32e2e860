package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/test/world"
	"curfew.dev/curfew/test/world/invariants"
)

var (
	worldSeeds  = flag.Int("seeds", 30, "how many random histories TestWorld plays")
	worldShrink = flag.Bool("shrink", true, "whether TestWorld looks for a shorter history with a fault")
	worldSeed   = flag.Int("seed", -1, "the only history that TestWorld plays, with Curfew's log on standard error")
)

// The whole controller, two replicas of it, in a cluster in memory: users create, change and delete
// objects and rules, watch caches lag, requests and answers are lost, leaders are killed or cut off.
// Whatever happens, S1 to S12 are kept (DESIGN section 8).
func TestWorld(t *testing.T) {
	dir := intercept(t)
	from, to := 0, *worldSeeds
	if *worldSeed >= 0 {
		from, to = *worldSeed, *worldSeed+1
	}
	for seed := from; seed < to; seed++ {
		if played := seed - from; played > 0 && played%100 == 0 {
			t.Logf("%d histories", played)
		}
		events := plan(uint64(seed))
		faults := play(t, dir, uint64(seed), events)
		if len(faults) == 0 {
			continue
		}
		t.Logf("seed %d: %s", seed, strings.Join(faults, "\n"))
		if !*worldShrink {
			t.Fail()
			continue
		}
		shortest := world.Shrink(events, func(some []event) bool {
			for range tries {
				if len(play(t, dir, uint64(seed), some)) > 0 {
					return true
				}
			}
			return false
		})
		text := strings.Join(faults, "\n")
		for _, event := range shortest {
			text += fmt.Sprintf("\n  %s", event)
		}
		t.Fatalf("seed %d: %s", seed, text)
	}
}

// transports has the transport of each process, by the host that their kubeconfig names.
var transports sync.Map

type router struct{}

// RoundTrip implements http.RoundTripper.
func (router) RoundTrip(r *http.Request) (*http.Response, error) {
	client, ok := transports.Load(r.URL.Host)
	if !ok {
		return nil, fmt.Errorf("no process has the host %s", r.URL.Host)
	}
	return client.(*world.Client).RoundTrip(r)
}

// intercept has worlds answer the requests of all processes, and returns a folder for kubeconfigs.
// client-go takes the default transport for addresses without TLS.
//
// apimachinery's error handlers wait for a while after the last error of the process. Its time is
// that of another history, or of no history, and so they would wait for up to 27 years.
func intercept(t *testing.T) string {
	before, registry, handlers := http.DefaultTransport, metrics.Registry, utilruntime.ErrorHandlers
	http.DefaultTransport, utilruntime.ErrorHandlers = router{}, nil
	t.Cleanup(func() {
		http.DefaultTransport, metrics.Registry, utilruntime.ErrorHandlers = before, registry, handlers
	})
	return t.TempDir()
}

// maxHistory is how long a history may take on a busy machine. Most take less than a second.
const maxHistory = 5 * time.Minute

// endless ends the process if a history never comes to rest, and prints what runs without end or
// holds the clock of the bubble.
func endless(seed uint64) *time.Timer {
	return time.AfterFunc(maxHistory, func() {
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		text := fmt.Sprintf("seed %d: the history does not end. These goroutines hold it up:", seed)
		for name := range strings.SplitSeq(string(stacks), "\n\n") {
			if head, _, _ := strings.Cut(name, "\n"); strings.Contains(head, "synctest bubble") && !strings.Contains(head, "(durable)") {
				text += "\n\n" + name
			}
		}
		panic(text)
	})
}

// worldProcess is one run of Curfew.
type worldProcess struct {
	name   string
	client *world.Client
	stop   context.CancelFunc
	ended  chan struct{}
}

const controllerUser = "system:serviceaccount:curfew-system:curfew-controller"

// simulation is a history as it is played.
type simulation struct {
	*world.World
	t    *testing.T
	dir  string
	seed uint64
	ctx  context.Context
	all  sync.WaitGroup

	wiring   chan struct{}
	mu       sync.Mutex
	random   *rand.Rand
	starts   int
	replicas [2]*worldProcess
	down     [2]time.Time // a killed replica is started again at
	stopped  map[string]time.Time
	cut      map[string]time.Time // from the API server, until
	trouble  time.Time            // of all requests, until
	race     bool                 // the next DELETE is overtaken by an edit
}

// play plays events and returns the faults.
func play(t *testing.T, dir string, seed uint64, events []event) (faults []string) {
	stderr := os.Stderr
	if *worldSeed < 0 {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		must(t, err)
		os.Stderr = null // newLogger writes to it.
		defer func() { _ = null.Close() }()
	}
	defer func() { os.Stderr = stderr }()
	defer endless(seed).Stop()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		s := &simulation{World: world.New(t), t: t, dir: dir, seed: seed, ctx: ctx, stopped: map[string]time.Time{}, cut: map[string]time.Time{},
			wiring: make(chan struct{}, 1), random: rand.New(rand.NewPCG(seed, 2))} // #nosec G404
		for _, event := range events {
			if event.what == "skew" {
				s.SetOffset(time.Duration(event.n-30) * 100 * time.Millisecond)
			}
		}
		if seed%3 == 2 {
			s.MissingConflicts()
		}
		s.furnish()
		s.all.Go(func() { s.Run(ctx, seed) })
		for i := range s.replicas {
			s.all.Go(func() { s.keepRunning(i) })
		}
		began := time.Now()
		for _, event := range events {
			time.Sleep(time.Until(began.Add(event.at)))
			s.apply(event)
		}
		s.calm()
		faults = s.settle()
		s.locked(func() {
			for _, replica := range s.replicas {
				replica.client.Mute(true)
			}
		})
		time.Sleep(10 * time.Millisecond)
		end()
		s.all.Wait()
	})
	return faults
}

// tries is how often a shorter history is played before it counts as one without the fault: the order
// of goroutines is not the seed's.
const tries = 3

// A history comes to rest within atMost: breakers and backoffs last for minutes. Most do sooner.
const (
	atLeast = 4 * time.Minute
	atMost  = 25 * time.Minute
)

// settle judges the history once it is at rest.
func (s *simulation) settle() []string {
	for began := time.Now(); ; {
		time.Sleep(atLeast)
		judge := &invariants.Judge{
			Curfew: func(client string) bool { return strings.HasPrefix(client, "curfew-") },
			Own:    "curfew-system", CleanupUser: cleanupUser, Stopped: s.stops(), Reads: true, Grain: 1100 * time.Millisecond,
		}
		faults, left := judge.Check(s.History()), atMost-time.Since(began)
		if left <= 0 || len(faults) == 0 && !judge.Waits(s.Now(), left) {
			return faults
		}
	}
}

const cleanupUser = "system:serviceaccount:curfew-system:curfew-cleanup"

// furnish makes the objects that exist before Curfew starts.
func (s *simulation) furnish() {
	definitions, err := crd.All()
	must(s.t, err)
	for _, definition := range definitions {
		s.Define(definition)
	}
	s.Define(world.Runs())
	for _, object := range setup {
		s.create(object)
	}
}

// keepRunning runs a replica again and again, as its Deployment does.
func (s *simulation) keepRunning(i int) {
	for s.ctx.Err() == nil {
		worldProcess := s.start(i)
		<-worldProcess.ended
		s.mu.Lock()
		s.stopped[worldProcess.name] = s.Now()
		again := time.Until(s.down[i])
		s.mu.Unlock()
		select {
		case <-s.ctx.Done():
		case <-time.After(max(again, time.Second)):
		}
		transports.Delete(worldProcess.name)
	}
}

// start starts a process.
func (s *simulation) start(i int) *worldProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	process := &worldProcess{name: fmt.Sprintf("curfew-%d-%d-%d", s.seed, i, s.starts), ended: make(chan struct{})}
	process.client = s.Client(process.name, controllerUser)
	process.client.Faults = s.faults
	transports.Store(process.name, process.client)
	var ctx context.Context
	ctx, process.stop = context.WithCancel(s.ctx)
	s.replicas[i] = process
	s.all.Go(func() {
		defer close(process.ended)
		defer process.stop()
		if err := runController(ctx, s.dir, process.name, s.wiring); err != nil && ctx.Err() == nil && *worldSeed >= 0 {
			fmt.Fprintf(os.Stderr, "%s %s ended: %v\n", time.Now().Format("15:04:05.000"), process.name, err)
		}
	})
	return process
}

// runController is run without servers: a goroutine that waits for the network would hold the
// bubble's clock.
//
// wiring holds one process at a time while it registers metrics, since their registry is global. It
// is no mutex: who waits for a mutex holds the clock, too.
func runController(ctx context.Context, dir, host string, wiring chan struct{}) error {
	o := defaultOptions()
	o.kubeconfig, o.metricsAddr, o.builtinProfiles = filepath.Join(dir, host), "0", false
	o.cleanupMinInterval, o.published = time.Minute, map[string]string{}
	content := "clusters: [{name: one, cluster: {server: 'http://" + host + "'}}]\ncontexts: [{name: one, context: {cluster: one}}]\ncurrent-context: one\n"
	if err := os.WriteFile(o.kubeconfig, []byte(content), 0o600); err != nil {
		return err
	}
	p, err := func() (*process, error) {
		wiring <- struct{}{}
		defer func() { <-wiring }()
		metrics.Registry = prometheus.NewRegistry()
		p, err := newProcess(ctx, o, parts{controller: true})
		if err != nil {
			return nil, err
		}
		if err := p.addPlatform(ctx); err != nil {
			return nil, err
		}
		return p, addController(ctx, p)
	}()
	if err != nil {
		return err
	}
	return p.mgr.Start(ctx)
}

// stops is when each process was stopped.
func (s *simulation) stops() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.stopped)
}

// faults decides what happens to a request of Curfew.
func (s *simulation) faults(r *world.Request) world.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if r.Resource == nil { // Discovery is read under a mutex.
		return world.Fault{}
	}
	out := world.Fault{Delay: s.upTo(5 * time.Millisecond), Late: s.upTo(5 * time.Millisecond)}
	if until, ok := s.cut[r.Client]; ok {
		if now.Before(until) {
			out.Lost, out.Hang = true, s.random.IntN(2) == 0
			return out
		}
		delete(s.cut, r.Client)
	}
	if now.Before(s.trouble) && r.Verb != "watch" {
		switch s.random.IntN(16) {
		case 0:
			out.LostAnswer = true
		case 1:
			out.Lost = true
		case 2:
			out.Code, out.RetryAfter = http.StatusTooManyRequests, 1
		case 3:
			out.Code = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusBadGateway}[s.random.IntN(3)]
		case 4:
			out.Delay = s.upTo(3 * time.Second)
		case 5:
			out.Late = s.upTo(3 * time.Second)
		}
	}
	if s.race && r.Verb == "delete" && r.Resource != nil && r.Resource.Group != "curfew.dev" {
		s.race = false
		out.Race = func() { s.touch(r) }
	}
	return out
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.random.Int64N(int64(d)))
}
