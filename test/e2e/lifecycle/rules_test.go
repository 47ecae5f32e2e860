package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/harness"
)

// TestSilentWatchOfRules (S12): the watches of rules stay open and report nothing, while all others
// go on. A Namespace turns to dry-run meanwhile. What falls due in it is kept, since a LIST shows
// the change. Without FULL=1, TestSilentWatch of controller/feed shows it, for more rules.
func TestSilentWatchOfRules(t *testing.T) {
	full(t)
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*pauses) // Cleanups use it, too.
	t.Cleanup(cancel)
	f.ctx = ctx
	webhook, err := suite.cluster.StartWebhook(ctx, harness.CurfewOptions{})
	f.ok(err)
	t.Cleanup(func() { f.ok(webhook.Kill()) })
	f.ok(suite.cluster.WaitForWebhook(ctx))
	proxy, err := harness.NewProxy(suite.cluster.Config)
	f.ok(err)
	t.Cleanup(proxy.Close)
	controller, err := suite.cluster.StartController(ctx, harness.CurfewOptions{Proxy: proxy})
	f.ok(err)
	t.Cleanup(func() { f.ok(controller.Kill()) })
	f.kubectl(labelsOfConfigMaps, "apply", "-f", "-")
	t.Cleanup(func() { f.kubectl("", "delete", "clusterrole", "e2e-configmaps") })
	f.ok(suite.cluster.NewNamespace(ctx, "paused", nil))
	t.Cleanup(func() { f.kubectl("", "delete", "namespace", "paused", "--timeout=60s") })
	f.due("early", 1, "1s")
	f.left("early", 0)

	proxy.Mute(func(path string) bool {
		return path == "/api/v1/namespaces" || strings.HasSuffix(path, "/"+v1alpha1.LifecyclePolicies) || strings.HasSuffix(path, "/"+v1alpha1.KindProfiles)
	})
	ttl, created := time.Minute, time.Now() // of 20 objects
	for {
		f.due("late", 20, ttl.String())
		f.kubectl("", "annotate", "namespace", "paused", "curfew.dev/mode=dry-run")
		if time.Since(created) < ttl-2*time.Second {
			break
		}
		t.Logf("this machine was too slow: objects may have been due after %s already", ttl)
		f.kubectl("", "annotate", "namespace", "paused", "curfew.dev/mode-")
		f.left("late", 0)
		ttl, created = 2*ttl, time.Now()
	}
	f.awaitUntil("a LIST that shows the change", func() bool {
		return f.measures(controller, `curfew_silent_watches_total{resource="namespaces"} 1`)
	})
	f.awaitUntil("a while after all are due", func() bool { return time.Since(created) > ttl+20*time.Second })
	if n := f.count("late"); n != 20 {
		t.Errorf("%d of 20 objects of a namespace in dry-run are left", n)
	}
	if !slices.ContainsFunc(proxy.Reads(), func(read harness.Read) bool {
		return read.Path == "/api/v1/namespaces" && !read.Watch && strings.HasPrefix(read.ContentType, runtime.ContentTypeProtobuf)
	}) {
		t.Error("Namespaces are not listed as protobuf")
	}
	proxy.Mute(nil)
	proxy.Cut()
	f.kubectl("", "annotate", "namespace", "paused", "curfew.dev/mode-")
	f.left("late", 0)
}
