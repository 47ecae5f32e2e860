package webhook

import (
	"slices"
	"strings"
	"testing"
)

// TestValidate holds the very words that people read.
func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, user, object, old string
		denied                       string
		fields                       []string
		warnings                     []string
		decision, rules, source      string
	}{
		"default announced": {namespace: "ci", object: defaulted,
			warnings: []string{`curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "ci"`},
			decision: "defaulted", source: "namespace/ci"},
		"default, service account": {namespace: "ci", user: robot, object: defaulted, decision: "defaulted", source: "namespace/ci"},
		"default, controller":      {namespace: "ci", user: "system:kube-controller-manager", object: defaulted, decision: "defaulted", source: "namespace/ci"},
		"default as annotation": {namespace: "pods", object: "{apiVersion: v1, kind: Pod, metadata: {annotations: {curfew.dev/ttl-after-finished: 2h, curfew.dev/ttl-source: namespace/pods}}, spec: {restartPolicy: Never}}",
			warnings: []string{`curfew: curfew.dev/ttl-after-finished defaulted to 2h from namespace "pods"`},
			decision: "defaulted", source: "namespace/pods"},
		"default deadline": {namespace: "dead", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/deadline-source: namespace/dead}}, spec: {activeDeadlineSeconds: 7200}}",
			warnings: []string{`curfew: activeDeadlineSeconds defaulted to 7200 (2h) from namespace "dead"`}, decision: "defaulted"},
		"default in dry-run": {namespace: "dry", object: job,
			warnings: []string{`curfew: ttlSecondsAfterFinished would be defaulted to 86400 (1d) from namespace "dry" (dry-run)`},
			decision: "allowed", source: "namespace/dry"},
		"own TTL": {namespace: "ci", object: own("3600"), decision: "allowed", source: "object"},
		"no TTL":  {namespace: "bounded", user: robot, object: own("null"), decision: "allowed", source: "namespace/bounded"},
		"short": {namespace: "plain", object: own("5"), decision: "allowed", rules: "short-ttl", source: "object",
			warnings: []string{"curfew: spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"short, by a service account": {namespace: "plain", user: robot, object: own("0"), decision: "allowed", rules: "short-ttl", source: "object",
			warnings: []string{"curfew: spec.ttlSecondsAfterFinished: 0 (0s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"TTL in a Job's pod template": {namespace: "plain", object: inTemplate, decision: "denied", rules: "pod-template-ttl",
			denied: "spec.template.metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished",
			fields: []string{"spec.template.metadata.annotations[curfew.dev/ttl-after-finished]"}},
		"TTL in a CronJob's pod template": {namespace: "plain", object: "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-failed: 1h}}}}}}}",
			decision: "denied", rules: "pod-template-ttl",
			denied: "spec.jobTemplate.spec.template.metadata.annotations[curfew.dev/ttl-after-failed]: a pod template cannot have a TTL: set spec.jobTemplate.spec.ttlSecondsAfterFinished",
			fields: []string{"spec.jobTemplate.spec.template.metadata.annotations[curfew.dev/ttl-after-failed]"}},
		"TTL in a Deployment's pod template": {namespace: "plain", object: "{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}",
			decision: "denied", rules: "pod-template-ttl",
			denied: "spec.template.metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: remove it; what a Deployment runs does not finish",
			fields: []string{"spec.template.metadata.annotations[curfew.dev/ttl-after-finished]"}},
		"short TTL in a CronJob's Job template": {namespace: "plain", object: "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {ttlSecondsAfterFinished: 5}}}}",
			decision: "allowed", rules: "short-ttl",
			warnings: []string{"curfew: spec.jobTemplate.spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"Pod with Always": {namespace: "plain", object: "{apiVersion: v1, kind: Pod, metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {restartPolicy: Always}}",
			decision: "denied", rules: "pod-restart-policy", source: "object",
			denied: "spec.restartPolicy: a Pod with a TTL cannot have Always (absent means Always), as it never finishes: use OnFailure or Never",
			fields: []string{"spec.restartPolicy"}},
		"Pod without restartPolicy": {namespace: "plain", object: "{apiVersion: v1, kind: Pod, metadata: {annotations: {curfew.dev/ttl-after-failed: 1h}}}",
			decision: "denied", rules: "pod-restart-policy", source: "object",
			denied: "spec.restartPolicy: a Pod with a TTL cannot have Always (absent means Always), as it never finishes: use OnFailure or Never",
			fields: []string{"spec.restartPolicy"}},
		"unreadable": {namespace: "plain", object: annotated("soon"), decision: "denied", rules: "readable-value", source: "object",
			denied: `metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`,
			fields: []string{"metadata.annotations[curfew.dev/ttl-after-finished]"}},
		"above the bound": {namespace: "bounded", object: own("864000"), decision: "denied", rules: "bounds", source: "object",
			denied: `spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "bounded": use 7d or less`,
			fields: []string{"spec.ttlSecondsAfterFinished"}},
		"above the bound, warn": {namespace: "soft", object: own("864000"), decision: "allowed", rules: "bounds", source: "object",
			warnings: []string{`curfew: spec.ttlSecondsAfterFinished: would be refused (mode warn): 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "soft": use 7d or less`}},
		"above the bound, dry-run": {namespace: "dry", object: own("864000"), decision: "allowed", rules: "bounds", source: "object",
			warnings: []string{`curfew: spec.ttlSecondsAfterFinished: would be refused (mode dry-run): 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "dry": use 7d or less`}},
		"two at once": {namespace: "bounded", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/protect: maybe}}, spec: {ttlSecondsAfterFinished: 5}}",
			decision: "denied", rules: "readable-value,bounds,native-acts-first,short-ttl", source: "object",
			denied: `metadata.annotations[curfew.dev/protect]: "maybe" is neither "true" nor "false": use one of them; ` +
				`spec.ttlSecondsAfterFinished: 5 (5s) is below curfew.dev/min-ttl 1h of namespace "bounded": use 1h or more`,
			fields: []string{"metadata.annotations[curfew.dev/protect]", "spec.ttlSecondsAfterFinished"},
			warnings: []string{"curfew: spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one",
				"curfew: spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},

		"UPDATE that touches nothing bad":     {namespace: "bounded", old: own("7200"), object: own("3600"), decision: "allowed", source: "object"},
		"UPDATE under a rule that refuses":    {namespace: "bounded", old: own("864000"), object: strings.Replace(own("864000"), "name: a", "name: a, labels: {x: y}", 1), decision: "allowed", source: "object"},
		"UPDATE of a template, already bad":   {namespace: "plain", old: inTemplate, object: strings.Replace(inTemplate, "spec: {", "spec: {suspend: true, ", 1), decision: "allowed"},
		"UPDATE that makes it bad":            {namespace: "bounded", old: own("864000"), object: own("864001"), decision: "denied", rules: "bounds", source: "object", fields: []string{"spec.ttlSecondsAfterFinished"}, denied: `spec.ttlSecondsAfterFinished: 864001 (10d1s) is above curfew.dev/max-ttl 7d of namespace "bounded": use 7d or less`},
		"UPDATE that takes the value":         {namespace: "bounded", old: defaulted, object: strings.Replace(defaulted, "86400", "null", 1), decision: "denied", rules: "removed-default", fields: []string{"spec.ttlSecondsAfterFinished"}, denied: "spec.ttlSecondsAfterFinished: cannot be removed while curfew.dev/max-ttl 7d of namespace \"bounded\" applies: set it to 7d or less", source: "object"},
		"UPDATE of an object being deleted":   {namespace: "bounded", old: own("3600"), object: strings.Replace(own("1"), "name: a", "name: a, deletionTimestamp: '2026-08-01T00:00:00Z'", 1)},
		"UPDATE announces no default":         {namespace: "ci", old: defaulted, object: strings.Replace(defaulted, "name: a", "name: a, labels: {x: y}", 1), decision: "allowed", source: "namespace/ci"},
		"UPDATE of a kind without a profile":  {namespace: "ci", old: "{apiVersion: example.org/v1, kind: Thing}", object: "{apiVersion: example.org/v1, kind: Thing}", decision: "allowed"},
		"CREATE of nothing but a kind":        {namespace: "plain", object: "{apiVersion: batch/v1, kind: Job}", decision: "allowed"},
		"CREATE of nothing but a kind, Pod":   {namespace: "pods", object: "{apiVersion: v1, kind: Pod}", decision: "allowed"},
		"CREATE of nothing but a kind, cron":  {namespace: "ci", object: "{apiVersion: batch/v1, kind: CronJob}", decision: "allowed"},
		"CREATE in the scope of the cluster":  {object: "{apiVersion: example.org/v1, kind: Thing, metadata: {annotations: {curfew.dev/protect: 'true'}}}", decision: "allowed"},
		"CREATE with an empty spec and so on": {namespace: "plain", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {}, labels: null}, spec: null, status: {}}", decision: "allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			response := w.ask(t, ask{path: PathValidate, namespace: test.namespace, user: test.user, object: test.object, old: test.old})
			if response.Allowed != (test.denied == "") {
				t.Errorf("allowed: %v", response.Allowed)
			}
			if response.Result.Message != test.denied {
				t.Errorf("denied with\n%s\nwant\n%s", response.Result.Message, test.denied)
			}
			if !slices.Equal(response.Warnings, test.warnings) {
				t.Errorf("warnings\n%q\nwant\n%q", response.Warnings, test.warnings)
			}
			if len(response.Patch) > 0 {
				t.Errorf("the validating side patches: %s", response.Patch)
			}
			var fields []string
			if test.denied != "" {
				if response.Result.Code != 403 || response.Result.Reason != "Forbidden" {
					t.Errorf("denied with %d %s", response.Result.Code, response.Result.Reason)
				}
				for _, cause := range response.Result.Details.Causes {
					fields = append(fields, cause.Field)
					if cause.Type != "FieldValueInvalid" || cause.Message == "" {
						t.Errorf("cause %+v", cause)
					}
				}
			}
			if !slices.Equal(fields, test.fields) {
				t.Errorf("fields %q, want %q", fields, test.fields)
			}
			got := response.AuditAnnotations
			if got["decision"] != test.decision || got["rules"] != test.rules || got["source"] != test.source {
				t.Errorf("audit annotations %v, want %s, %s, %s", got, test.decision, test.rules, test.source)
			}
			for key := range got {
				if strings.Contains(key, "/") {
					t.Errorf("the API server drops audit annotation %q", key)
				}
			}
		})
	}
}

