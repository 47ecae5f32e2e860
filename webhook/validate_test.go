package webhook

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestValidate has what the cases of testdata do not: an object without most of its fields, several
// findings at once, and findings of an UPDATE that were there before.
func TestValidate(t *testing.T) {
	const empty = "metadata: {annotations: {}, labels: null}, spec: null, status: {}"
	for name, test := range map[string]struct {
		namespace, user, object, old string
		denied                       string
		fields, warnings             []string
	}{
		"short, by a service account": {namespace: "plain", user: robot, object: own("0"),
			warnings: []string{"curfew: spec.ttlSecondsAfterFinished: 0 (0s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"two at once": {namespace: "bounded", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/protect: maybe}}, spec: {ttlSecondsAfterFinished: 5}}",
			denied: `metadata.annotations[curfew.dev/protect]: "maybe" is neither "true" nor "false": use one of them; ` +
				`spec.ttlSecondsAfterFinished: 5 (5s) is below curfew.dev/min-ttl 1h of namespace "bounded": use 1h or more`,
			fields: []string{"metadata.annotations[curfew.dev/protect]", "spec.ttlSecondsAfterFinished"},
			warnings: []string{"curfew: spec.ttlSecondsAfterFinished: the Job's own controller deletes by this field, whatever curfew.dev/protect says: remove one",
				"curfew: spec.ttlSecondsAfterFinished: 5 (5s) is under 60s: the Job may be deleted before anyone reads its logs; use 60s or more"}},
		"UPDATE under a rule that refuses":   {namespace: "bounded", old: own("864000"), object: strings.Replace(own("864000"), "name: a", "name: a, labels: {x: y}", 1)},
		"UPDATE of a template, already bad":  {namespace: "plain", old: inTemplate, object: strings.Replace(inTemplate, "spec: {", "spec: {suspend: true, ", 1)},
		"UPDATE of an object being deleted":  {namespace: "bounded", old: own("3600"), object: strings.Replace(own("1"), "name: a", "name: a, deletionTimestamp: '2026-08-01T00:00:00Z'", 1)},
		"UPDATE of a kind without a profile": {namespace: "ci", old: "{apiVersion: example.org/v1, kind: Thing}", object: "{apiVersion: example.org/v1, kind: Thing}"},
		"nothing but a kind":                 {namespace: "plain", object: "{apiVersion: batch/v1, kind: Job}"},
		"nothing but a kind, Pod":            {namespace: "pods", object: "{apiVersion: v1, kind: Pod}"},
		"nothing but a kind, CronJob":        {namespace: "ci", object: "{apiVersion: batch/v1, kind: CronJob}"},
		"in the scope of the cluster":        {object: "{apiVersion: example.org/v1, kind: Thing, metadata: {annotations: {curfew.dev/protect: 'true'}}}"},
		"an empty spec":                      {namespace: "plain", object: "{apiVersion: batch/v1, kind: Job, " + empty + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			response := w.ask(t, ask{path: PathValidate, namespace: test.namespace, user: test.user, object: test.object, old: test.old})
			if response.Allowed != (test.denied == "") || response.Result.Message != test.denied {
				t.Errorf("allowed %t, denied with\n%s\nwant\n%s", response.Allowed, response.Result.Message, test.denied)
			}
			if !slices.Equal(response.Warnings, test.warnings) || len(response.Patch) > 0 {
				t.Errorf("patch %s, warnings\n%q\nwant\n%q", response.Patch, response.Warnings, test.warnings)
			}
			if fields := deniedFields(t, response); !slices.Equal(fields, test.fields) {
				t.Errorf("fields %q, want %q", fields, test.fields)
			}
		})
	}
}

// deniedFields are the fields of a denial, which has the form of one.
func deniedFields(t *testing.T, response *admissionv1.AdmissionResponse) (fields []string) {
	t.Helper()
	if response.Allowed {
		return nil
	}
	if response.Result.Code != http.StatusForbidden || response.Result.Reason != metav1.StatusReasonForbidden {
		t.Errorf("denied with %d %s", response.Result.Code, response.Result.Reason)
	}
	for _, cause := range response.Result.Details.Causes {
		fields = append(fields, cause.Field)
		if cause.Type != metav1.CauseTypeFieldValueInvalid || cause.Message == "" {
			t.Errorf("cause %+v", cause)
		}
	}
	return fields
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
