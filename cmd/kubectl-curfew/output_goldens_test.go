package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// outputGoldens print in the formats of kubectl.
var outputGoldens = map[string]golden{
	"output-jsonpath":         {args: []string{"expiring", "-n", "foo", "-o", `jsonpath={range .items[*]}{.object.name} {.source}{"\n"}{end}`}},
	"output-jsonpath-bad":     {args: []string{"expiring", "-n", "foo", "-o", "jsonpath={.items[}"}, code: 2},
	"output-jsonpath-nothing": {args: []string{"expiring", "-n", "foo", "-o", "jsonpath"}, code: 2},
	"output-go-template":      {args: []string{"expiring", "-n", "ci", "-o", `go-template={{range .items}}{{.object.kind}} {{.expiry}}{{"\n"}}{{end}}`}},
	"output-template":         {args: []string{"explain", "job/build", "-n", "ci", "--template", `{{range .items}}{{.summary}}{{"\n"}}{{end}}`}},
	"output-columns":          {args: []string{"expiring", "-A", "-l", "app", "-o", "custom-columns=NAME:.object.name,WHY:{.source},BLOCKERS:obstacles[*].kind,WHEN:.finished"}},
	"output-columns-explain":  {args: []string{"explain", "cm", "-l", "app=demo", "-o", "custom-columns=NAME:.object.name,ADVICE:.advice[0]", "--no-headers"}},
	"output-columns-lint":     {args: []string{"lint", "-f", "testdata/quick.yaml", "-o", "custom-columns=LINE:.line,RULE:.rule"}},
	"output-columns-none":     {args: []string{"expiring", "-A", "-o", "custom-columns="}, code: 2},
	"output-columns-bad":      {args: []string{"expiring", "-A", "-o", "custom-columns=NAME:{.a}{.b}"}, code: 2},
	"output-columns-file":     {args: []string{"expiring", "-A", "-o", "custom-columns-file=testdata/absent"}, code: 2},
	"output-name-explain":     {args: words("explain cm -l app=demo -o name")},
	"output-name-lint":        {args: words("lint -f testdata/quick.yaml -o name"), code: 2},
	"output-kyaml":            {args: words("expiring pvc -n foo -o kyaml")},
	"output-changed":          {args: []string{"extend", "job/build", "-n", "ci", "--by", "1d", "-o", "jsonpath={.items[0].patch.spec}"}},
	"output-changed-bad":      {args: words("extend job/build -n ci --by 1d -o jsonpath={"), code: 2},
	"output-no-headers":       {args: words("expiring -n ci --no-headers")},
	"output-no-headers-lint":  {args: words("lint -f testdata/quick.yaml --no-headers")},
	"output-bare-names":       {args: words("expiring deployments -A --show-kind=false --show-labels")},
	"output-sorted":           {args: words("expiring -n foo --sort-by .object.name -o name")},
	"output-sorted-numbers":   {args: words("expiring -A --ttl-longer-than 1d --sort-by {.leftSeconds}")},
	"output-sorted-nowhere":   {args: words("expiring -n foo --sort-by .metadata.name"), code: 2},
	"output-sorted-bad":       {args: words("expiring -n foo --sort-by {.a}{.b}"), code: 2},
}

// TestColumnsFile: custom-columns-file reads a line of headers and one of paths.
func TestColumnsFile(t *testing.T) {
	for text, want := range map[string]string{
		"NAME        WHY\n.object.name .source\n": "NAME   WHY\ndata   object\n",
		"NAME WHY\n.object.name\n":                "",
		"":                                        "",
	} {
		file := filepath.Join(t.TempDir(), "columns")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr, _ := execute(t, scene{}, words("expiring pvc -n foo -o custom-columns-file="+file)...)
		if refused := strings.HasSuffix(stderr, "give one line of headers and one of as many paths\n"); stdout != want || refused != (want == "") || (code == console.ExitOK) != (want != "") {
			t.Errorf("%q: exit status %d: %s%s", text, code, stdout, stderr)
		}
	}
}
