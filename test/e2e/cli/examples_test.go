package cli

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
)

var (
	commandName = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)
	exampleLine = regexp.MustCompile(`(?m)^  ([a-z].*)$`)
)

// TestExamplesRun: every line that stands as an example in the help of a command does what it says
// there.
func TestExamplesRun(t *testing.T) {
	w := laid(t)
	// What they name, beside the fixture.
	kubectl(t, "create job train --image busybox")
	kubectl(t, "annotate namespace ci curfew.dev/max-ttl-") // One of them keeps a Job for good.
	kubectl(t, `run demo --image busybox --labels app=demo --restart Never --overrides '{"spec":{"schedulerName":"none"}}'`)
	_, rest, _ := strings.Cut(kubectl(t, "curfew --help").stdout, "\nLook:\n")
	list, _, _ := strings.Cut(rest, "\nFlags:")
	commands := commandName.FindAllStringSubmatch(list, -1)
	if len(commands) < 8 {
		t.Fatalf("found commands %q", commands)
	}
	// Some write files.
	dir, total := t.TempDir(), 0
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	// What convert reads.
	for from, to := range map[string]string{"rules.yaml": "rules.yaml", "pods.yaml": "kyverno/pods.yaml"} {
		text, err := os.ReadFile(filepath.Join(suite.root, "cmd/kubectl-curfew/testdata/convert", from))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cleanupExamples(t, dir)
	for _, command := range append(commands, []string{"", ""}) {
		help := kubectl(t, "curfew "+command[1]+" --help").stdout
		_, rest, ok := strings.Cut(help, "\nExamples:\n")
		if !ok {
			if command[1] != "help" {
				t.Errorf("%s has no examples", command[1])
			}
			continue
		}
		for _, found := range exampleLine.FindAllStringSubmatch(before(rest), -1) {
			total++
			text := found[1]
			t.Run(text, func(t *testing.T) {
				if resumed, ok := strings.CutPrefix(text, "kubectl curfew resume"); ok {
					kubectl(t, "curfew pause --reason examples --name '"+strings.TrimSpace(resumed)+"'")
				}
				got := typed(t, line{text: asTyped(text), dir: dir})
				if got.code != 0 {
					t.Errorf("exit status %d\n%s%s", got.code, got.stdout, got.stderr)
				}
				if strings.HasSuffix(text, "-o policy | kubectl apply -f -") { // The account has all rights that it needs.
					if got := kubectl(t, "curfew preview unused"); strings.Contains(got.stdout+got.stderr, "may not") {
						t.Error(got.stdout, got.stderr)
					}
					kubectl(t, "delete clustercleanuppolicy unused")
				}
				if strings.HasPrefix(text, "kubectl curfew pause") {
					kubectl(t, "curfew resume --all")
				}
				if strings.HasPrefix(text, "kubectl curfew expire-now job/build") {
					w.gone(t, "jobs", "ci", "build")
					w.job(t, finishedJob("ci", "build", time.Now(), -1)) // Others speak of it.
				}
			})
		}
	}
	if total < 25 {
		t.Errorf("only %d examples were found", total)
	}
}

// cleanupExamples makes what the examples about cleanup policies and PodTallies name: the policy
// nightly with reports of two runs, files of policies, and the tally prow-builds.
func cleanupExamples(t *testing.T, dir string) {
	t.Helper()
	from := os.DirFS(filepath.Join(suite.root, "cmd/kubectl-curfew/testdata"))
	for source, target := range map[string]string{"cleanup": "policies", "cleanup/cluster": "cluster"} {
		files, err := fs.Sub(from, source)
		if err == nil {
			err = os.CopyFS(filepath.Join(dir, target), files)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	policy, err := fs.ReadFile(from, "cleanup/nightly.yaml")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "nightly.yaml"), policy, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := fs.ReadFile(from, "cluster/cleanup.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Curfew's controller alone writes statuses and reports.
	const byController = " --as=system:serviceaccount:curfew-system:curfew-controller --as-group=system:masters"
	create := func(text string, flags ...string) {
		t.Helper()
		// kubectl 1.32 takes what begins with a brace for JSON.
		if got := typed(t, line{text: "kubectl create -f -" + strings.Join(flags, ""), stdin: "---\n" + text}); got.code != 0 {
			t.Fatalf("%s\n%s", got.stderr, text)
		}
	}
	create(`{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: nightly}, spec: {schedule: "0 2 1 1 *", approval: Required,
  matchConstraints: {resourceRules: [{apiGroups: [apps], resources: [deployments]}]}}}`)
	create(`{apiVersion: curfew.dev/v1alpha1, kind: PodTally, metadata: {name: prow-builds, namespace: ci}, spec: {selector: {matchLabels: {created-by-prow: "true"}}}}`)
	var nightly unstructured.Unstructured
	if err := json.Unmarshal([]byte(kubectl(t, "get clustercleanuppolicy nightly -o json").stdout), &nightly); err != nil {
		t.Fatal(err)
	}
	uid := string(nightly.GetUID())
	compiled, errs, _ := cleanup.Read(expression.NewCompiler(expression.DefaultCacheSize), &nightly)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, document := range strings.Split(string(recorded), "\n---\n") {
		if strings.Contains(document, "kind: ClusterCleanupReport") {
			create(strings.ReplaceAll(document, "5f0f4c1e-2d0f-4c39-9f5a-6a4f6e1f4b7a", uid), byController)
		}
	}
	kubectl(t, `patch clustercleanuppolicy nightly --subresource=status --type=merge`+byController+` -p '{"status": {"observedGeneration": 1, "specHash": "`+compiled.Hash+`", `+
		`"lastRun": {"id": "20261224-0200-5f0f4c1e", "phase": "Completed", "generation": 1, "dryRun": true, "pages": 1, "listed": 40, "matched": 3, `+
		`"scheduledTime": "2026-12-24T02:00:00Z", "startTime": "2026-12-24T02:00:01Z", "completionTime": "2026-12-24T02:00:02Z"}}}'`)
}

// before is what stands before the next heading of a help.
func before(help string) string {
	var out strings.Builder
	for text := range strings.Lines(help) {
		if text != "\n" && !strings.HasPrefix(text, " ") {
			break
		}
		out.WriteString(text)
	}
	return out.String()
}

// exampleHash stands in the examples for the hash of policy nightly.
const exampleHash = "fbf17f48946f2405e1004da9688a7e20"

// asTyped is an example as the test runs it: told yes where it would ask, and with an end where it
// would go on.
func asTyped(text string) string {
	for _, changing := range []string{"kubectl curfew extend ", "kubectl curfew keep ", "kubectl curfew expire-now ", "kubectl curfew approve "} {
		if rest, ok := strings.CutPrefix(text, changing); ok && !strings.Contains(text, "--dry-run") && !strings.Contains(text, "--yes") {
			text = changing + "--yes " + rest
		}
	}
	if strings.HasPrefix(text, "kubectl curfew approve ") && !strings.Contains(text, "--spec-hash") {
		text += " --spec-hash " + exampleHash
	}
	// The other tests need the installation. Package lifecycle removes one.
	if strings.HasPrefix(text, "kubectl curfew uninstall") && !strings.Contains(text, "--dry-run") {
		text += " --dry-run"
	}
	if strings.Contains(text, "--watch") {
		text = "timeout --preserve-status -s INT 2 " + text
	}
	text = strings.Replace(text, exampleHash, "$(kubectl get clustercleanuppolicy nightly -o jsonpath={.status.specHash})", 1)
	// The cluster of the tests has no Kyverno.
	text = strings.Replace(text, "kubectl get deletingpolicies,clustercleanuppolicies,policyexceptions.policies.kyverno.io -A -o yaml", "cat kyverno/*.yaml", 1)
	if strings.HasPrefix(text, "source ") || strings.Contains(text, "<(") {
		text = `bash -c "` + text + `"`
	}
	return text
}
