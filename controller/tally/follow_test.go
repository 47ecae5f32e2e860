package tally

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

// unwatched is a cluster whose watches end soon.
type unwatched struct {
	Cluster
	lists int
	open  func() (watch.Interface, error)
}

func (u *unwatched) Tallies(context.Context, string) ([]*StoredTally, error) { return nil, nil }

func (u *unwatched) Pods(context.Context, string, metav1.ListOptions) (*corev1.PodList, error) {
	u.lists++
	time.Sleep(2 * time.Millisecond)
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
}

func (u *unwatched) Watch(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return u.open()
}

// Pods whose watch ends at once are listed less and less often.
func TestWatchesThatEndAtOnce(t *testing.T) {
	for name, open := range map[string]func() (watch.Interface, error){
		"without an event": func() (watch.Interface, error) { w := watch.NewFake(); w.Stop(); return w, nil },
		"expired": func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			status := apierrors.NewResourceExpired("too old").Status()
			w.Error(&status)
			return w, nil
		},
		"refused": func() (watch.Interface, error) { return nil, apierrors.NewTooManyRequests("busy", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cluster := &unwatched{open: open}
				c := onRealTime(t, cluster, clock.RealClock{})
				w := c.newSpace("ci")
				w.cancel = cancel
				c.all.Go(func() { c.follow(ctx, w) })
				time.Sleep(time.Minute)
				synctest.Wait()
				if cluster.lists > 20 || cluster.lists < 5 {
					t.Errorf("the Pods were listed %d times in a minute", cluster.lists)
				}
				cancel()
				c.all.Wait()
			})
		})
	}
}
