package monitoring_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	minute = 60.0
	hour   = 60 * minute
	// simulated is how long each alert is watched.
	simulated = 12 * hour
)

func flat(v float64) curve      { return func(float64) float64 { return v } }
func perMinute(v float64) curve { return func(at float64) float64 { return v * at / minute } }

// during is one curve for a while in the middle of the simulation, else another.
func during(length float64, then, otherwise curve) curve {
	return func(at float64) float64 {
		if at >= hour && at < hour+length {
			return then(at)
		}
		return otherwise(at)
	}
}

// bump is a counter that grows by one once.
func bump(at float64) float64 {
	if at < hour {
		return 0
	}
	return 1
}

var away curve = flat(math.NaN())

// healthy is a cluster in which all is well.
func healthy() world {
	return world{
		`curfew_tracked_objects{group="batch",kind="Job",pod="a"}`:                                                                  flat(100),
		`curfew_tracked_objects{group="batch",kind="Job",pod="b"}`:                                                                  flat(0),
		`curfew_delete_concurrency{pod="a"}`:                                                                                        flat(8),
		`leader_election_master_status{name="curfew-controller",pod="a"}`:                                                           flat(1),
		`leader_election_master_status{name="curfew-controller",pod="b"}`:                                                           flat(0),
		`curfew_feed_synced{group="batch",kind="Job",purpose="ttl",pod="a"}`:                                                        flat(1),
		`curfew_feed_incomplete_seconds{group="batch",kind="Job",purpose="ttl",pod="a"}`:                                            flat(0),
		`curfew_label_kinds_skipped{group="",kind="Secret",reason="permission",pod="a"}`:                                            flat(1),
		`curfew_overdue_objects{pod="a"}`:                                                                                           flat(0),
		`curfew_oldest_overdue_seconds{pod="a"}`:                                                                                    flat(0),
		`curfew_stuck_objects{pod="a"}`:                                                                                             flat(0),
		`curfew_blocked_objects{reason="DeleteRefused",pod="a"}`:                                                                    flat(0),
		`curfew_paused_scopes{class="clock",pod="a"}`:                                                                               flat(0),
		`curfew_paused_scopes{class="namespace",pod="a"}`:                                                                           flat(0),
		`curfew_clock_skew_seconds{pod="a"}`:                                                                                        flat(.1),
		`curfew_clock_skew_uncertainty_seconds{pod="a"}`:                                                                            flat(1),
		`curfew_deletion_attempts_total{trigger="ttl",group="batch",kind="Job",result="deleted",pod="a"}`:                           perMinute(10),
		`curfew_deletion_attempts_total{trigger="ttl",group="batch",kind="Job",result="conflict",pod="a"}`:                          perMinute(1),
		`curfew_deletion_attempts_total{trigger="ttl",group="batch",kind="Job",result="refused",pod="a"}`:                           flat(3),
		`curfew_deletion_lateness_seconds_bucket{trigger="ttl",group="batch",kind="Job",le="0.1",pod="a"}`:                          perMinute(10),
		`curfew_deletion_lateness_seconds_bucket{trigger="ttl",group="batch",kind="Job",le="60",pod="a"}`:                           perMinute(10),
		`curfew_deletion_lateness_seconds_bucket{trigger="ttl",group="batch",kind="Job",le="300",pod="a"}`:                          perMinute(10),
		`curfew_deletion_lateness_seconds_bucket{trigger="ttl",group="batch",kind="Job",le="+Inf",pod="a"}`:                         perMinute(10),
		`curfew_unusable_values_total{group="batch",kind="Job",level="object",pod="a"}`:                                             flat(7),
		`curfew_coverage_errors_total{pod="a"}`:                                                                                     flat(2),
		`curfew_admission_reviews_total{webhook="mutate",operation="CREATE",group="batch",kind="Job",decision="defaulted",pod="w"}`: perMinute(10),
		`curfew_admission_reviews_total{webhook="mutate",operation="CREATE",group="batch",kind="Job",decision="allowed",pod="w"}`:   perMinute(1000),
		`curfew_admission_reviews_total{webhook="mutate",operation="CREATE",group="batch",kind="Job",decision="error",pod="w"}`:     perMinute(1),
		`curfew_admission_patch_dropped_total{pod="w"}`:                                                                             flat(0),
		`curfew_admission_policy_errors_total{pod="w"}`:                                                                             flat(0),
		`curfew_admission_duration_seconds_bucket{webhook="mutate",le="0.001",pod="w"}`:                                             perMinute(1000),
		`curfew_admission_duration_seconds_bucket{webhook="mutate",le="0.5",pod="w"}`:                                               perMinute(1000),
		`curfew_admission_duration_seconds_bucket{webhook="mutate",le="1",pod="w"}`:                                                 perMinute(1000),
		`curfew_admission_duration_seconds_bucket{webhook="mutate",le="+Inf",pod="w"}`:                                              perMinute(1000),
		`curfew_certificate_expiry_timestamp_seconds{pod="w"}`:                                                                      flat(60 * 24 * hour),
	}
}

