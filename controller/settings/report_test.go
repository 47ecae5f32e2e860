package settings_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/settings"
)

// TestReportIsWrittenWhenItChanges: a report that is always the same costs no more than the
// settings, and a change shows within a minute, or at once where it is signalled.
func TestReportIsWrittenWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		report := settings.Report{Tracked: 1}
		become := func(next settings.Report) {
			mu.Lock()
			defer mu.Unlock()
			report = next
		}
		target, changed := &applied{}, loop.NewSignal()
		publisher := &settings.Publisher{
			ConfigMaps: target, User: func(context.Context) (string, error) { return "me", nil }, Data: map[string]string{"dry-run": "true"},
			Report: func() settings.Report {
				mu.Lock()
				defer mu.Unlock()
				return report
			},
			Changed: changed, Clock: clock.RealClock{}, Log: logr.Discard(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- publisher.Run(ctx) }()
		expect := func(when string, wait time.Duration, count, tracked int) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			data, _, _ := unstructured.NestedStringMap(target.objects[len(target.objects)-1].Object, "data")
			read, instant, ok, err := settings.ReadReport(data)
			if len(target.objects) != count || read.Tracked != tracked || !ok || err != nil || time.Since(instant) > 11*time.Minute || data["dry-run"] != "true" {
				t.Errorf("%s: applied %d times, want %d; %v, %v", when, len(target.objects), count, data, err)
			}
		}
		expect("at the start", 2*time.Second, 1, 1)
		expect("in an hour", time.Hour, 7, 1)
		become(settings.Report{Tracked: 2})
		expect("a change", 61*time.Second, 8, 2)
		become(settings.Report{Tracked: 3})
		changed.Set()
		expect("a change that is signalled", 2*time.Second, 9, 3)
		changed.Set()
		expect("a signal without a change", 2*time.Second, 9, 3)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestReadReport: what cannot be read is an error, and not an empty report.
func TestReadReport(t *testing.T) {
	for name, test := range map[string]struct {
		data map[string]string
		ok   bool
		err  string
	}{
		"none":       {data: map[string]string{"dry-run": "true"}},
		"no JSON":    {map[string]string{settings.ReportKey: "{"}, true, "key report: "},
		"no time":    {map[string]string{settings.ReportKey: "{}"}, true, "key reported-at: "},
		"a good one": {map[string]string{settings.ReportKey: "{}", settings.ReportedAt: "2026-12-24T11:59:00Z"}, true, ""},
	} {
		_, _, ok, err := settings.ReadReport(test.data)
		if ok != test.ok || (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
			t.Errorf("%s: read %t, error %v; want %t, error %q", name, ok, err, test.ok, test.err)
		}
	}
}

// TestListsAreBounded: however many names, and however long, the ConfigMap stays small.
func TestListsAreBounded(t *testing.T) {
	have := settings.ListOf(slices.Repeat([]string{strings.Repeat("x", 5000)}, 5000))
	if have.Count != 5000 || len(have.First) != 20 {
		t.Fatalf("it counts %d names and has %d, want 5000 and 20", have.Count, len(have.First))
	}
	if got := len(have.First[0]); got != 300 {
		t.Errorf("a name has %d characters, want 300", got)
	}
}

// TestFingerprint: the CA bundle does not count, everything else does.
func TestFingerprint(t *testing.T) {
	webhook := admissionv1.MutatingWebhook{Name: "a", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://x"), CABundle: []byte("ca")}}
	bundled, other := *webhook.DeepCopy(), *webhook.DeepCopy()
	bundled.ClientConfig.CABundle = []byte("rotated")
	other.ClientConfig.URL = new("https://y")
	fingerprint := func(webhooks ...admissionv1.MutatingWebhook) string { return settings.Fingerprint(webhooks) }
	if got, want := fingerprint(bundled), fingerprint(webhook); got != want {
		t.Errorf("with another CA bundle it is %s, want %s still", got, want)
	}
	if got := fingerprint(other); got == fingerprint(webhook) {
		t.Errorf("with another URL it is still %s", got)
	}
	if got := fingerprint(webhook, webhook); got == fingerprint(webhook) {
		t.Errorf("with a second webhook it is still %s", got)
	}
	if got := fingerprint(); got != settings.NoWebhooks {
		t.Errorf("without webhooks it is %s, want %s", got, settings.NoWebhooks)
	}
	if string(webhook.ClientConfig.CABundle) != "ca" {
		t.Error("the webhook was changed")
	}
}

// TestIncompleteIsBounded: of many kinds those that have waited longest are named.
func TestIncompleteIsBounded(t *testing.T) {
	began := time.Date(2026, 12, 24, 12, 0, 0, 123, time.UTC)
	since := map[schema.GroupKind]time.Time{}
	for i := range 50 {
		since[schema.GroupKind{Group: "example.com", Kind: fmt.Sprint("K", i)}] = began.Add(time.Duration(i) * time.Minute)
	}
	first, kinds := settings.IncompleteOf(since)
	if kinds != 50 || len(first) != 20 {
		t.Fatalf("it counts %d kinds and names %d, want 50 and 20", kinds, len(first))
	}
	if want := (settings.Incomplete{Group: "example.com", Kind: "K0", Since: began.Truncate(time.Second)}); first[0] != want {
		t.Errorf("the first is %v, want %v", first[0], want)
	}
	if first[19].Kind != "K19" {
		t.Errorf("the last is %v, want K19", first[19])
	}
}
