package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/test/harness"
)

// ownerName is the Job whose Pods go on default-pod-ttl. It never finishes.
const ownerName = "owner"

// soak is one run.
type soak struct {
	*options
	cluster  *harness.Cluster
	world    *world
	ledger   *ledger
	told     *announcements
	writer   *writer
	chaos    *chaos
	replicas []*replica
	webhook  *harness.Curfew
	deletes  *deleteWebhook
	attack   *attack // nil without attackers
	fleet    []*object

	// lease is that of the controllers.
	lease time.Duration
	// perObject is how long it takes to create one.
	perObject time.Duration

	// peak is the most memory that a controller took.
	peak atomic.Int64
}

func newSoak(cluster *harness.Cluster, o *options) (*soak, error) {
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		return nil, err
	}
	world := &world{client: client}
	s := &soak{
		options: o, cluster: cluster, world: world,
		ledger: newLedger(), told: &announcements{times: map[string]time.Time{}},
		fleet: newFleet(newRandom(o.seed, 1), o.objects, o.window),
		// Not the shipped 15 s: short enough that successors take over within the soak, long enough that a
		// leader lives through some outages.
		lease: max(6*time.Second, min(12*time.Second, o.window/6)),
	}
	s.writer = &writer{world: world, later: max(2*time.Second, min(20*time.Second, o.window/4)), told: s.told, seed: o.seed, random: newRandom(o.seed, 5), byUID: map[string]*object{}}
	args := []string{"--lease-duration=" + s.lease.String()}
	if o.attackers > 0 {
		args = append(args, "--cleanup-min-interval=1m")
		s.attack = newAttack(cluster, world, o.attackers)
	}
	for _, name := range []string{"controller-a", "controller-b"} {
		r, err := newReplica(cluster, name, args)
		if err != nil {
			return nil, err
		}
		if o.memory > 0 { // as it finds out in a container
			r.options.Env = []string{fmt.Sprint("GOMEMLIMIT=", o.memory/10*9)}
		}
		s.replicas = append(s.replicas, r)
	}
	s.chaos = &chaos{cluster: cluster, replicas: s.replicas, random: newRandom(o.seed, 2), gap: o.gap, longest: o.longest, quiet: o.compared, out: os.Stdout}
	s.deletes = newDeleteWebhook(newRandom(o.seed, 4))
	s.deletes.strike = s.writer.strike
	return s, nil
}

func (s *soak) close() {
	s.deletes.close()
	if s.attack != nil {
		s.attack.throttle.close()
	}
	s.writer.strikes.Wait()
	for _, r := range s.replicas {
		_ = r.wire.Close()
	}
	if s.webhook != nil {
		_ = s.webhook.Kill() // it may have ended
	}
}

func (s *soak) say(format string, args ...any) {
	fmt.Printf("%s  %s\n", clockTime(time.Now()), fmt.Sprintf(format, args...))
}

