package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func TestRuntimeTTL(t *testing.T) {
	runtimePolicy := &resolution.RuntimePolicy{Name: "torch", TTL: lifetime.TTLSet{All: &lifetime.Setting{Text: "1d", TTL: lifetime.TTL{After: 24 * time.Hour}}}}
	request := Request{Scope: &resolution.Scope{Runtime: runtimePolicy}}
	equal(t, judge(runtimeTTL, trainJob, request, nil, object("TrainJob", nil, "ttl-after-finished", "1h")),
		[]string{"warning " + at("ttl-after-finished") + `: 1h is ignored: runtime "torch" sets 1d; remove it`})
	equal(t, judge(runtimeTTL, trainJob, request, nil, object("TrainJob", nil, "ttl-after-finished", "24h")), nil)
	equal(t, judge(runtimeTTL, trainJob, Request{}, nil, object("TrainJob", nil, "ttl-after-finished", "1h")), nil)
	// What another cluster's manager answers for has no runtime here.
	copied := object("TrainJob", nil, "ttl-after-finished", "1h")
	copied["metadata"].(map[string]any)["labels"] = map[string]any{wellknown.LabelMultiKueueOrigin: "hub"}
	equal(t, judge(runtimeTTL, trainJob, request, nil, copied), nil)
}
