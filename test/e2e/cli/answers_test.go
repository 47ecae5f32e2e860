package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

var update = flag.Bool("update", false, "write the golden files again")

// goldens are command lines that read, by the names of their golden files, with their exit status.
var goldens = map[string]struct {
	line string
	code int
}{
	"expiring":          {line: "kubectl curfew expiring -A"},
	"expiring-wide":     {line: "kubectl curfew expiring -A -o wide"},
	"expiring-name":     {line: "kubectl curfew expiring -n foo -o name"},
	"expiring-names":    {line: "kubectl curfew expiring -A -o name", code: 2},
	"expiring-here":     {line: "kubectl curfew expiring"},
	"expiring-kinds":    {line: "kubectl curfew expiring deploy,job.batch clusterroles -A"},
	"expiring-cluster":  {line: "kubectl curfew expiring clusterroles -n foo"},
	"expiring-labels":   {line: "kubectl curfew expiring -A -l app=web"},
	"expiring-deadline": {line: "kubectl curfew expiring -A --trigger deadline"},
	"expiring-nothing":  {line: "kubectl curfew expiring -n ci --within 1m"},
	"expiring-unknown":  {line: "kubectl curfew expiring gadgets", code: 2},
	"expiring-past":     {line: "kubectl curfew expiring --before 9am"},

	// Each level of precedence.
	"explain-runtime":  {line: "kubectl curfew explain trainjob/tune -n lab"},
	"explain-object":   {line: "kubectl curfew explain job/outcomes -n foo"},
	"explain-policy":   {line: "kubectl curfew explain job/survey -n lab"},
	"explain-label":    {line: "kubectl curfew explain cm/demo"},
	"explain-deadline": {line: "kubectl curfew explain job/active -n ci"},
	"explain-never":    {line: "kubectl curfew explain job/kept -n foo"},
	"explain-nothing":  {line: "kubectl curfew explain cm/plain"},
	// Each thing that can stand in the way; the breaker and the controller's own dry-run are in
	// obstacles_test.go.
	"explain-finalizer":   {line: "kubectl curfew explain pvc/data -n foo"},
	"explain-terminating": {line: "kubectl curfew explain secret/stuck -n foo"},
	"explain-owner":       {line: "kubectl curfew explain replicaset/web-1 -n foo"},
	"explain-protected":   {line: "kubectl curfew explain job/protected -n foo"},
	"explain-system":      {line: "kubectl curfew explain cm/system -n kube-system"},
	"explain-own":         {line: "kubectl curfew explain deployment/curfew-controller -n curfew-system"},
	"explain-permission":  {line: "kubectl curfew explain service/legacy -n foo"},
	"explain-dry-run":     {line: "kubectl curfew explain job/report -n dry"},
	"explain-missing":     {line: "kubectl curfew explain job/nowhere -n ci", code: 2},

	"extend-refused":   {line: "kubectl curfew extend job/build -n ci --by 30d", code: 1},
	"extend-client":    {line: "kubectl curfew extend job/build -n ci --by 1d --dry-run=client"},
	"extend-server":    {line: "kubectl curfew extend job/build -n ci --by 1d --dry-run=server"},
	"extend-many":      {line: "kubectl curfew extend cm -l app=demo --by 1d --dry-run=server"},
	"extend-unasked":   {line: "kubectl curfew extend cm -l app=demo --by 1d", code: 2},
	"expire-now":       {line: "kubectl curfew expire-now deployments --all -n foo --dry-run=server"},
	"expire-protected": {line: "kubectl curfew expire-now job/protected -n foo", code: 1},
	"keep":             {line: "kubectl curfew keep cm -l app=demo --dry-run=server"},
	"keep-refused":     {line: "kubectl curfew keep job/build -n ci", code: 1},
	"explain-file":     {line: "kubectl curfew explain -f job.yaml"},
	"explain-offline":  {line: "kubectl curfew explain -f job.yaml --offline"},
	"defaults":         {line: "kubectl curfew defaults ci"},
	"defaults-missing": {line: "kubectl curfew defaults nowhere", code: 2},
	"unknown-command":  {line: "kubectl curfew explode", code: 2},
}

// questions are those that the command line is there to answer, in the order of the help of
// expiring.
var questions = []string{
	"What is deleted in the next 6 hours?",
	"Which Deployments are deleted by 5pm today?",
	"What is deleted in namespace foo between now and Friday 5pm?",
	"What has a TTL over 7 days?",
	"What expires in May?",
	"What would this policy delete now, if it were applied?",
	"Why does this object have this expiry, and what blocks it?",
}

var example = regexp.MustCompile(`(?m)^  # (.*)\n  (kubectl .*)$`)

