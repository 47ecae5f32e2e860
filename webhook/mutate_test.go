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

// TestMutate lists the exact patch for each request.
func TestMutate(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, object, old string
		annotationsOnly        bool
		patch                  string
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
		"Job with its own TTL": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 5}}",
			patch: `[{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-source":"object"}}]`},
		"Job with its own source": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/mine}}, spec: {ttlSecondsAfterFinished: 5}}",
			patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"object"}]`},
		"Job with a source and no TTL": {namespace: "plain", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/ci}}}",
			patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1ttl-source"}]`},
		"Job with a source that steals the default's name": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 5}}",
			patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"object"}]`},
		"Job, called again": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 86400}}"},
		"Job by outcome": {namespace: "outcome", object: job,
			patch: `[{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-after-failed":"7d","curfew.dev/ttl-after-succeeded":"1h","curfew.dev/ttl-source":"namespace/outcome"}}]`},
		"Job by outcome, called again": {namespace: "outcome", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/ttl-after-failed: 7d, curfew.dev/ttl-after-succeeded: 1h, curfew.dev/ttl-source: namespace/outcome}}}"},
		"Job, annotations only": {namespace: "ci", object: job, annotationsOnly: true,
			patch: `[{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-after-finished":"1d","curfew.dev/ttl-source":"namespace/ci"}}]`},
		"Job with a deadline": {namespace: "dead", object: job,
			patch: `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":7200},{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/deadline-source":"namespace/dead"}}]`},
		"Job with a deadline, called again": {namespace: "dead", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/deadline-source: namespace/dead}}, spec: {activeDeadlineSeconds: 7200}}"},
		"Job with a forged deadline source": {namespace: "dead", object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {curfew.dev/deadline-source: namespace/dead}}, spec: {activeDeadlineSeconds: 7}}",
			patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1deadline-source"}]`},
		"Job of a CronJob": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: u, controller: true}]}}",
			patch: `[{"op":"add","path":"/spec","value":{"ttlSecondsAfterFinished":86400}},{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-source":"namespace/ci"}}]`},
		"Job of a JobSet":        {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: c, uid: u, controller: true}]}}"},
		"Job of another manager": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {managedBy: kueue.x-k8s.io/multikueue}}"},
		"Pod": {namespace: "pods", object: pod,
			patch: `[{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-after-finished":"2h","curfew.dev/ttl-source":"namespace/pods"}}]`},
		"Pod that restarts":           {namespace: "pods", object: "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}"},
		"Pod of a Job":                {namespace: "pods", object: "{apiVersion: v1, kind: Pod, metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}, spec: {restartPolicy: Never}}"},
		"Job, namespace without":      {namespace: "plain", object: job},
		"Job, dry-run":                {namespace: "dry", object: job},
		"Job, warn":                   {namespace: "soft", object: job, patch: `[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":86400},{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-source":"namespace/soft"}}]`},
		"CronJob":                     {namespace: "ci", object: cronJob},
		"unknown kind":                {namespace: "ci", object: "{apiVersion: example.org/v1, kind: Thing, metadata: {name: a}}"},
		"unknown kind, cluster scope": {object: "{apiVersion: example.org/v1, kind: Thing, metadata: {name: a}}"},
		"Job by server-side apply, with a deletionTimestamp": {namespace: "ci", object: "{apiVersion: batch/v1, kind: Job, metadata: {deletionTimestamp: '2026-08-01T00:00:00Z'}, spec: {}}",
			patch: `[{"op":"add","path":"/spec/ttlSecondsAfterFinished","value":86400},{"op":"add","path":"/metadata/annotations","value":{"curfew.dev/ttl-source":"namespace/ci"}}]`},
		"Job, UPDATE": {namespace: "ci", object: job, old: job},
		"Job, UPDATE of a default": {namespace: "ci",
			old:    "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 86400}}",
			object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, annotations: {curfew.dev/ttl-source: namespace/ci}}, spec: {ttlSecondsAfterFinished: 60}}",
			patch:  `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1ttl-source","value":"object"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.AnnotationsOnly = test.annotationsOnly })
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

func TestMutateAudit(t *testing.T) {
	w := newWorld(t)
	response := w.ask(t, ask{path: PathMutate, namespace: "ci", object: job})
	if got := response.AuditAnnotations; len(got) != 2 || got["decision"] != "defaulted" || got["source"] != "namespace/ci" {
		t.Errorf("audit annotations %v", got)
	}
	if got := w.reviews(t, "mutate", "CREATE", "Job", "defaulted"); got != 1 {
		t.Errorf("%v reviews counted, want 1", got)
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
