package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	match "curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// slow is an API server in which each request takes a while.
type slow struct {
	Cluster
	version atomic.Int64

	mu       sync.Mutex
	statuses map[string]*v1alpha1.PodTallyStatus
}

func (s *slow) WriteStatus(_ context.Context, namespace, name string, _ types.UID, _ string, status *v1alpha1.PodTallyStatus) (string, error) {
	time.Sleep(5 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[namespace+"/"+name] = status.DeepCopy()
	return strconv.FormatInt(s.version.Add(1), 10), nil
}

func (s *slow) Patch(_ context.Context, namespace, name string, patch []byte) (*metav1.PartialObjectMetadata, error) {
	time.Sleep(10 * time.Millisecond)
	var body struct{ Metadata patchMeta }
	if err := json.Unmarshal(patch, &body); err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: body.Metadata.UID, ResourceVersion: strconv.FormatInt(s.version.Add(1), 10), Annotations: map[string]string{},
	}}
	for key, value := range body.Metadata.Annotations {
		out.Annotations[key] = *value
	}
	return out, nil
}

func (s *slow) counted(tally string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status := s.statuses[tally]; status != nil {
		return status.Succeeded
	}
	return 0
}

func newSlow() *slow {
	out := &slow{statuses: map[string]*v1alpha1.PodTallyStatus{}}
	out.version.Store(1)
	return out
}

// onRealTime is a controller that counts on real time.
func onRealTime(t *testing.T, cluster Cluster, of clock.Clock) *Controller {
	t.Helper()
	c, err := newController(Options{
		Cluster: cluster, Clock: of, Log: logr.Discard(), Registerer: prometheus.NewRegistry(),
		ServerTime: func(context.Context) (time.Time, error) { return time.Now(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// crowd begins to count in a namespace with many tallies of many finished Pods each.
func crowd(c *Controller, namespace string, tallies, pods int) {
	c.mu.Lock()
	w := c.newSpace(namespace)
	c.mu.Unlock()
	var all []*tally
	for i := range tallies {
		object := &v1alpha1.PodTally{}
		object.Namespace, object.Name, object.UID = namespace, fmt.Sprint("t", i), types.UID(fmt.Sprint(namespace, "-t", i))
		object.Spec.Selector.MatchLabels = map[string]string{"app": object.Name}
		compiled, _ := match.Compile(object)
		all = append(all, &tally{name: object.Name, uid: object.UID, match: compiled})
	}
	w.setTallies(all)
	w.beginList()
	for i := range pods {
		of := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
		of.Namespace, of.Name, of.ResourceVersion, of.Finalizers = namespace, fmt.Sprint("p", i), "1", []string{wellknown.FinalizerTally}
		of.UID, of.Labels = types.UID(fmt.Sprint(namespace, "-p", i)), map[string]string{"app": fmt.Sprint("t", i%tallies)}
		w.observe(of, false)
	}
	w.endList("1")
}

// The few Pods of one tally are counted within seconds, whatever others have to do: a namespace with
// a thousand tallies, or one with a tally that never comes to an end.
func TestSmallTalliesAreNotStarved(t *testing.T) {
	for name, others := range map[string]struct{ tallies, pods int }{
		"a thousand tallies": {1000, 50_000},
		"a huge tally":       {1, 30_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				api := newSlow()
				c := onRealTime(t, api, clock.RealClock{})
				crowd(c, "large", others.tallies, others.pods)
				c.rounds(ctx)
				time.Sleep(time.Second) // Within a bubble: no time passes.
				crowd(c, "small", 1, 5)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if got := api.counted("small/t0"); got != 5 {
					t.Errorf("%d of 5 Pods are counted after 3s", got)
				}
				done := int64(0)
				for i := range others.tallies {
					done += api.counted(fmt.Sprint("large/t", i))
				}
				if done == int64(others.pods) {
					t.Error("all others are counted, too: this test shows nothing")
				}
				cancel()
				c.all.Wait()
			})
		})
	}
}
