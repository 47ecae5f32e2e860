package rules

import (
	"fmt"
	"strings"
	"testing"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestUnknownKey(t *testing.T) {
	no := func(field, fix string) string {
		return "warning " + field + ": is not a key of Curfew, and has no effect: " + fix
	}
	ns := func(key string) map[string]any {
		return map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "ci", "annotations": map[string]any{wellknown.Prefix + key: "1d"}}}
	}
	misspelt := map[string]any{"curfew.dev/tlt-after-finished": "1h"}
	run(t, unknownKey, map[string]row{
		"letters swapped":  {object: ns("defualt-ttl"), want: []string{no(at("defualt-ttl"), "did you mean annotation curfew.dev/default-ttl?")}},
		"a letter missing": {object: job().Annotation("curfew.dev/ttl-after-finishd", "1h").Map(), want: []string{no(at("ttl-after-finishd"), "did you mean annotation curfew.dev/ttl-after-finished?")}},
		"another word":     {object: job().Annotation("curfew.dev/ttl-after-failure", "1h").Map(), want: []string{no(at("ttl-after-failure"), "did you mean annotation curfew.dev/ttl-after-failed?")}},
		"a label":          {object: job().Label("curfew.dev/tll", "1h").Map(), want: []string{no("metadata.labels[curfew.dev/tll]", "did you mean label curfew.dev/ttl?")}},
		"nothing is near":  {object: job().Annotation("curfew.dev/owner", "me").Map(), want: []string{no(at("owner"), "remove it, or correct its name")}},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").JobAnnotation("curfew.dev/protcet", "true").Map(),
			want: []string{no("spec.jobTemplate."+at("protcet"), "did you mean annotation curfew.dev/protect?")}},
		"known, and others' keys": {object: job().Annotation(wellknown.AnnotationTTL, "1h").Annotation(wellknown.AnnotationTTLSource, "object").Annotation("example.com/tlt", "x").Label("curfew.development/ttl", "x").Map()},
		"unchanged":               {old: job().Annotation("curfew.dev/tlt", "1h").Map(), object: job().Annotation("curfew.dev/tlt", "1h").TTL(90).Map()},
		"changed":                 {old: job().Annotation("curfew.dev/tlt", "1h").Map(), object: job().Annotation("curfew.dev/tlt", "2h").Map(), want: []string{no(at("tlt"), "did you mean label curfew.dev/ttl?")}},
		"an odd map":              {object: map[string]any{"kind": "Job", "metadata": map[string]any{"annotations": misspelt["x"], "labels": []any{}}}},
	})
}

// TestNearest: each key that people write is found with any one letter missing, and none is found
// for what has little in common with all of them.
func TestNearest(t *testing.T) {
	for _, key := range writtenKeys {
		name := strings.TrimPrefix(key, wellknown.Prefix)
		for i := range name {
			if got := nearest(wellknown.Prefix + name[:i] + name[i+1:]); !strings.HasSuffix(got, " "+key) {
				t.Errorf("%s without letter %d: %q", key, i, got)
			}
		}
	}
	for _, name := range []string{"", "x", "owner", "team-name", "description", strings.Repeat("ttl", 21)} {
		if got := nearest(wellknown.Prefix + name); got != "" {
			t.Errorf("%q is near %s", name, got)
		}
	}
}

// TestUnknownKeysAreBounded: what an object holds does not buy a slow review (S9).
func TestUnknownKeysAreBounded(t *testing.T) {
	keys := map[string]any{}
	for i := range 50000 {
		keys[fmt.Sprintf("%s%s%d", wellknown.Prefix, strings.Repeat("ttl-", 14), i)] = "1h"
	}
	keys[wellknown.Prefix+strings.Repeat("x", 1<<20)] = "1h"
	jobs := make([]any, 20000)
	for i := range jobs {
		jobs[i] = map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"curfew.dev/ttl-after-finishd": "1h"}}}}
	}
	many := &policy.Profile{Name: "many", Templates: []policy.Template{{Path: fieldpath.MustFieldPath("spec.jobs[*].template"), Profile: policy.JobProfile}}}
	object := map[string]any{"metadata": map[string]any{"annotations": keys}, "spec": map[string]any{"jobs": jobs}}
	if got := judge(unknownKey, many, Request{}, nil, object); len(got) != maxUnknown {
		t.Errorf("%d findings, want %d", len(got), maxUnknown)
	}
}
