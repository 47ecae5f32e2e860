package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
)

// gitOps are manifests by kind, and what an author adds to them, as merge patches. Each edit is
// reverted.
var gitOps = []struct {
	resource, manifest string
	edits              []string
}{
	{"job", `{apiVersion: batch/v1, kind: Job, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}}}`, []string{
		`{spec: {ttlSecondsAfterFinished: 7200}}`, `{metadata: {annotations: {curfew.dev/ttl-after-finished: 2h}}}`, `{metadata: {annotations: {curfew.dev/ttl-after-failed: 2d}}}`,
		`{spec: {activeDeadlineSeconds: 3000}}`, `{metadata: {annotations: {curfew.dev/ttl-after-succeeded: 3h}}, spec: {activeDeadlineSeconds: 9000}}`,
	}},
	{"pod", `{apiVersion: v1, kind: Pod, spec: {restartPolicy: Never, nodeSelector: {e2e: none}, containers: [{name: main, image: "busybox:1.37"}]}}`, []string{
		`{metadata: {annotations: {curfew.dev/ttl-after-finished: 2h}}}`, `{metadata: {annotations: {curfew.dev/ttl-after-failed: 2d}}}`,
	}},
	{"jobset", `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {suspend: true, ` + replicatedJobs + `}}`, []string{
		`{spec: {ttlSecondsAfterFinished: 7200}}`, `{metadata: {annotations: {curfew.dev/ttl-after-failed: 2d}}}`, `{metadata: {annotations: {curfew.dev/active-deadline: 50m}}}`,
	}},
	{"trainjob", `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, spec: {suspend: true, runtimeRef: {kind: TrainingRuntime, name: plain}}}`, []string{
		`{metadata: {annotations: {curfew.dev/ttl-after-finished: 2h}}}`, `{metadata: {annotations: {curfew.dev/ttl-after-succeeded: 3h}}}`,
	}},
	{"cronjob", `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "2 2 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "busybox:1.37"}]}}}}}}`, []string{
		`{spec: {jobTemplate: {spec: {ttlSecondsAfterFinished: 7200, activeDeadlineSeconds: 3000}}}}`, `{spec: {jobTemplate: {metadata: {annotations: {curfew.dev/ttl-after-failed: 2d}}}}}`,
	}},
}

// Edit, revert and apply of a manifest converge, whichever tool applies it, and leave no difference:
// an author's value takes the place of the default, and the default comes back with the revert.
func TestGitOpsConverges(t *testing.T) {
	parallel(t)
	defaults := map[string][]string{
		"constant": {wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultDeadline, "2h", wellknown.AnnotationMaxTTL, "30d"},
		"outcomes": {wellknown.AnnotationDefaultTTLSucceeded, "1h", wellknown.AnnotationDefaultTTLFailed, "7d", wellknown.AnnotationDefaultDeadline, "2h", wellknown.AnnotationMaxTTL, "30d"},
	}
	for _, tool := range []string{"apply", "apply --server-side", "merge patch"} {
		for _, name := range slices.Sorted(maps.Keys(defaults)) {
			t.Run(tool+", "+name, func(t *testing.T) {
				s := newSpace(t, defaults[name]...)
				s.expectSuccess(s.create(s.runtime("TrainingRuntime", "plain")))
				for _, gitOp := range gitOps {
					s.editAndRevert(tool, gitOp.resource, gitOp.manifest, gitOp.edits)
				}
			})
		}
	}
}

func (s *space) editAndRevert(tool, resource, manifest string, edits []string) {
	s.Helper()
	base := s.patched(manifest, fmt.Sprintf("{metadata: {name: a, namespace: %s, annotations: {example.org/a: b}}}", s.name))
	s.sync(tool, resource, base, "")
	given := s.curfewed(resource)
	for _, edit := range edits {
		edited := s.patched(base, edit)
		s.sync(tool, resource, edited, base)
		live := s.expectSuccess(s.kubectl("get", resource, "a", "-o", "json")).stdout
		if s.patched(live, edit) != s.patched(live, "{}") {
			s.Errorf("%s: %s after the edit %s: %v", tool, resource, edit, s.curfewed(resource))
		}
		s.sync(tool, resource, base, edited)
		if now := s.curfewed(resource); !maps.Equal(now, given) {
			s.Errorf("%s: %s after the revert of %s: %v, want %v", tool, resource, edit, now, given)
		}
	}
}

// sync has a tool apply a manifest, and expects no difference then.
func (s *space) sync(tool, resource, manifest, before string) {
	s.Helper()
	var flags []string
	switch {
	case tool != "merge patch":
		flags = strings.Fields(tool)[1:]
		s.expectSuccess(s.kubectlInput(manifest, append([]string{"apply", "-f", "-"}, flags...)...))
	case before == "":
		s.expectSuccess(s.kubectlInput(manifest, "create", "-f", "-"))
		return
	default:
		patch, err := jsonpatch.CreateMergePatch([]byte(before), []byte(manifest))
		s.ok(err)
		s.expectSuccess(s.kubectl("patch", resource, "a", "--type", "merge", "-p", string(patch)))
		return
	}
	s.expectSuccess(s.kubectlInput(manifest, append([]string{"diff", "-f", "-"}, flags...)...))
}

// patched is a manifest with a merge patch, both in YAML, as JSON.
func (s *space) patched(manifest, patch string) string {
	s.Helper()
	var texts [2][]byte
	for i, text := range []string{manifest, patch} {
		var err error
		texts[i], err = yaml.YAMLToJSON([]byte(text))
		s.ok(err)
	}
	out, err := jsonpatch.MergePatch(texts[0], texts[1])
	s.ok(err)
	return string(out)
}

// curfewed is what Curfew may have filled in.
func (s *space) curfewed(resource string) map[string]string {
	s.Helper()
	var object struct {
		Metadata struct{ Annotations map[string]string }
		Spec     map[string]any
	}
	s.ok(json.Unmarshal([]byte(s.expectSuccess(s.kubectl("get", resource, "a", "-o", "json")).stdout), &object))
	out := map[string]string{}
	for key, value := range object.Metadata.Annotations {
		if strings.HasPrefix(key, wellknown.Prefix) {
			out[key] = value
		}
	}
	for _, field := range []string{"ttlSecondsAfterFinished", "activeDeadlineSeconds"} {
		if value, ok := object.Spec[field]; ok {
			out[field] = fmt.Sprint(value)
		}
	}
	return out
}
