package house

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// What the test suites of Curfew's neighbours assert about deadlines and training jobs, and which
// tests of ours do. The names are package.Test; tests of test/e2e that begin with TestPeers run
// beside the real controllers of JobSet and Trainer.
var expectations = map[string][]string{
	// kubernetes test/integration/job and test/e2e/apps
	"Job deadline: exceeded, active Pods end with reason DeadlineExceeded":  {"e2e.TestDefaultDeadlineOfJobsIsCarriedOut", "e2e.TestDeadlineOfAnInventedKind"},
	"Job deadline: expires before any Pod started, failed all the same":     {"e2e.TestDefaultDeadlineOfJobsIsCarriedOut", "e2e.TestPeersDeadlineBeforeAnyPodStarted"},
	"Job deadline: suspended, only Suspended is True":                       {"e2e.TestDefaultDeadlineOfJobsIsCarriedOut", "e2e.TestPeersSuspendAndResume"},
	"Job deadline: never before the deadline":                               {"e2e.TestDefaultDeadlineOfJobsIsCarriedOut", "judging.TestJudgeDeadline", "e2e.TestPeersDeadlineExceeded"},
	"Job deadline: suspend and resume, start time set again":                {"e2e.TestDefaultDeadlineOfJobsIsCarriedOut", "e2e.TestPeersSuspendAndResume"},
	"Job deadline: a finished Job keeps its verdict":                        {"judging.TestJudgeDeadline", "e2e.TestDeadlineOfAnInventedKind"},
	"JobSet: completed 10s ago, TTL 5, deleted; 2s ago, again in 3s":        {"policy.TestJudge", "e2e.TestJobSetVanishesAtItsSecond"},
	"JobSet: TTL set but unfinished, kept; of two only the one with a TTL":  {"e2e.TestJobSetVanishesAtItsSecond"},
	"JobSet: a deadline, which it has no field for":                         {"e2e.TestPeersJobSetDeadline"},
	"TrainJob deadline: 1s, Failed/DeadlineExceeded and the JobSet is gone": {"e2e.TestPeersDeadlineExceeded", "e2e.TestPeersDeadlineBeforeAnyPodStarted"},
	"TrainJob deadline: 3600s, nothing within the window":                   {"e2e.TestPeersDeadlineExceeded"},
	"TrainJob deadline: created suspended, 1s, never":                       {"e2e.TestPeersCreatedSuspended"},
	"TrainJob deadline: created suspended, then resumed, fails":             {"e2e.TestPeersCreatedSuspended"},
	"TrainJob deadline: managedBy another controller, nothing at all":       {"e2e.TestPeersManagedByAnother", "judging.TestJudgeDeadline"},
	"TrainJob deadline: zero, negative and boolean are refused":             {"e2e.TestTrainJobDeadlineValues", "webhook.TestGolden"},
	"TrainJob deadline: neither added, changed nor removed":                 {"e2e.TestTrainJobDeadlineIsImmutable"},
	"TrainJob TTL: from the runtime, deleted after expiry":                  {"e2e.TestPeersRuntimeTTL"},
	"TrainJob TTL: not set, kept":                                           {"e2e.TestPeersRuntimeTTL"},
	"TrainJob TTL: 0, at once after completion":                             {"e2e.TestPeersRuntimeTTL"},
	"TrainJob TTL: not yet due, again when due":                             {"e2e.TestPeersRuntimeTTL", "e2e.TestPeersRuntimeChanges"},
	"TrainJob TTL: clock skew, again after 1s, never a negative wait":       {"engine.TestGuard", "policy.TestJudge", "e2e.TestFinishTimeInTheFuture"},
	"TrainJob TTL: deletion cascades to owned objects":                      {"e2e.TestPeersRuntimeTTL"},
	"TrainJob TTL: controller restart, timers resume, nothing forgotten":    {"e2e.TestPeersBothAreKilled"},
	"TrainJob TTL: suspended job that finishes, TTL counts from the finish": {"e2e.TestPeersSuspendedJobThatFinishes"},
	"TrainJob TTL: the runtime is edited, or gone":                          {"e2e.TestPeersRuntimeChanges", "e2e.TestRuntimeIsReadLive"},
}

// If you rename or remove one of these tests, say here which test takes its place.
func TestEveryExpectationHasATest(t *testing.T) {
	known := map[string]bool{}
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, declaration := range s.file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil {
				known[s.file.Name.Name+"."+function.Name.Name] = true
				known[path.Base(path.Dir(s.path))+"."+function.Name.Name] = true
			}
		}
	}
	for line, tests := range expectations {
		if len(tests) == 0 {
			t.Errorf("%s: no test shows it", line)
		}
		for _, name := range tests {
			if !known[name] {
				t.Errorf("%s: there is no test %s", line, name)
			}
		}
	}
}
