package tally

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/watch"
	match "curfew.dev/curfew/policy/tally"
)

// OnChange implements Tallies.
func (w *world) OnChange(func(string)) {}

// Namespaces implements Tallies.
func (w *world) Namespaces() []string { return []string{namespace} }

// In implements Tallies.
func (w *world) In(string) ([]*match.Tally, error) { return nil, nil }

// view is the world as one process sees it.
type view struct {
	*world
	tallies map[types.UID]bool
}

func (v *view) Tallies(ctx context.Context, namespace string) ([]*StoredTally, error) {
	out, err := v.world.Tallies(ctx, namespace)
	if err == nil {
		v.tallies = map[types.UID]bool{}
		for _, storedTally := range out {
			v.tallies[storedTally.UID] = true
		}
	}
	return out, err
}

func (v *view) Patch(ctx context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	v.known = v.tallies
	return v.world.Patch(ctx, namespace, name, patch)
}

// process is one run of the controller in the namespace, without goroutines.
type process struct {
	*Controller
	world *world
	view  *view
	watch *watched
	// at is how many events it has seen.
	at int
}

func (w *world) process() *process {
	v := &view{world: w}
	c := New(Options{
		Tallies: w, Cluster: v, Clock: w.clock, Log: logr.Discard(), Registerer: prometheus.NewRegistry(),
		ServerTime: func(context.Context) (time.Time, error) { return w.clock.Now(), nil },
	})
	p := &process{Controller: c, world: w, view: v, watch: c.newSpace(namespace)}
	p.watch.Again()
	c.send = func(ctx context.Context, all []request) (first error) {
		for _, send := range all {
			err := send(ctx)
			if first = cmp.Or(first, err); overloaded(err) {
				break
			}
		}
		return first
	}
	return p
}

// due is a Pod that Curfew is about to delete, in the state that it has now.
func (w *world) due(name string) deletion.Due {
	pod := w.pods[name]
	out := deletion.Due{Namespace: namespace, Name: name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	out.Resource = podResource
	return out
}

// delete deletes a Pod, which next does in the end.
func (p *process) delete(ctx context.Context, due deletion.Due, next deletes) deletion.Answer {
	return Disowning{Next: next, Tally: func() *Controller { return p.Controller }}.Do(ctx, due)
}

type deletes func(deletion.Due) deletion.Answer

func (f deletes) Do(_ context.Context, due deletion.Due) deletion.Answer { return f(due) }

// relist reads tallies and Pods, and reports whether that worked.
func (p *process) relist(ctx context.Context) bool {
	p.watch.Follower = p.follower(p.watch) // Nobody has asked this one.
	if err := p.load(ctx, p.watch); err != nil {
		p.watch.Again()
		return false
	}
	p.at = -1
	before := p.world.around
	p.world.around = func(request string, first bool) error {
		err := before(request, first)
		if first {
			p.at = len(p.world.events)
		}
		return err
	}
	err := listPods(ctx, p.watch)
	if p.world.around = before; err != nil {
		p.watch.Again()
		return false
	}
	return true
}

// listPods lists the Pods of a namespace as its follower does.
func listPods(ctx context.Context, w *watched) error {
	w.beginList()
	version, err := watch.Each(ctx, metav1.ListOptions{}, w.List, func(page runtime.Object) error {
		return meta.EachListItem(page, func(pod runtime.Object) error { return w.Observe(ctx, pod) })
	})
	if err == nil {
		w.endList(version)
	}
	return err
}

// deliver shows it the next event.
func (p *process) deliver() bool {
	if p.at < 0 || p.at >= len(p.world.events) {
		return false
	}
	event := p.world.events[p.at]
	p.at++
	pod, _ := event.Object.(*corev1.Pod)
	if event.Type == apiwatch.Deleted {
		p.watch.Deleted(pod)
	} else if err := p.watch.Observe(context.Background(), pod); err != nil {
		p.world.fail("%v", err)
	}
	return true
}

// step has a round of a tally, or of the Pods without one.
func (p *process) step(ctx context.Context, name string) {
	if p.watch.Asked() && !p.relist(ctx) {
		return
	}
	p.do(ctx, namespace+"/"+name)
}

// settle runs everything until nothing happens any more.
func (p *process) settle(ctx context.Context) {
	for range 30 {
		before := p.world.version
		if p.watch.Asked() {
			p.relist(ctx)
		}
		for p.deliver() {
		}
		p.overdue(ctx, p.watch.space)
		for _, name := range slices.Sorted(maps.Keys(p.world.tallies)) {
			p.step(ctx, name)
		}
		p.step(ctx, "")
		p.world.clock.Step(time.Hour)
		if p.world.version == before && !p.watch.Asked() {
			return
		}
	}
	p.world.fail("it does not come to rest")
}