// with replaces the series of the metrics that it names.
func (w world) with(change world) world {
	out := maps.Clone(w)
	for name := range change {
		metric, _, _ := strings.Cut(name, "{")
		maps.DeleteFunc(out, func(old string, _ curve) bool {
			is, _, _ := strings.Cut(old, "{")
			return is == metric
		})
	}
	maps.Copy(out, change)
	return out
}

// fires reports whether an alert fires at any time: its query has had a result for as long as it
// demands.
func fires(t *testing.T, a alert, in world) bool {
	t.Helper()
	var needs time.Duration
	if a.For != "" {
		var err error
		if needs, err = time.ParseDuration(a.For); err != nil {
			t.Fatal(err)
		}
	}
	since := map[string]float64{}
	for at := 0.0; at < simulated; at += minute {
		now := map[string]float64{}
		for _, s := range evaluate(a.Expr, in, at) {
			now[key(s.labels)] = at
			if before, ok := since[key(s.labels)]; ok {
				now[key(s.labels)] = before
			}
			if at-now[key(s.labels)] >= needs.Seconds() {
				return true
			}
		}
		since = now
	}
	return false
}

const (
	attempts  = `curfew_deletion_attempts_total{trigger="ttl",group="batch",kind="Job",result=`
	reviews   = `curfew_admission_reviews_total{webhook="mutate",operation="CREATE",group="batch",kind="Job",decision=`
	lateness  = `curfew_deletion_lateness_seconds_bucket{trigger="ttl",group="batch",kind="Job",le=`
	durations = `curfew_admission_duration_seconds_bucket{webhook="mutate",le=`
)

