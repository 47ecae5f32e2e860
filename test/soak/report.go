package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is the run in Markdown.
func (s *soak) report(v *verdicts) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "| %s, seed %d | |\n|---|---|\n", s.began.UTC().Format("2006-01-02"), s.seed)
	row("objects", "%d, and %d that took the name of another", len(s.fleet), v.lives-len(s.fleet)-1)
	row("expired within", "%s, one in seven of them in %s after that, and one in %s without outages", s.window, s.window/3, max(s.window/3, quietWindow))
	row("changes by the second writer", "%d", s.writer.done.Load())
	counts := map[string]int{}
	for _, d := range s.chaos.record {
		counts[d.name]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		row(name, "%d", counts[name])
	}
	starts, cuts := 0, 0
	for _, r := range s.replicas {
		began, _, cut := r.counts()
		starts, cuts = starts+began, cuts+cut
	}
	for i, n := range s.deletes.counts {
		row("DELETEs that the soak's webhook "+answerNames[i], "%d", n)
	}
	row("namespaces put into dry-run for a while", "%d", s.flips.Load())
	row("changes of the KindProfile", "%d", s.corrections.Load())
	row("connections broken", "%d", cuts)
	row("starts of a controller", "%d", starts)
	row("deleted by Curfew", "%d, %d of them by a default that was resolved live", v.deletions, v.live)
	row("deleted by the second writer", "%d", v.byWriter)
	row("still there, and not due", "%d", v.remaining-len(v.forgotten))
	row("**early**", "**%d** (a deletion is dated to within %s)", len(v.early), v.grain.Round(time.Millisecond))
	row("**wrong**", "**%d**", len(v.wrong))
	row("**forgotten**", "**%d**", len(v.forgotten))
	row("lateness, outages included", "%s", spread(v.lateness))
	row("lateness where nothing was broken in the 5s before", "%s", spread(v.calm))
	row("lateness where the soak's webhook refused or delayed a DELETE", "%s", spread(v.troubled))
	if a, err := readAudit(s.cluster.Log("audit")); err == nil {
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(a.codes)) {
			codes = append(codes, fmt.Sprintf("%d: %d", code, a.codes[code]))
		}
		row("answers to Curfew's DELETEs", "%s", strings.Join(codes, ", "))
		var kinds []string
		for _, request := range slices.Sorted(maps.Keys(a.requests)) {
			if n := a.requests[request]; n >= v.deletions/100 {
				kinds = append(kinds, fmt.Sprintf("%s %.2f", request, float64(n)/float64(max(1, v.deletions))))
			}
		}
		row("requests a deletion", "%s", strings.Join(kinds, ", "))
	}
	row("most memory of a controller", "%d MiB", s.peak.Load()>>20)
	if s.attack != nil {
		row("attackers", "%d, with %d policies and forged reports each; %d DELETEs of theirs were answered 429", len(tenants), s.attack.size, s.attack.throttle.gave(denyThrottled))
	}
	row("took", "%s, of which %s after the last thing was mended", s.settled.Sub(s.began).Round(time.Second), s.settled.Sub(s.mended).Round(time.Second))
	return b.String()
}

func spread(sorted []time.Duration) string {
	if len(sorted) == 0 {
		return "none"
	}
	at := func(share float64) time.Duration { return quantile(sorted, share) }
	return fmt.Sprintf("p50 %s, p99 %s, at most %s (%d)", at(.5), at(.99), at(1), len(sorted))
}

func quantile(sorted []time.Duration, share float64) time.Duration {
	return sorted[int(share*float64(len(sorted)-1))].Round(time.Millisecond)
}

// failure is an error where anything was not as it has to be. A few examples of each are named.
func (s *soak) failure(v *verdicts) error {
	var errs []error
	few := func(what string, list []string) {
		if len(list) > 0 {
			errs = append(errs, fmt.Errorf("%d %s:\n  %s", len(list), what, strings.Join(list[:min(len(list), 10)], "\n  ")))
		}
	}
	few("were deleted early", v.early)
	few("were deleted wrongly", v.wrong)
	few("were forgotten", v.forgotten)
	few("do not go away, though no finalizer is left", s.ledger.terminating())
	few("problems of the ledger, which make it worthless", s.ledger.problems)
	a, err := readAudit(s.cluster.Log("audit"))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	few("DELETEs did not name what they deleted", a.check(s.ledger))
	few("requests were refused by RBAC", a.refused(s.chaos.record))
	// A soak in which nothing was put to the test is none.
	if v.deletions < len(s.fleet)/4 || len(v.lateness) == 0 || (len(s.chaos.record) == 0) != s.compared || s.compared && len(v.calm) == 0 {
		errs = append(errs, fmt.Errorf("only %d objects were deleted by Curfew, with %d disruptions: nothing was tried", v.deletions, len(s.chaos.record)))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w\nlogs are in %s", errors.Join(errs...), s.cluster.Dir)
}
