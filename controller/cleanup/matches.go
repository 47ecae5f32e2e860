package cleanup

import (
	"context"
	"slices"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// matchesPerPage is how many matches a report page has at most: they take 300 kB. Tests make it
// smaller.
var matchesPerPage = 25_000

// matched reads in how many runs in a row objects have matched before this one. A run that begins
// to read objects too late leaves no matches: the next one would find the same objects soon after.
func (r *run) matched(ctx context.Context) (cleanup.Matched, error) {
	now, err := r.c.options.ServerTime(ctx)
	if err != nil {
		return nil, err
	}
	due := r.info.ScheduledTime.Time
	r.late = now.Sub(due) > r.policy.Schedule.Next(due).Sub(due)/2
	left := r.ledger.status().Matches
	if left != nil && left.Run != runID(left.ScheduledTime.Time, r.policy.UID) {
		// Set back in a forged status, or else this run would count on from its own matches.
		return nil, nil
	}
	return r.policy.ReadMatched(left, due, func(number int32) ([]byte, error) {
		fields, err := r.ledger.store.readPage(ctx, matchesName(r.policy.Name, left.Run, number))
		if fields == nil || err != nil {
			return nil, err
		}
		return fields.Matched, nil
	})
}

// writeMatches writes the matches of this run on pages. The pages of the run before stay until the
// status names these: a run that is interrupted reads them again, and so counts nothing twice.
func (r *run) writeMatches(ctx context.Context) (*v1alpha1.CleanupMatches, error) {
	if r.survey.Matches == nil || r.late {
		return nil, nil
	}
	text := r.survey.Matches.Encode()
	out := &v1alpha1.CleanupMatches{
		Run: r.info.ID, ScheduledTime: r.info.ScheduledTime, SpecHash: r.policy.Hash, SHA256: cleanup.SumMatches(text),
	}
	for page := range slices.Chunk(text, matchesPerPage*cleanup.MatchSize) {
		out.Pages++
		fields := &v1alpha1.CleanupReportFields{
			Policy: v1alpha1.PolicyReference{Name: r.policy.Name, UID: r.policy.UID}, Run: r.info.ID, Page: out.Pages, Matched: page,
		}
		if err := r.ledger.store.writePage(ctx, matchesName(r.policy.Name, r.info.ID, out.Pages), fields, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func matchesName(policy, run string, number int32) string {
	return pageName(policy, "matched-"+run, number)
}
