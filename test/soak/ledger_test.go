package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scene is a ledger with a namespace, and a Job in it that finished 20 seconds ago.
type scene struct {
	*ledger
	revision int64
	by       *evidence
	told     *announcements
}

const (
	jobKey       = "/registry/jobs/soak-x/one"
	namespaceKey = "/registry/namespaces/soak-x"
)

func (s *scene) put(key, format string, args ...any) {
	s.revision++
	s.apply([]etcdEvent{{KV: kv{Key: []byte(key), Value: fmt.Appendf(nil, format, args...), ModRevision: s.revision}}})
}

// job writes the Job: with a TTL in seconds, and more metadata.
func (s *scene) job(ttl int, more string) {
	s.put(jobKey, `{"kind": "Job", "metadata": {"namespace": "soak-x", "name": "one", "uid": "u"%s}, "spec": {"ttlSecondsAfterFinished": %d},
"status": {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "%s"}]}}`, more, ttl, stamp(time.Now().Add(-20*time.Second)))
}

func (s *scene) mode(mode string) {
	s.put(namespaceKey, `{"kind": "Namespace", "metadata": {"name": "soak-x", "annotations": {"curfew.dev/mode": "%s"}}}`, mode)
}

// removed removes the Job now. Curfew's DELETE was received a while before that, and named a UID
// and a resourceVersion.
func (s *scene) removed(before time.Duration, uid types.UID, version string) {
	s.revision++
	s.apply([]etcdEvent{{Type: "DELETE", KV: kv{Key: []byte(jobKey), ModRevision: s.revision}}})
	a := accepted{name: "jobs soak-x/one", received: time.Now().Add(-before), wanted: metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	s.by.log.accepted[uid] = append(s.by.log.accepted[uid], a)
}

// What etcd and the audit log show is judged by the invariants.
func TestSentence(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(s *scene)
		want string // the beginning of each fault
	}{
		"as it should be":   {func(s *scene) { s.job(20, ""); s.removed(0, "u", "2") }, ""},
		"early":             {func(s *scene) { s.job(21, ""); s.removed(0, "u", "2") }, "S1"},
		"by an older state": {func(s *scene) { s.job(20, ""); s.job(20, ""); s.removed(0, "u", "2") }, "S1"},
		"without a UID":     {func(s *scene) { s.job(20, ""); s.removed(0, "", "2") }, "S2"},
		"of another UID":    {func(s *scene) { s.job(20, ""); s.removed(0, "v", "2") }, "S2"},
		"twice": {func(s *scene) {
			s.job(20, "")
			s.removed(0, "u", "2")
			s.by.log.accepted["u"] = append(s.by.log.accepted["u"], s.by.log.accepted["u"]...)
		}, "S7"},
		"forgotten":              {func(s *scene) { s.job(10, "") }, "S3"},
		"a finalizer is removed": {func(s *scene) { s.job(99, `, "finalizers": ["a/b"]`); s.job(99, "") }, "S5"},
		"the writer removes it":  {func(s *scene) { s.told.add("finalizer", "u"); s.job(99, `, "finalizers": ["a/b"]`); s.job(99, "") }, ""},
		"the writer's deletion": {func(s *scene) {
			s.told.add("delete", "u")
			s.job(99, "")
			s.removed(0, "u", "2")
			clear(s.by.log.accepted)
		}, ""},
		"the audit log is torn":   {func(s *scene) { s.job(20, ""); s.removed(0, "u", "2"); clear(s.by.log.accepted) }, ""},
		"dry-run a second before": {func(s *scene) { s.job(10, ""); s.mode("dry-run"); time.Sleep(time.Second); s.removed(0, "u", "2") }, ""},
		"dry-run long before":     {func(s *scene) { s.job(10, ""); s.mode("dry-run"); time.Sleep(3 * time.Second); s.removed(0, "u", "2") }, "S1"},
		"dry-run in an outage": {func(s *scene) {
			s.job(10, "")
			s.mode("dry-run")
			s.by.disrupted = []disruption{{"", time.Now(), time.Now().Add(5 * time.Second)}}
			time.Sleep(6 * time.Second)
			s.removed(0, "u", "2")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{ledger: newLedger()}
				s.told = &announcements{times: map[string]time.Time{}}
				s.by = &evidence{log: &audit{accepted: map[types.UID][]accepted{}}, told: s.told, troubled: func(string) bool { return false }}
				s.mode("enforce")
				test.do(s)
				s.by.end = time.Now()
				faults := s.sentence(s.by).faults
				if len(s.problems) > 0 || (len(faults) > 0) != (test.want != "") {
					t.Errorf("faults %q and problems %q, want %q", faults, s.problems, test.want)
				}
				for _, fault := range faults {
					if !strings.HasPrefix(fault, test.want+":") {
						t.Errorf("fault %q, want %q", fault, test.want)
					}
				}
			})
		})
	}
}
