package e2e

import "testing"

// An object with a great many annotations is held to a policy whose condition
// looks through all of them. The API server gives up on a webhook after seconds, and then admits
// the object.
func TestHostileEvaluations(t *testing.T) {
	s := newSpace(t)
	s.policy("retention", `kinds: [{group: batch, kind: Job}], matchConditions: [{name: exempt,
		expression: "!has(object.metadata.annotations) || !object.metadata.annotations.exists(k, k.startsWith('exempt.example.com/'))"}]`, `bounds: {minTTL: 1d}`)
	s.eventually(row{job("small", native(0)), warned("spec.ttlSecondsAfterFinished: 0 (0s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more") + "\n" + denied("validate-marked.curfew.dev",
		`spec.ttlSecondsAfterFinished: 0 (0s) is below minTTL 1d of policy "`+s.name+`-retention": use 1d or more`)})
	s.refusesHostile("TTL 0 among 40,000 annotations", s.creation(s.jobsPath(), job("crowded", native(0), crowded(40_000))), "spec.ttlSecondsAfterFinished")
	exempt := job("exempt", native(0), byTest, crowded(40_000), annotated("exempt.example.com/a", ""))
	if got := s.send(s.creation(s.jobsPath()+"?dryRun=All", exempt)); got.refused() {
		t.Errorf("an exempt Job: %s", got)
	}
}
