package webhook

import (
	"testing"
)

const (
	job     = "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never}}}}"
	pod     = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never}}"
	cronJob = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {template: {spec: {}}}}}}"
)

const ofCI = `{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-source":"namespace/ci"}}`

// TestMutate lists the exact patch where parts of the object are missing, null or forged. The cases
// of testdata show the others.
func TestMutate(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, object, old, patch string
	}{
		"Job, no annotations": {namespace: "ci", object: job,
			patch: `[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":86400},` + ofCI + `]`},
		"Job, generateName, no spec": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {generateName: a-}}",
			patch: `[{"op":"add","path":"/spec","value":{"ttlSecondsAfterFinished":86400}},` + ofCI + `]`},
		"Job, no metadata": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job}",
			patch: `[{"op":"add","path":"/spec","value":{"ttlSecondsAfterFinished":86400}},{"op":"add","path":"/metadata","value":{"annotations":{"curfew.dev/ttl-source":"namespace/ci"}}}]`},
		"Job, null fields": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: null}, spec: {ttlSecondsAfterFinished: null}}",
			patch: `[{"op":"replace","path":"/spec/ttlSecondsAfterFinished","value":86400},` + ofCI + `]`},
		"Job, other annotations": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {a: b}}, spec: {}}",
			patch: `[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":86400},{"op":"add","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"namespace/ci"}]`},
		"Job with a source that steals the default's name": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 5}}",
			patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"object"}]`},
		"Job, called again": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 86400}}"},
		"Job with a forged deadline source": {namespace: "dead", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/deadline-source: namespace/dead}}, spec: {activeDeadlineSeconds: 7}}",
			patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1deadline-source"}]`},
		"unknown kind, cluster scope": {object: "{apiVersion: example.org/v1, kind: Thing, metadata: {name: a}}"},
		"Job, UPDATE of a default": {namespace: "ci",
			old:    "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 86400}}",
			object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 60}}",
			patch:  `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"object"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			response := w.ask(t, ask{path: PathMutate, namespace: test.namespace, object: test.object, old: test.old})
			if !response.Allowed || string(response.Patch) != test.patch {
				t.Errorf("allowed %v, patch\n%s\nwant\n%s", response.Allowed, response.Patch, test.patch)
			}
			if len(response.Warnings) > 0 {
				t.Errorf("the mutating side warns: %q", response.Warnings)
			}
			// Once more, over what became of it.
			again := w.ask(t, ask{path: PathMutate, namespace: test.namespace, object: patchedObject(t, test.object, response), old: test.old})
			if len(again.Patch) > 0 {
				t.Errorf("not idempotent: %s", again.Patch)
			}
			if w.count(t, "curfew_admission_patch_dropped_total") != 0 {
				t.Error("a patch was dropped")
			}
		})
	}
}

// TestUnappliablePatchIsDropped: the API server would answer 500 to it whatever the failure policy.
func TestUnappliablePatchIsDropped(t *testing.T) {
	w := newWorld(t)
	for i, object := range []string{
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: none}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: [1]}",
		"{apiVersion: batch/v1, kind: Job, metadata: 7}",
	} {
		response := w.ask(t, ask{path: PathMutate, namespace: "ci", object: object})
		if !response.Allowed || len(response.Patch) > 0 || response.PatchType != nil {
			t.Errorf("%s: allowed %v, patch %s", object, response.Allowed, response.Patch)
		}
		if got := w.count(t, "curfew_admission_patch_dropped_total"); got != float64(i+1) {
			t.Errorf("%s: %v dropped, want %d", object, got, i+1)
		}
	}
}

// TestStaleCache: a Job that is created right after its namespace was annotated gets the default,
// at the price of one read.
func TestStaleCache(t *testing.T) {
	marked := "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/protect: 'true'}}}"
	for name, test := range map[string]struct {
		path, namespace, object string
		reads                   int
		patched                 bool
	}{
		"Job in a namespace that the cache knows without defaults": {PathMutate, "plain", job, 1, true},
		"Job in a namespace that the cache does not know":          {PathMutate, "new", job, 1, true},
		"Job with a key may come from anywhere":                    {PathMutate, "plain", marked, 0, false},
		"Job in a namespace in use":                                {PathMutate, "ci", job, 0, true},
		"Pod in a namespace in use for Jobs alone":                 {PathMutate, "bounded", pod, 0, true},
		"Pod in a namespace with bounds":                           {PathMutate, "limits", pod, 1, true},
		"validated":                                                {PathValidate, "plain", job, 1, false},
		"validated, not cached":                                    {PathValidate, "new", marked, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.namespaces.cached["limits"] = map[string]string{"curfew.dev/max-ttl": "1d"}
			w.namespaces.live = map[string]map[string]string{
				"plain": {"curfew.dev/default-ttl": "1d"}, "new": {"curfew.dev/default-ttl": "1d"}, "limits": {"curfew.dev/default-ttl": "1d"},
			}
			response := w.ask(t, ask{path: test.path, namespace: test.namespace, object: test.object})
			if w.namespaces.liveReads != test.reads || (len(response.Patch) > 0) != test.patched {
				t.Errorf("%d live reads and patch %s, want %d and %v", w.namespaces.liveReads, response.Patch, test.reads, test.patched)
			}
		})
	}
}
