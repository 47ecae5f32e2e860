package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/test/harness"
)

// ownerName is the Job whose Pods go on default-pod-ttl. It never finishes.
const ownerName = "owner"

// soak is one run.
type soak struct {
	*options
	cluster  *harness.Cluster
	store    *etcd
	world    *world
	ledger   *ledger
	beats    *heartbeats
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

	// flips counts how often a namespace was put into dry-run, corrections how often the KindProfile
	// was changed.
	flips, corrections atomic.Int64
	// peak is the most memory that a controller took.
	peak atomic.Int64

	began, mended, settled time.Time
}

func newSoak(cluster *harness.Cluster, o *options) (*soak, error) {
	world, err := newWorld(cluster.Config)
	if err != nil {
		return nil, err
	}
	state, err := os.ReadFile(filepath.Join(cluster.Dir, "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	var at struct{ Etcd string }
	if err := json.Unmarshal(state, &at); err != nil {
		return nil, fmt.Errorf("parse the cluster's state: %w", err)
	}
	s := &soak{
		options: o, cluster: cluster, store: newEtcd(at.Etcd), world: world, began: time.Now(),
		ledger: newLedger(nsPrefix), beats: &heartbeats{}, told: newAnnouncements(),
		fleet: newFleet(newRandom(o.seed, 1), o.objects, o.window),
		// Not the shipped 15 s: short enough that successors take over within the soak, long enough that a
		// leader lives through some outages.
		lease: max(6*time.Second, min(12*time.Second, o.window/6)),
	}
	s.writer = &writer{world: world, later: max(2*time.Second, min(20*time.Second, o.window/4)), told: s.told, seed: o.seed, random: newRandom(o.seed, 5), byUID: map[string]*object{}}
	args := []string{"--lease-duration=" + s.lease.String()}
	if o.attackers > 0 {
		args = append(args, "--cleanup-min-interval=1m")
		if s.attack, err = newAttack(cluster, world, o.attackers); err != nil {
			return nil, err
		}
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
func (s *soak) run(ctx context.Context) (*verdicts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	// From the present on. The ledger wants to see each object's beginning.
	start, err := s.store.put(ctx, heartbeatKey, "")
	if err != nil {
		return nil, fmt.Errorf("reach etcd: %w", err)
	}
	s.ledger.next = start
	watching.Go(func() { s.ledger.run(ctx, s.store) })
	watching.Go(func() { s.beats.run(ctx, s.store, 20*time.Millisecond) })

	if err := s.install(ctx); err != nil {
		return nil, err
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
		return nil, err
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
		return nil, err
	}
	s.chaos.gentle, s.chaos.gap, s.chaos.longest = true, s.chaos.gap/2, s.lease/3
	if err := s.expire(ctx, s.fleet[first:second], s.window/3); err != nil {
		return nil, err
	}
	s.chaos.quiet = true
	if err := s.expire(ctx, s.fleet[second:], max(s.window/3, quietWindow)); err != nil {
		return nil, err
	}
	// Nothing more may go now.
	pause(ctx, 2*time.Second)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.settled = time.Now()
	log, err := readAudit(s.cluster.Log("audit"))
	if err != nil {
		return nil, err
	}
	out := sentence(s.ledger, &evidence{
		beats: s.beats, told: s.told, disrupted: s.chaos.record, received: log.received(), troubled: s.deletes.gaveTrouble, end: s.settled,
	})
	if s.attack != nil {
		wrong, err := s.attack.check(ctx)
		if err != nil {
			return nil, err
		}
		out.wrong = append(out.wrong, wrong...)
	}
	return out, nil
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
	if err := s.deletes.register(ctx, s.world, "soak-deletes", controllerAccount, onDelete("batch", jobs), onDelete("", pods), onDelete(soakGroup, batches)); err != nil {
		return err
	}
	if err := s.patchNamespace(ctx, "platform", `{"metadata":{"labels":{"soak":"platform"}}}`); err != nil {
		return err
	}
	suspended := true
	owner, err := s.world.typed.BatchV1().Jobs(nsPrefix+"live").Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: ownerName},
		Spec:       batchv1.JobSpec{Suspend: &suspended, Template: corev1.PodTemplateSpec{Spec: (&object{}).podSpec()}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the Job that owns Pods: %w", err)
	}
	s.world.owner = owner.UID
	return s.defaultsHold(ctx)
}

// defaultsHold waits until new objects get a default of the policy, and until the seconds are over
// in which the namespaces got theirs: an object created in the same second counts as older.
func (s *soak) defaultsHold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		s.ledger.mu.Lock()
		rules, seen := s.ledger.rules, len(s.ledger.namespaces)
		s.ledger.mu.Unlock()
		if seen == len(namespaces) && len(rules) > 0 && !rules[len(rules)-1].since.IsZero() {
			pause(ctx, 2*time.Second)
			return nil
		}
		pause(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("the policy's default does not hold: see %s", s.cluster.Log("curfew-controller-a"))
		}
	}
}

func (s *soak) patchNamespace(ctx context.Context, name, patch string) error {
	return insist(ctx, func(ctx context.Context) error {
		_, err := s.world.typed.CoreV1().Namespaces().Patch(ctx, nsPrefix+name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}