// run prepares, lets everything expire while it breaks things, waits until all is settled, and
// judges.
func (s *soak) run(ctx context.Context) (out outcome, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	// From the present on: the ledger wants to see each object's beginning.
	if s.ledger.next, err = newestRevision(ctx, s.cluster); err != nil {
		return out, fmt.Errorf("reach etcd: %w", err)
	}
	watching.Go(func() { s.ledger.run(ctx, s.cluster.Etcd) })
	if err := s.install(ctx); err != nil {
		return out, err
	}
	for _, r := range s.replicas {
		watching.Go(func() {
			if err := r.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	watching.Go(func() { s.weigh(ctx) })
	if err := s.load(ctx); err != nil {
		return out, err
	}
	if s.attack != nil {
		watching.Go(func() {
			if err := s.attack.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	// Five parts in seven expire while everything breaks. The next part does so while nothing ends a
	// leader, since a new one lists everything, and makes good what its predecessor forgot. The last
	// part does so while nothing is broken at all, since the judge tolerates an old view of namespaces
	// and profiles where something is.
	first, second := len(s.fleet)*5/7, len(s.fleet)*6/7
	if err := s.expire(ctx, s.fleet[:first], s.window); err != nil {
		return out, err
	}
	s.chaos.gentle, s.chaos.gap, s.chaos.longest = true, s.chaos.gap/2, s.lease/3
	if err := s.expire(ctx, s.fleet[first:second], s.window/3); err != nil {
		return out, err
	}
	s.chaos.quiet = true
	if err := s.expire(ctx, s.fleet[second:], max(s.window/3, quietWindow)); err != nil {
		return out, err
	}
	// Nothing more may go now.
	pause(ctx, 2*time.Second)
	if err := context.Cause(ctx); err != nil {
		return out, err
	}
	return s.conclude(ctx)
}

// conclude judges, and prints what the soak came to.
func (s *soak) conclude(ctx context.Context) (out outcome, err error) {
	log, err := readAudit(s.cluster.Log("audit"))
	if err != nil {
		return out, err
	}
	v := s.ledger.sentence(&evidence{log: log, told: s.told, disrupted: s.chaos.record, troubled: s.deletes.gaveTrouble, end: time.Now()})
	if s.attack != nil {
		wrong, err := s.attack.check(ctx)
		if err != nil {
			return out, err
		}
		v.faults = append(v.faults, wrong...)
	}
	out = outcome{quantile(v.lateness, .99), s.peak.Load()}
	s.say("seed %d: Curfew deleted %d of %d objects and the second writer %d, beside %d changes and %d disruptions; half of them late by %s at most, 99%% by %s; "+
		"a controller took %d MiB at most; %d faults", s.seed, v.deletions, len(s.fleet), v.byWriter, s.writer.done.Load(), len(s.chaos.record),
		quantile(v.lateness, .5), out.p99, out.peak>>20, len(v.faults))
	return out, s.failure(v, log)
}

// install brings up the webhook and two controllers, and makes what the fleet needs.
func (s *soak) install(ctx context.Context) (err error) {
	if s.webhook, err = s.cluster.StartWebhook(ctx, harness.CurfewOptions{}); err != nil {
		return err
	}
	if err := s.cluster.WaitForWebhook(ctx); err != nil {
		return err
	}
	for _, r := range s.replicas {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	if _, stderr, err := s.cluster.KubectlInput(ctx, installation, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("install the soak's kind: %w\n%s", err, stderr)
	}
	if err := s.cluster.WaitForEstablished(ctx, "crd/batches."+soakGroup); err != nil {
		return fmt.Errorf("wait for the soak's kind: %w", err)
	}
	for _, name := range namespaces {
		var annotations map[string]string
		if name == "stamped" || name == "live" || name == "changed" {
			annotations = map[string]string{prefix + "default-ttl": seconds(defaultTTL), prefix + "default-pod-ttl": seconds(defaultPodTTL)}
		}
		if err := s.cluster.NewNamespace(ctx, nsPrefix+name, annotations); err != nil {
			return err
		}
	}
	if err := s.deletes.register(ctx, s.cluster, "soak-deletes", controllerAccount, onDelete("batch", jobs), onDelete("", pods), onDelete(soakGroup, batches)); err != nil {
		return err
	}
	if err := s.patchNamespace(ctx, "platform", "labels", map[string]any{"soak": "platform"}); err != nil {
		return err
	}
	owner := &object{kind: jobs, namespace: nsPrefix + "live", name: ownerName}
	if err := s.world.create(ctx, owner); err != nil {
		return fmt.Errorf("create the Job that owns Pods: %w", err)
	}
	s.world.owner = types.UID(owner.uid)
	return s.defaultsHold(ctx)
}

// defaultsHold waits until new objects get a default of the policy, and until the seconds are over
// in which the namespaces got theirs: an object created in the same second counts as older.
func (s *soak) defaultsHold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if s.ledger.known() {
			pause(ctx, 2*time.Second)
			return nil
		}
		pause(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("the policy's default does not hold: see %s", s.cluster.Log("curfew-controller-a"))
		}
	}
}

// known reports whether all rules were seen, and the policy's default has begun.
func (l *ledger) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	policy := l.rules["/registry/curfew.dev/lifecyclepolicies/"+policyName]
	if policy == nil {
		return false
	}
	since, _, _ := unstructured.NestedString(policy.Object, "status", "defaults", "sinceTime")
	return since != "" && len(l.rules) == len(namespaces)+2
}

func (s *soak) patchNamespace(ctx context.Context, name, field string, values map[string]any) error {
	return s.world.merge(ctx, "namespaces", "", nsPrefix+name, map[string]any{"metadata": map[string]any{field: values}})
}
