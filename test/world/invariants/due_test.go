package invariants_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/world/invariants"
)

func at(clock string) time.Time {
	out, err := time.Parse(time.TimeOnly, clock)
	if err != nil {
		panic(err)
	}
	return out.AddDate(2026, 7, 0)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = utiljson.Unmarshal(content, &out.Object) // Whole numbers become int64.
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	job      = "{kind: Job, metadata: {namespace: ns, name: x, uid: u, resourceVersion: '7', creationTimestamp: '2026-08-01T11:00:00Z', annotations: {%s}}, spec: {%s}, status: {%s}}"
	complete = "conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-08-01T12:00:00Z'}]"
	failed   = "conditions: [{type: Failed, status: 'True', lastTransitionTime: '2026-08-01T12:00:00Z'}]"
	batch    = "{kind: Batch, metadata: {namespace: ns, name: x, uid: u, resourceVersion: '7', creationTimestamp: '2026-08-01T11:00:00Z'}, " +
		"spec: {ttlSeconds: 50, keepSeconds: 60}, status: {outcome: %s, finishedAt: '2026-08-01T12:00:00Z', verifiedAt: '2026-08-01T12:00:05Z'}}"
	profile = "{kind: KindProfile, metadata: {name: p}, spec: {kind: {kind: Batch}, state: {finished: 'has(object.status)%s', finishTime: 'object.?status.?%s'}, fields: {ttl: spec.%s}}}"
)

func jobOf(annotations, spec, status string) string {
	return fmt.Sprintf(job, annotations, spec, status)
}

func podOf(annotations, status string) string {
	return strings.Replace(fmt.Sprintf(job, annotations, "restartPolicy: Never", status), "Job", "Pod", 1)
}

// When an object is due, by itself and by the rules around it.
func TestDue(t *testing.T) {
	const (
		plain    = "{kind: Namespace, metadata: {name: ns, labels: {team: a}}}"
		defaults = "{kind: Namespace, metadata: {name: ns, annotations: {curfew.dev/default-ttl: 30s, curfew.dev/default-pod-ttl: 40s}}}"
		policy   = "{kind: LifecyclePolicy, metadata: {name: p}, spec: {match: {namespaceSelector: {matchLabels: {team: %s}}}, defaults: {ttl: {value: 1m}}}}"
	)
	ttl := "curfew.dev/ttl-after-finished: '10'"
	for name, test := range map[string]struct {
		object, namespace, rule string
		want                    string // the time, or why there is none
	}{
		"annotation":              {jobOf(ttl, "", complete), plain, "", "12:00:10"},
		"days and hours":          {jobOf("curfew.dev/ttl-after-finished: 0d2h", "", complete), plain, "", "14:00:00"},
		"never":                   {jobOf("curfew.dev/ttl-after-finished: never", "", complete), plain, "", "its TTL is never"},
		"unreadable":              {jobOf("curfew.dev/ttl-after-finished: soon", "", complete), plain, "", "its TTL cannot be read"},
		"unfinished":              {jobOf(ttl, "", ""), plain, "", "it has not finished, and it has no TTL label"},
		"protected":               {jobOf(ttl+", curfew.dev/protect: 'yes'", "", complete), plain, "", "it is protected"},
		"native field":            {jobOf("", "ttlSecondsAfterFinished: 20", complete), plain, "", "12:00:20"},
		"its outcome first":       {jobOf(ttl+", curfew.dev/ttl-after-failed: '15'", "", failed), plain, "", "12:00:15"},
		"the other outcome":       {jobOf("curfew.dev/ttl-after-failed: '15'", "", complete), defaults, "", "it has a TTL for the other outcome alone"},
		"nothing":                 {jobOf("", "", complete), plain, "", "it has no TTL"},
		"namespace":               {jobOf("", "", complete), defaults, "", "12:00:30"},
		"namespace, Pod":          {podOf("", "phase: Failed, conditions: [{lastTransitionTime: '2026-08-01T12:00:00Z'}]"), defaults, "", "12:00:40"},
		"object before namespace": {jobOf(ttl, "", complete), defaults, "", "12:00:10"},
		"removed stamp":           {jobOf("curfew.dev/ttl-source: namespace/ns", "", complete), defaults, "", "its stamped TTL was removed"},
		"dry-run":                 {jobOf(ttl, "", complete), "{kind: Namespace, metadata: {name: ns, annotations: {curfew.dev/mode: dry-run}}}", "", "its namespace is in dry-run"},
		"policy":                  {jobOf("", "", complete), plain, fmt.Sprintf(policy, "a"), "12:01:00"},
		"policy of others":        {jobOf("", "", complete), plain, fmt.Sprintf(policy, "b"), "it has no TTL"},
		"init container last": {podOf(ttl, "phase: Succeeded, initContainerStatuses: [{state: {terminated: {finishedAt: '2026-08-01T12:30:00Z'}}}]"),
			plain, "", "12:30:10"},
		"written finish time":   {podOf(ttl+", curfew.dev/finished-at: '2026-08-01T12:00:00Z'", "phase: Failed"), plain, "", "12:00:10"},
		"unknown finish time":   {podOf(ttl, "phase: Failed"), plain, "", "it does not say when it finished"},
		"finished before birth": {jobOf(ttl, "", strings.Replace(complete, "12:00:00", "10:00:00", 1)), plain, "", "11:00:10"},
		"custom":                {fmt.Sprintf(batch, "Failed"), plain, fmt.Sprintf(profile, "", "finishedAt", "ttlSeconds"), "12:00:50"},
		"custom, other fields":  {fmt.Sprintf(batch, "Failed"), plain, fmt.Sprintf(profile, "", "verifiedAt", "keepSeconds"), "12:01:05"},
		"custom, may go on": {fmt.Sprintf(batch, "Failed"), plain, fmt.Sprintf(profile, ` && object.status.outcome != "Failed"`, "finishedAt", "ttlSeconds"),
			"it has not finished, and it has no TTL label"},
	} {
		t.Run(name, func(t *testing.T) {
			judge := &invariants.Judge{Curfew: func(string) bool { return false }}
			add := func(resource, text string) {
				if text != "" {
					object := parse(t, text)
					judge.Add(&invariants.Record{Verb: "create", Resource: resource, Kind: object.GetKind(), Name: object.GetName(), Code: 200, After: object, At: at("10:30:00")})
				}
			}
			add("namespaces", test.namespace)
			add(map[bool]string{true: "kindprofiles", false: "lifecyclepolicies"}[strings.Contains(test.rule, "KindProfile")], test.rule)
			due, got := judge.Due(&invariants.Record{Before: parse(t, test.object), Sent: at("13:00:00"), At: at("13:00:00")})
			if got == "" {
				got = due.Format(time.TimeOnly)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
