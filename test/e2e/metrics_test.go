package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// TestMetricsOfAKind: Curfew counts its deletions by group and kind, with their lateness. It counts
// objects that another client deleted after their expiry apart.
func TestMetricsOfAKind(t *testing.T) {
	t.Parallel()
	s, resource := custom(t)
	s.grant("e2e-"+s.name, resource)
	s.awaitWatched(groupKind(resource), true)
	series := func(metric, more string) string {
		return fmt.Sprintf(`%s{group=%q,kind="Thing"%s,trigger="label"}`, metric, resource.Group, more)
	}
	s.awaitGone(s.newObject(resource, "Thing", "own", wellknown.LabelTTL, "2s"))
	s.awaitMetrics("the deletion", func(text string) bool {
		return strings.Contains(text, series("curfew_deletion_attempts_total", `,result="deleted"`)+" 1")
	})
	late, err := strconv.ParseFloat(metric(t, s.ctx, series("curfew_deletion_lateness_seconds_sum", "")), 64)
	if err != nil || late < 0 {
		t.Errorf("the only deletion was %vs late (%v), want 0 or more", late, err)
	}

	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationMode+"=dry-run"))
	early := s.newObject(resource, "Thing", "early", wellknown.LabelTTL, "1h")
	due := s.newObject(resource, "Thing", "due", wellknown.LabelTTL, "2s")
	s.awaitLog(suite.controller.Log, s.name+"/due", "dry")
	// As the in-tree TTL controller deletes.
	s.expectSuccess(s.kubectl("delete", resource.Resource+"."+resource.Group, "early", "due", "--cascade=foreground", "--wait=false"))
	s.awaitDeletion(early)
	s.awaitDeletion(due)
	byOthers := series("curfew_deletions_by_others_total", "")
	s.awaitMetrics("the deletion by somebody else", func(text string) bool { return strings.Contains(text, byOthers+" 1") })
	for _, process := range []*harness.Curfew{suite.controller, suite.webhook} {
		text, err := process.Scrape(s.ctx)
		s.ok(err)
		if !strings.Contains(text, "curfew_build_info{goversion=") {
			t.Error("no curfew_build_info")
		}
	}
}
