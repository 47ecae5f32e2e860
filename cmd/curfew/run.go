package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/controller/servertime"
	"curfew.dev/curfew/webhook/api"
)

// run builds what the process consists of and runs it until ctx is done.
func run(ctx context.Context, options *options, parts parts) error {
	limitMemory(cgroupLimits)
	p, err := newProcess(options, parts)
	if err != nil {
		return err
	}
	if err := p.addPlatform(ctx); err != nil {
		return fmt.Errorf("setting up what Curfew judges by: %w", err)
	}
	var ready []api.Check
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
	if err := addHealth(ctx, p, ready); err != nil {
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

// newProcess connects to the API server.
func newProcess(options *options, parts parts) (*process, error) {
	p := &process{options: options, clock: clock.RealClock{}, log: newLogger(options.verbosity)}
	ctrl.SetLogger(p.log)
	klog.SetLogger(p.log)
	var err error
	if p.config, err = restConfig(options.kubeconfig); err != nil {
		return nil, err
	}
	p.options.confine(p.config)
	p.skew = servertime.NewSkew(p.clock)
	p.config.Wrap(p.skew.Wrap)
	p.reach = servertime.NewReach(p.clock)
	p.config.Wrap(p.reach.Wrap)
	if parts.controller {
		p.addPauses()
	}
	var errs [3]error
	var asks *deletion.Client
	capped := rest.CopyConfig(p.config)
	capped.Wrap(paging.Cap)
	p.typed, errs[0] = kubernetes.NewForConfig(capped)
	p.dynamic, errs[1] = dynamic.NewForConfig(capped)
	asks, errs[2] = deletion.NewClient(p.config)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	p.serverTime = servertime.NewServerTime(p.skew, asks.Ping).Now
	p.mgr, err = newManager(p.config, options, parts)
	return p, err
}

// newLogger writes JSON lines to standard error. controller-runtime's own logger drops lines that
// repeat within a second, and no deletion may go unlogged.
func newLogger(verbosity int) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	// #nosec G115 -- options.validate bounds it.
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(os.Stderr), zapcore.Level(-verbosity))
	return zapr.NewLogger(zap.New(core))
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

func newManager(config *rest.Config, options *options, parts parts) (manager.Manager, error) {
	grace := options.gracePeriod
	renew := options.leaseDuration * 2 / 3
	retry := leaseRetry
	var lock resourcelock.Interface
	if parts.controller && options.leaderElect {
		var err error
		if lock, err = newLease(config, options, renew); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				// Every review reads a namespace, and nobody changes one that was read.
				follow.NamespaceMeta(): {Transform: follow.StripNamespace, UnsafeDisableDeepCopy: new(true)},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Metrics:                       server.Options{BindAddress: options.metricsAddr},
		HealthProbeBindAddress:        "0", // addHealth serves it
		PprofBindAddress:              options.pprof,
		LeaderElection:                lock != nil,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &options.leaseDuration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       &grace,

		LeaderElectionResourceLockInterface: lock,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return mgr, nil
}

// addHealth serves /healthz and /readyz. A controller that waits for the lease is ready: it does
// what it should.
func addHealth(ctx context.Context, p *process, ready []api.Check) error {
	router, err := api.New(api.Options{Ready: ready, Logger: p.log.WithName("http")})
	if err != nil {
		return err
	}
	server, err := api.Listen(ctx, p.options.healthAddr, router)
	if err != nil {
		return err
	}
	return p.mgr.Add(server)
}
