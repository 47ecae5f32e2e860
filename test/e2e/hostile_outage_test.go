package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// While the webhook is down anything can be written. Afterwards one bound that cannot be read does
// not lift another one that can, a forged stamp makes nothing go sooner, and many objects that
// Curfew keeps make neither many Events nor long ones. Not parallel: it stops what all share.
func TestHostileOutage(t *testing.T) {
	maximum := newSpace(t, wellknown.AnnotationMaxTTL, "7d", wellknown.AnnotationMaxDeadline, "1d")
	minimum := newSpace(t, wellknown.AnnotationMinTTL, "1h")
	kept := newSpace(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1s", wellknown.AnnotationMaxTTL, "7d")
	due := now()
	port := suite.webhook.WebhookPort
	s.ok(suite.webhook.Kill())
	func() {
		defer func() { s.ok(startWebhook(s.ctx, port)) }()
		annotate := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value) }
		maximum.expectSuccess(maximum.kubectl("patch", "namespace", maximum.name, "-p", annotate(wellknown.AnnotationMinTTL, strings.Repeat("1s", 30_000))))
		minimum.expectSuccess(minimum.kubectl("patch", "namespace", minimum.name, "-p", annotate(wellknown.AnnotationMaxTTL, "soon")))
		s.newJob(job("stamped", annotated(wellknown.AnnotationTTLSource, "namespace/"+s.name)))
		for i := range keptObjects {
			kept.finishJob(fmt.Sprintf("kept-%03d", i), due, annotated(wellknown.AnnotationTTL, strings.Repeat("1s", 5_000)))
		}
	}()
	maximum.poll("the maximum to hold beside a minimum that cannot be read", func(context.Context) (bool, error) {
		got := maximum.send(maximum.creation(maximum.jobsPath()+"?dryRun=All", job("long", native(tooLong))))
		return got.refused() && strings.Contains(got.message, wellknown.AnnotationMaxTTL), nil
	})
	maximum.refusesHostile("a deadline", maximum.creation(maximum.jobsPath(), job("long", limited(48*time.Hour))), wellknown.AnnotationMaxDeadline)
	minimum.poll("the minimum to hold beside a maximum that cannot be read", func(context.Context) (bool, error) {
		got := minimum.send(minimum.creation(minimum.jobsPath()+"?dryRun=All", job("short", native(time.Minute))))
		return got.refused() && strings.Contains(got.message, wellknown.AnnotationMinTTL), nil
	})
	if got := minimum.send(minimum.creation(minimum.jobsPath()+"?dryRun=All", job("fine", native(2*time.Hour)))); got.code != http.StatusCreated {
		t.Errorf("a TTL above the minimum: %s", got)
	}

	stamped := s.getJob("stamped")
	s.outlast(s.awaitJobFinish(stamped).Add(2 * second))
	s.stillThere(stamped)

	events, err := suite.cluster.Client.CoreV1().Events(kept.name).List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	mentions := 0
	for _, event := range events.Items {
		if !strings.Contains(event.Message, wellknown.AnnotationTTL) {
			continue
		}
		if mentions++; len(event.Message) > 512 {
			t.Errorf("an Event has %d bytes: %s", len(event.Message), cut(event.Message))
		}
	}
	if mentions == 0 || mentions > keptObjects {
		t.Errorf("%d kept objects made %d Events", keptObjects, mentions)
	}
	lines := logLines(suite.controller.Log, kept.name+"/kept-")
	for _, line := range lines {
		if len(line) > 2_000 {
			t.Errorf("a log line has %d bytes: %s", len(line), cut(line))
		}
	}
	if len(lines) > keptObjects {
		t.Errorf("%d kept objects made %d log lines", keptObjects, len(lines))
	}
}

const keptObjects = 200