const (
	defaulted  = "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 86400}}"
	inTemplate = "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}"
)

func own(seconds string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: " + seconds + "}}"
}

func annotated(value string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: " + value + "}}}"
}

// TestWarningsFitTheirHeader: the API server drops a warning with control characters without a
// word.
func TestWarningsFitTheirHeader(t *testing.T) {
	w := newWorld(t)
	w.namespaces.cached["odd"] = map[string]string{"curfew.dev/default-ttl": "1\n2\x00" + strings.Repeat("é", 500)}
	response := w.ask(t, ask{path: PathValidate, namespace: "odd", object: job})
	if len(response.Warnings) == 0 {
		t.Fatal("no warning of a default that cannot be read")
	}
	for _, warning := range response.Warnings {
		if strings.ContainsAny(warning, "\n\x00") || len(warning) > 256 || !strings.HasPrefix(warning, "curfew: ") {
			t.Errorf("warning of %d bytes: %q", len(warning), warning)
		}
	}
	response = w.ask(t, ask{path: PathValidate, namespace: "plain", object: annotated(`"a\n` + strings.Repeat("x", 100000) + `"`)})
	if response.Allowed || len(response.Result.Message) > 2048 || strings.Contains(response.Result.Message, "\n") {
		t.Errorf("denied with %d bytes", len(response.Result.Message))
	}
}

func TestOneLine(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"as it is":              {"curfew: fine", "curfew: fine"},
		"control characters":    {"a\nb\tc\x7f", "a b c "},
		"line separators":       {"a\u2028b", "a b"},
		"invalid UTF-8":         {"a\xffb", "a b"},
		"cut":                   {"0123456789abcdef!", "0123456789abc..."},
		"not within a rune":     {"0123456789abéé!!", "0123456789ab..."},
		"just not cut":          {"0123456789abcdef", "0123456789abcdef"},
		"invalid UTF-8 and cut": {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "             ..."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := oneLine(test.in, 16); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
