package tally

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// largePod is as the API server sends it: all strings are parts of one large buffer.
func largePod(i int) *corev1.Pod {
	buffer := fmt.Sprintf("pod-%08d|uid-%032d|node-%08d|%s", i, i, i, strings.Repeat("x", 10_000))
	parts := strings.Split(buffer, "|")
	out := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, NodeName: parts[2]}}
	out.Namespace, out.Name, out.UID, out.ResourceVersion = namespace, parts[0], types.UID(parts[1]), "1"
	out.Labels, out.Annotations = map[string]string{"app": "t0"}, map[string]string{"large": parts[3]}
	return out
}

// Whatever the size of a Pod, a few hundred bytes of it are kept, and nothing of one that no tally
// concerns.
func TestMemoryOfPods(t *testing.T) {
	const pods, most = 5000, 600
	for concerned, label := range map[bool]string{true: "t0", false: "other"} {
		c := onRealTime(t, nil, clock.RealClock{})
		crowd(c, namespace, 1, 0)
		s := c.spaces[namespace].space
		before := heap()
		for i := range pods {
			pod := largePod(i)
			pod.Labels["app"] = label
			s.observe(pod, false)
		}
		each := (int64(heap()) - int64(before)) / pods
		t.Logf("concerned %t: %d bytes a Pod", concerned, each)
		if concerned && each > most || !concerned && (each > 8 || len(s.pods) > 0) {
			t.Errorf("concerned %t: %d bytes of each Pod are kept, %d in all", concerned, each, len(s.pods))
		}
		runtime.KeepAlive(c)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// bulky is a cluster with large Pods: the transport refuses a page of more than a few.
type bulky struct {
	*view
	refused int
}

func (b *bulky) Pods(ctx context.Context, namespace string, options metav1.ListOptions) (*corev1.PodList, error) {
	if options.Limit > 5 {
		b.refused++
		return nil, apierrors.NewRequestEntityTooLargeError("the page has too many large objects")
	}
	return b.view.Pods(ctx, namespace, options)
}

// A tenant may create Pods of a megabyte each: they are listed a few at a time.
func TestLargePodsAreListed(t *testing.T) {
	w, ctx := someWorld(t), t.Context()
	p := w.process()
	cluster := &bulky{view: p.view}
	p.options.Cluster = cluster
	p.settle(ctx)
	w.expect(t, 1, 2, 4)
	if cluster.refused == 0 {
		t.Error("no page was too large: this test shows nothing")
	}
}