// alertCases are, for each alert, a world in which it fires, and one that comes close.
var alertCases = map[string]struct{ bad, good world }{
	"CurfewControllerAbsent": {
		world{`curfew_delete_concurrency{pod="a"}`: during(10*minute, away, flat(1))},
		world{`curfew_delete_concurrency{pod="a"}`: during(3*minute, away, flat(1))},
	},
	"CurfewLeaderMissing": {
		world{`leader_election_master_status{name="curfew-controller",pod="a"}`: during(10*minute, flat(0), flat(1))},
		world{`leader_election_master_status{name="curfew-controller",pod="a"}`: during(2*minute, flat(0), flat(1))},
	},
	"CurfewFeedsIdle": {
		world{`curfew_tracked_objects{pod="a"}`: flat(0), attempts + `"deleted",pod="a"}`: flat(9)},
		world{`curfew_tracked_objects{pod="a"}`: flat(0)},
	},
	"CurfewFeedNotSynced": {
		world{`curfew_feed_incomplete_seconds{group="",kind="Pod",purpose="ttl"}`: during(10*minute, flat(600), flat(0))},
		world{`curfew_feed_incomplete_seconds{group="",kind="Pod",purpose="ttl"}`: during(3*minute, flat(600), flat(0))},
	},
	"CurfewKindsSkipped": {
		world{`curfew_kinds_skipped{group="example.com",kind="Render",reason="permission"}`: flat(1)},
		world{`curfew_label_kinds_skipped{group="",kind="Secret",reason="permission"}`: flat(1)}, // so by default
	},
	"CurfewObjectsOverdue": {
		world{`curfew_overdue_objects{pod="a"}`: flat(5), `curfew_oldest_overdue_seconds{pod="a"}`: flat(2000), attempts + `"deleted",pod="a"}`: flat(9)},
		world{`curfew_overdue_objects{pod="a"}`: flat(5), `curfew_oldest_overdue_seconds{pod="a"}`: flat(2000)}, // others are deleted
	},
	"CurfewDrainSlow": {
		world{`curfew_oldest_overdue_seconds{pod="a"}`: flat(7 * hour), `curfew_overdue_objects{pod="a"}`: flat(1)},
		world{`curfew_overdue_objects{pod="a"}`: flat(500), `curfew_oldest_overdue_seconds{pod="a"}`: flat(10 * minute)}, // busy all day, and not late
	},
	"CurfewDeletionsLate": {
		world{lateness + `"60"}`: perMinute(9), lateness + `"300"}`: perMinute(10), lateness + `"+Inf"}`: perMinute(10)},
		world{
			lateness + `"60"}`: perMinute(999), lateness + `"300"}`: perMinute(1000), lateness + `"+Inf"}`: perMinute(1000),
			// What a cleanup policy deletes is due since its run began, which may take long.
			strings.Replace(lateness, "ttl", "cleanup", 1) + `"60"}`: flat(0), strings.Replace(lateness, "ttl", "cleanup", 1) + `"300"}`: perMinute(1000), strings.Replace(lateness, "ttl", "cleanup", 1) + `"+Inf"}`: perMinute(1000),
		},
	},
	"CurfewDeletionsPaused": {
		world{`curfew_paused_scopes{class="namespace"}`: flat(1)},
		world{`curfew_paused_scopes{class="namespace"}`: during(5*minute, flat(1), flat(0)), `curfew_paused_scopes{class="clock"}`: flat(1)},
	},
	"CurfewDeletionsRefused": {
		world{attempts + `"refused"}`: perMinute(1)},
		world{attempts + `"conflict"}`: perMinute(100), attempts + `"refused"}`: bump},
	},
	"CurfewObjectsStuck": {
		world{`curfew_stuck_objects{pod="a"}`: flat(1)},
		world{`curfew_stuck_objects{pod="a"}`: during(30*minute, flat(1), flat(0))},
	},
	"CurfewObjectsBlocked": {
		world{`curfew_blocked_objects{reason="DeleteRefused"}`: flat(1)},
		world{`curfew_blocked_objects{reason="DeleteRefused"}`: during(30*minute, flat(1), flat(0))},
	},
	"CurfewCleanupStalled": {
		world{`curfew_cleanup_stalled_policies{namespace="ci",reason="Forbidden"}`: flat(1)},
		world{ // An approval is expected, or an admin has corrected the policy.
			`curfew_cleanup_stalled_policies{namespace="ci",reason="WaitingForApproval"}`: flat(1),
			`curfew_cleanup_stalled_policies{reason="TooManyMatches"}`:                    during(20*minute, flat(1), away),
		},
	},
	"CurfewCleanupCountsInexact": {
		world{`curfew_cleanup_objects_total{result="Lost",pod="a"}`: bump},
		world{`curfew_cleanup_objects_total{result="Deleted",pod="a"}`: perMinute(9), `curfew_cleanup_objects_total{result="Lost",pod="a"}`: flat(9)},
	},
	"CurfewTallyFailing": {
		world{`curfew_tally_request_failures_total{step="count",pod="a"}`: perMinute(1)},
		world{`curfew_tally_request_failures_total{step="count",pod="a"}`: bump}, // it is sent again
	},
	"CurfewTallyStatusEdited": {
		world{`curfew_tally_status_edits_total{pod="a"}`: bump},
		world{`curfew_tally_status_edits_total{pod="a"}`: flat(3)}, // long ago
	},
	"CurfewClockPaused": {
		world{`curfew_paused_scopes{class="clock",pod="a"}`: during(5*minute, flat(1), flat(0))},
		world{`curfew_paused_scopes{class="namespace",pod="a"}`: flat(1)},
	},
	"CurfewClockSkew": {
		world{`curfew_clock_skew_seconds{pod="a"}`: flat(-3)},
		world{`curfew_clock_skew_seconds{pod="a"}`: flat(3), `curfew_clock_skew_uncertainty_seconds{pod="a"}`: flat(4)}, // it is not proven
	},
	"CurfewUnusableValues": {
		world{`curfew_unusable_values_total{group="batch",kind="Job",level="object"}`: perMinute(.1)},
		world{`curfew_unusable_values_total{group="batch",kind="Job",level="object"}`: bump},
	},
	"CurfewPolicyErrors": {
		world{`curfew_admission_policy_errors_total{pod="w"}`: perMinute(.1)},
		world{`curfew_admission_policy_errors_total{pod="w"}`: bump},
	},
	"CurfewCoverageErrors": {
		world{`curfew_coverage_errors_total{pod="a"}`: perMinute(1)},
		world{`curfew_coverage_errors_total{pod="a"}`: bump},
	},
	"CurfewWebhookAbsent": {
		world{`curfew_admission_patch_dropped_total{pod="w"}`: during(10*minute, away, flat(0))},
		world{`curfew_admission_patch_dropped_total{pod="w"}`: during(3*minute, away, flat(0))},
	},
	"CurfewCertificateExpires": {
		world{`curfew_certificate_expiry_timestamp_seconds{pod="w"}`: flat(7 * 24 * hour)},
		world{`curfew_certificate_expiry_timestamp_seconds{pod="w"}`: flat(7*24*hour + simulated)},
	},
	"CurfewAdmissionErrors": {
		world{reviews + `"allowed"}`: perMinute(100), reviews + `"error"}`: perMinute(2)},
		world{reviews + `"allowed"}`: perMinute(1000), reviews + `"error"}`: perMinute(2)},
	},
	"CurfewAdmissionPatchDropped": {
		world{`curfew_admission_patch_dropped_total{pod="w"}`: bump},
		world{`curfew_admission_patch_dropped_total{pod="w"}`: flat(1)}, // long ago
	},
	"CurfewAdmissionSlow": {
		world{durations + `"0.5"}`: perMinute(90), durations + `"1"}`: perMinute(100), durations + `"+Inf"}`: perMinute(100)},
		world{durations + `"0.5"}`: perMinute(999), durations + `"1"}`: perMinute(1000), durations + `"+Inf"}`: perMinute(1000)},
	},
}

// TestAlertsFire: each alert fires in a cluster with its fault, and in no other.
func TestAlertsFire(t *testing.T) {
	all := alerts(t)
	for name := range alertCases {
		if !slices.ContainsFunc(all, func(a alert) bool { return a.Alert == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
	for _, a := range all {
		t.Run(a.Alert, func(t *testing.T) {
			c, ok := alertCases[a.Alert]
			switch {
			case !ok:
				t.Error("no case")
			case fires(t, a, healthy()):
				t.Error("fires in a healthy cluster")
			case !fires(t, a, healthy().with(c.bad)):
				t.Error("does not fire")
			case fires(t, a, healthy().with(c.good)):
				t.Error("fires where it should be silent")
			}
		})
	}
}