// TestGoldens compares what command lines print. The help has each question with the one command
// that answers it, and the test runs that command.
func TestGoldens(t *testing.T) {
	laid(t)
	lines := map[string]golden{}
	for name, row := range goldens {
		lines[name] = golden{"", row.line, row.code}
	}
	asked := example.FindAllStringSubmatch(kubectl(t, "curfew expiring --help").stdout, -1)
	for i, question := range questions {
		if i >= len(asked) || asked[i][1] != question {
			t.Errorf("%q is not question %d in the help: %q", question, i+1, asked)
			continue
		}
		lines[fmt.Sprintf("question-%d", i+1)] = golden{question, asked[i][2], 0}
	}
	if len(asked) != len(questions) {
		t.Errorf("the help has %d questions, want %d", len(asked), len(questions))
	}
	t.Run("up", func(t *testing.T) { compare(t, lines, nil) })
	files, err := filepath.Glob("testdata/golden/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := lines[strings.TrimSuffix(filepath.Base(file), ".txt")]; !ok {
			t.Errorf("%s belongs to no test: remove it", file)
		}
	}
	// No service of Curfew has to be reachable: the same answers with both of them ended, while a
	// controller leads elsewhere. What a webhook says to a change is missing then.
	if err := stop(suite.controller); err != nil {
		t.Fatal(err)
	}
	if err := stop(suite.webhook); err != nil {
		t.Fatal(err)
	}
	defer restart(t)
	if err := leads(t.Context(), "elsewhere"); err != nil {
		t.Fatal(err)
	}
	t.Run("down", func(t *testing.T) { compare(t, lines, saidDown) })
}

// saidDown are what commands say in addition where the webhook does not answer.
var saidDown = map[string]string{
	"explain-file": `note: the API server does not call Curfew's webhook for namespace "ci": nothing is filled in or rejected until it does; ` +
		"kubectl curfew status shows why\n",
}

type golden struct {
	question, line string
	code           int
}

// compare compares what commands print with their files, where they also say what said has.
func compare(t *testing.T, lines map[string]golden, values map[string]string) {
	for name, golden := range lines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := laid(t).zone
			got := typed(t, line{text: golden.line, zone: zone})
			if got.code != golden.code {
				t.Errorf("exit status %d, want %d", got.code, golden.code)
			}
			have := "$ " + golden.line + "\n" + zone.normal(got.stdout) + fmt.Sprintf("--- stderr, exit status %d\n", got.code) + zone.normal(got.stderr)
			if values[name] != "" && !strings.Contains(have, values[name]) {
				t.Errorf("it does not say %q", values[name])
			}
			have = strings.Replace(have, values[name], "", 1)
			if golden.question != "" {
				have = "# " + golden.question + "\n" + have
			}
			file := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(have), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: run go test with -update", err)
			}
			if have != string(want) {
				t.Errorf("have\n%s\nwant\n%s", have, want)
			}
		})
	}
}

// restart starts what a test ended.
func restart(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	var err error
	if suite.webhook, err = suite.cluster.StartWebhook(ctx, harness.CurfewOptions{Port: suite.webhook.WebhookPort}); err != nil {
		t.Fatal(err)
	}
	if err := suite.cluster.WaitForWebhook(ctx); err != nil {
		t.Fatal(err)
	}
	if err := leads(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if err := startController(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestForPrograms: JSON and YAML tell the same as the table, in RFC 3339 and seconds.
func TestForPrograms(t *testing.T) {
	w := laid(t)
	type entry struct {
		Object  struct{ APIVersion, Kind, Namespace, Name, UID string }
		Trigger string
		Source  string
		TTL     string
		Expiry  string
		Left    int64 `json:"leftSeconds"`
	}
	var report struct{ Items []entry }
	got := typed(t, line{text: "kubectl curfew expiring -n foo -o json"})
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != 0 {
		t.Fatalf("exit status %d, %v:\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	i := slices.IndexFunc(report.Items, func(e entry) bool { return e.Object.Name == "web" })
	if i < 0 {
		t.Fatalf("no Deployment web:\n%s", got.stdout)
	}
	web, expiry := report.Items[i], w.instant(t, "2026-12-24 16:30")
	if web.Object.Kind != "Deployment" || web.Object.APIVersion != "apps/v1" || web.Object.UID == "" || web.Trigger != "label" || web.Source != "object" ||
		web.Expiry != expiry.Format("2006-01-02T15:04:05Z") || web.Left <= 0 || web.Left > 12600 {
		t.Errorf("%+v", web)
	}
	var inYAML struct{ Items []entry }
	text := typed(t, line{text: "kubectl curfew expiring -n foo -o yaml"}).stdout
	if err := yaml.Unmarshal([]byte(text), &inYAML); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	names := func(entries []entry) (out []string) {
		for _, each := range entries {
			out = append(out, each.Object.Kind+"/"+each.Object.Name+" "+each.Expiry)
		}
		return out
	}
	if !slices.Equal(names(report.Items), names(inYAML.Items)) {
		t.Errorf("JSON has %v, YAML %v", names(report.Items), names(inYAML.Items))
	}
	var explained struct {
		Items []struct {
			Summary   string
			Obstacles []struct{ Kind string }
			Advice    []string
		}
	}
	got = typed(t, line{text: "kubectl curfew explain job/protected -n foo -o json"})
	if err := json.Unmarshal([]byte(got.stdout), &explained); err != nil || len(explained.Items) != 1 || len(explained.Items[0].Obstacles) != 1 ||
		explained.Items[0].Obstacles[0].Kind != "protection" || !slices.Contains(explained.Items[0].Advice, "kubectl annotate job.batch/protected -n foo curfew.dev/protect-") {
		t.Errorf("%v:\n%s", err, got.stdout)
	}
}
