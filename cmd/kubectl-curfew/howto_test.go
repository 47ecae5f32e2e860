package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

var (
	yamlBlock  = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	labelOrSet = regexp.MustCompile(`(?m)^kubectl (?:label|annotate) .*curfew\.dev/(?:ttl|mode|backfill|ttl-after-finished)=.*$`)
)

// howTo are the how-to pages, and the manifests that they show in full.
func howTo(t *testing.T) (text string, manifests []string) {
	t.Helper()
	names, _ := filepath.Glob("../../docs/how-to-*.md")
	for _, name := range names {
		page, err := os.ReadFile(name)
		must(t, err)
		text += string(page)
	}
	for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
		for _, document := range strings.Split(block[1], "---\n") {
			if strings.Contains(document, "apiVersion:") {
				manifests = append(manifests, document)
			}
		}
	}
	if len(manifests) < 10 {
		t.Fatalf("only %d manifests", len(manifests))
	}
	return text, manifests
}

// TestHowToManifestsAreWhole: the API server and Curfew's admission take them as printed.
func TestHowToManifestsAreWhole(t *testing.T) {
	_, manifests := howTo(t)
	for _, manifest := range manifests {
		var header metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(manifest), &header); err != nil {
			t.Fatalf("%v:\n%s", err, manifest)
		}
		if header.Kind == "CleanupTest" {
			continue
		}
		var template *corev1.PodTemplateSpec
		var err error
		switch header.Kind {
		case "Job":
			var job batchv1.Job
			err, template = yaml.UnmarshalStrict([]byte(manifest), &job), &job.Spec.Template
		case "CronJob":
			var cronJob batchv1.CronJob
			err, template = yaml.UnmarshalStrict([]byte(manifest), &cronJob), &cronJob.Spec.JobTemplate.Spec.Template
			if cronJob.Spec.Schedule == "" {
				t.Errorf("no schedule:\n%s", manifest)
			}
		}
		if err != nil || header.Name == "" || template != nil && (len(template.Spec.Containers) == 0 || template.Spec.RestartPolicy == "") {
			t.Errorf("kubectl create would refuse this (%v):\n%s", err, manifest)
		}
		code, stdout, stderr, _ := execute(t, scene{stdin: manifest}, "lint", "-f", "-")
		expectExit(t, "lint of a manifest in the how-to", code, console.ExitOK, stdout+stderr+manifest)
	}
}

// TestHowToCleanupTestPasses runs the test that the page shows, with the policy that it shows.
func TestHowToCleanupTestPasses(t *testing.T) {
	_, manifests := howTo(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for _, manifest := range manifests {
		switch {
		case strings.Contains(manifest, "kind: CleanupTest"):
			write("preview-config-test.yaml", manifest)
		case strings.Contains(manifest, "name: preview-config\n"):
			write("preview-config.yaml", manifest)
		}
	}
	write("testdata/config.yaml", `{apiVersion: v1, kind: Namespace, metadata: {name: web-ci, labels: {team: web}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: preview-1, namespace: web-ci, creationTimestamp: "2026-12-01T00:00:00Z"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: preview-2, namespace: web-ci, creationTimestamp: "2026-12-23T00:00:00Z"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: preview-3, namespace: web-ci, creationTimestamp: "2026-12-01T00:00:00Z", annotations: {curfew.dev/protect: "true"}}}
`)
	code, stdout, stderr, _ := execute(t, scene{}, "test", dir)
	expectExit(t, "curfew test", code, console.ExitOK, stdout+stderr)
}

// TestHowToOverwrites: a reader may have set the same label or annotation before, by another part
// of the page.
func TestHowToOverwrites(t *testing.T) {
	text, _ := howTo(t)
	lines := labelOrSet.FindAllString(text, -1)
	if len(lines) < 5 {
		t.Fatalf("only %q", lines)
	}
	for _, line := range lines {
		expectPart(t, "line", line, "--overwrite", true)
	}
}
