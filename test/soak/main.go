package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/test/harness"
)

// options are the flags.
type options struct {
	objects     int
	window, gap time.Duration
	longest     time.Duration
	settle      time.Duration
	seed        uint64
	dir         string
	attackers   int

	// compared: this is one of two runs that are compared, and nothing is broken in either. memory is
	// the limit of a controller then.
	compared bool
	memory   int64
}

func main() {
	var o options
	flag.IntVar(&o.objects, "objects", 20000, "how many objects are made")
	flag.DurationVar(&o.window, "window", 3*time.Minute, "over which time they expire, and things are broken; the last ones in a third of it, without kills")
	flag.DurationVar(&o.gap, "gap", 4*time.Second, "from one thing that is mended to the next that is broken, on average")
	flag.DurationVar(&o.longest, "longest", 9*time.Second, "how long a stall or an outage is made to last, at most")
	flag.DurationVar(&o.settle, "settle", 3*time.Minute, "how long due objects may take, once nothing is broken any more")
	flag.Uint64Var(&o.seed, "seed", 1, "of the plan; 0 takes one of the clock's. Times differ between two runs all the same")
	flag.StringVar(&o.dir, "dir", ".soak", "folder of the control plane and its logs")
	flag.IntVar(&o.attackers, "attackers", 0, "how many cleanup policies and forged reports each of three attacking tenants has; "+
		"with any there are two runs, the first one without attackers, and nothing is broken: their latenesses are compared")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // client-go complains of every connection that breaks
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

// controllers of the control plane: what a namespace, a Node and an aggregated ClusterRole need. No
// Job controller, because the soak writes what that would write, and no collector of old Pods.
const controllers = "clusterrole-aggregation-controller,garbage-collector-controller,namespace-controller,node-lifecycle-controller,root-ca-certificate-publisher-controller,serviceaccount-controller"

func run(ctx context.Context, o *options) error {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	dir := o.dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if o.attackers == 0 {
		_, err := once(ctx, root, dir, o)
		return err
	}
	with := *o
	with.compared = true
	if with.memory, err = memoryLimit(root); err != nil {
		return err
	}
	without := with
	without.attackers = 0
	before, err := once(ctx, root, filepath.Join(dir, "without"), &without)
	if err != nil {
		return fmt.Errorf("without attackers: %w", err)
	}
	after, err := once(ctx, root, filepath.Join(dir, "with"), &with)
	if err != nil {
		return fmt.Errorf("with attackers: %w", err)
	}
	fmt.Printf("\nhonest p99 without attackers %s, with them %s; at most %d of %d MiB of memory\n", before.p99, after.p99, after.peak>>20, with.memory>>20)
	return compare(before, after, with.memory)
}

// once runs a soak in a folder of its own.
func once(ctx context.Context, root, dir string, o *options) (out outcome, err error) {
	place := filepath.Join(dir, "cluster")
	if err := harness.StopCluster(ctx, place); err != nil {
		return out, err
	}
	cluster, err := startCluster(ctx, root, place)
	defer func() {
		err = errors.Join(err, harness.StopCluster(context.WithoutCancel(ctx), place))
	}()
	if err != nil {
		return out, err
	}
	s, err := newSoak(cluster, o)
	if err != nil {
		return out, err
	}
	defer s.close()
	return s.run(ctx)
}

func startCluster(ctx context.Context, root, place string) (*harness.Cluster, error) {
	return harness.StartCluster(ctx, harness.ClusterOptions{
		Dir: place, AuditLog: true, Controllers: controllers, Out: os.Stderr,
		Arguments: []string{
			// What the judge reads may not be lost or compacted away.
			"kube-apiserver=--audit-policy-file=" + filepath.Join(root, "test", "soak", "audit.yaml"),
			"kube-apiserver=--audit-log-mode=blocking", "kube-apiserver=--audit-log-maxsize=4000",
			"kube-apiserver=--etcd-compaction-interval=0", "kube-apiserver=--storage-media-type=application/json",
		},
	})
}
