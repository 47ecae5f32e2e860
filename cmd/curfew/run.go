package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // The image has no time zones.

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/watch"
)

// run builds the parts of the process and runs them until ctx is done.
func run(ctx context.Context, options *options, parts parts) error {
	limitMemory(cgroupLimits)
	p, err := newProcess(ctx, options, parts)
	if err != nil {
		return err
	}
	if err := p.addPlatform(ctx); err != nil {
		return fmt.Errorf("setting up what Curfew judges by: %w", err)
	}
	var ready map[string]healthz.Checker
	if parts.webhook {
		if ready, err = addWebhook(ctx, p); err != nil {
			return fmt.Errorf("setting up the webhooks: %w", err)
		}
	}
	if parts.controller {
		if err := addController(ctx, p); err != nil {
			return fmt.Errorf("setting up the controller: %w", err)
		}
	}
	if err := p.addHealth(ctx, ready); err != nil {
		return fmt.Errorf("setting up health checks: %w", err)
	}
	if err := metrics.Registry.Register(buildInfo()); err != nil {
		return fmt.Errorf("registering metrics of the build: %w", err)
	}
	p.log.Info("starting", "version", version, "webhook", parts.webhook, "controller", parts.controller)
	if parts.webhook {
		ctx = p.drain.follow(ctx, p.clock.After, options.drainDelay)
	}
	return p.mgr.Start(ctx)
}

// buildInfo shows in a metric which version runs, so that dashboards can tell an upgrade.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "curfew_build_info",
		Help:        "Always 1. The labels are the version of Curfew and that of Go.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}

// newProcess connects to the API server. It runs until ctx is done.
func newProcess(ctx context.Context, options *options, parts parts) (*process, error) {
	p := &process{options: options, clock: clock.RealClock{}, log: newLogger(options.verbosity)}
	ctrl.SetLogger(p.log)
	// The libraries log each request that fails. Of what repeats, ten lines a second are enough.
	klog.SetLogger(newLogger(options.verbosity, zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, 10, 0)
	})))
	var err error
	if p.config, err = restConfig(options.kubeconfig); err != nil {
		return nil, err
	}
	p.skew = deletion.NewSkew(p.clock)
	p.config.Wrap(p.skew.Wrap)
	p.reach = deletion.NewReach(p.clock)
	p.config.Wrap(p.reach.Wrap)
	if parts.controller {
		if options.leaderElect {
			if p.lease, err = newLease(p.config, options); err != nil {
				return nil, err
			}
		}
		p.addPauses()
	}
	var errs [3]error
	var asks *deletion.Client
	capped := rest.CopyConfig(p.config)
	capped.Wrap(watch.Cap)
	p.typed, errs[0] = kubernetes.NewForConfig(capped)
	p.dynamic, errs[1] = dynamic.NewForConfig(capped)
	asks, errs[2] = deletion.NewClient(p.config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	p.serverTime = deletion.NewServerTime(p.skew, asks.Ping).Now
	p.mgr, err = newManager(ctx, capped, options, p.lease, p.metrics())
	return p, err
}

// newLogger writes JSON lines to standard error. controller-runtime's own logger drops lines that
// repeat within a second, and no deletion may go unlogged.
func newLogger(verbosity int, options ...zap.Option) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	// #nosec G115 -- options.validate bounds it.
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(os.Stderr), zapcore.Level(-verbosity))
	return zapr.NewLogger(zap.New(core, options...))
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	}
	config.UserAgent = "curfew/" + version
	// No client-side throttle: the API server's priority and fairness, and the engine's own
	// concurrency, set the pace.
	config.QPS = -1
	// As kube-controller-manager has it. From 1.37 on the API server would pack each event of a
	// watch that began with a list by itself (WatchListCompression), which costs both sides more
	// than the event does.
	config.DisableCompression = true
	return config, nil
}

func newManager(ctx context.Context, config *rest.Config, options *options, lock *lease, metrics server.Options) (manager.Manager, error) {
	deadline, retry := options.renewal()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		NewCache: func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			below, err := cache.New(config, options)
			return endingCache{below, ctx}, err
		},
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				// Every review reads a namespace, and no reader changes it.
				follow.NamespaceMeta(): {Transform: follow.StripNamespace, UnsafeDisableDeepCopy: new(true)},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Metrics:                       metrics,
		HealthProbeBindAddress:        "0", // addHealth serves it, with limits.
		PprofBindAddress:              options.pprof,
		LeaderElection:                lock != nil,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &options.leaseDuration,
		RenewDeadline:                 &deadline,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       new(options.gracePeriod),

		LeaderElectionResourceLockInterface: lock,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if lock != nil {
		err = mgr.Add(leaderRunnable(lock.watch))
	}
	return mgr, err
}

// endingCache counts as synced when the process ends, too. controller-runtime v0.25 would wait for it
// without end and on a whole core (pkg/manager/runnable_group.go, Start). What needs Namespaces waits
// for them by itself.
type endingCache struct {
	cache.Cache
	process context.Context
}

// WaitForCacheSync implements cache.Cache.
func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.process, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.process.Err() != nil
}

// process holds the parts that webhooks and controller share.
type process struct {
	options    *options
	mgr        manager.Manager
	config     *rest.Config
	typed      kubernetes.Interface
	dynamic    dynamic.Interface
	clock      clock.WithTicker
	skew       *deletion.Skew
	reach      *deletion.Reach
	lease      *lease         // nil without leader election
	pauses     *deletion.Gate // nil without the controller
	serverTime follow.ServerTime
	log        logr.Logger
	drain      drain
	// certificates are the webhook's; nil without it.
	certificates certs.Provider
	// platform holds the profiles, policies and namespaces by which both judge.
	platform follow.Cached
}

// steps runs the steps of a setup until one fails.
func steps(ctx context.Context, all ...func(context.Context) error) error {
	for _, step := range all {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// together runs parts beside each other until ctx is done and all have ended. The first error ends
// the others.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	return group.Wait()
}

// leaderRunnable runs on the holder of the lease alone.
type leaderRunnable func(context.Context) error

func (f leaderRunnable) Start(ctx context.Context) error { return f(ctx) }

func (leaderRunnable) NeedLeaderElection() bool { return true }

// gcPercent is how much the heap may grow between two collections after a long list. Curfew's heap
// holds few pointers, so that collecting twice as often as Go's default costs little and keeps
// little garbage in memory.
const gcPercent = 50

// worthwhile is the length of a list from which a collection pays. Most kinds have few objects.
const worthwhile = 1000

// giveBack returns a function that feeds call after each list. It never blocks. After a long list,
// or several, it returns memory to the system once.
func giveBack(ctx context.Context) func(objects int) {
	asked := loop.NewSignal()
	go func() {
		for asked.Wait(ctx, nil, 0) {
			trim()
		}
	}()
	return func(objects int) {
		if objects >= worthwhile {
			asked.Set()
		}
	}
}

// trim returns memory to the system after a whole kind was read. The engine keeps a small part of
// each object, and Go would hold the memory of the rest for minutes. GOGC in the environment takes
// precedence.
func trim() {
	debug.FreeOSMemory()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// cgroupLimits are the files that hold the memory limit of the container, of cgroup v2 and v1.
var cgroupLimits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// limitMemory makes Go collect garbage before the container reaches its memory limit, unless
// GOMEMLIMIT is set. The rest is for memory that Go does not count.
func limitMemory(files []string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// "max", or a number near the largest, where there is none.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < 1<<50 {
			debug.SetMemoryLimit(limit / 10 * 9)
		}
		return
	}
}

// memoryLimit returns how much memory the process may use; 0 if no limit is set.
func memoryLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < 1<<50 {
		return limit
	}
	return 0
}

// version and commit are set by the linker.
var version, commit = "dev", "unknown"
