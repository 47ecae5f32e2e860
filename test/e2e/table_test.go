package e2e

import (
	"context"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

// row is an object, and what kubectl says beside that it was created: nothing, a line of warned or
// one of denied.
type row struct {
	object any
	said   string
}

// creates creates the objects of a table with one kubectl, and fails the test unless that says what
// the rows hold: kubectl tells warnings as they come and what was refused at the end.
func (s *space) creates(rows ...row) {
	s.Helper()
	s.creating(nil, rows...)
}

// wouldCreate is the same in a dry run of the API server.
func (s *space) wouldCreate(rows ...row) {
	s.Helper()
	s.creating([]string{"--dry-run=server"}, rows...)
}

func (s *space) creating(args []string, rows ...row) {
	s.Helper()
	var objects []any
	var warnings, refusals []string
	for _, row := range rows {
		objects = append(objects, row.object)
		for line := range strings.Lines(row.said) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "Warning: ") {
				warnings = append(warnings, line)
			} else {
				refusals = append(refusals, line)
			}
		}
	}
	out := s.kubectlInput(s.manifest(objects...), append([]string{"create", "-f", "-"}, args...)...)
	want := append(warnings, refusals...)
	if got := strings.Split(strings.TrimSuffix(out.stderr, "\n"), "\n"); joined(got) != joined(want) && out.stderr != joined(want) {
		for _, line := range without(want, got) {
			s.Errorf("kubectl did not say:\n%s", line)
		}
		for _, line := range without(got, want) {
			s.Errorf("kubectl said:\n%s", line)
		}
		if !s.Failed() {
			s.Errorf("kubectl said the right lines in another order:\n%s", out.stderr)
		}
		s.FailNow()
	}
	if out.failed != (len(refusals) > 0) {
		s.Fatalf("kubectl failed: %t, %d refusals were expected", out.failed, len(refusals))
	}
}

// eventually is wouldCreate for what takes a moment to become known to Curfew, which watches
// policies, runtimes and namespaces: it asks again until the answer is the one of the row.
func (s *space) eventually(row row) {
	s.Helper()
	var out output
	err := harness.Poll(s.ctx, s.Name()+": kubectl to say "+row.said, func(context.Context) (bool, error) {
		out = s.kubectlInput(s.manifest(row.object), "create", "-f", "-", "--dry-run=server")
		// How many policies there are of other tests decides about the number of the webhook that is for
		// this one.
		output := numbered.ReplaceAllString(strings.TrimSuffix(out.stderr, "\n"), `"$1.`)
		return output == row.said && out.failed == strings.Contains(row.said, "Error from server"), nil
	})
	if err != nil {
		s.Fatalf("kubectl still says:\n%s\nwant:\n%s", out.stderr, row.said)
	}
}

var numbered = regexp.MustCompile(`"(validate-policies)-[0-9]+\.`)

// without are the lines that are in one list and not in the other.
func without(lines, others []string) []string {
	left := map[string]int{}
	for _, line := range others {
		left[line]++
	}
	var out []string
	for _, line := range lines {
		if left[line]--; left[line] < 0 {
			out = append(out, line)
		}
	}
	return out
}

// warned is how kubectl tells of a warning of Curfew's.
func warned(warnings ...string) string {
	return "Warning: curfew: " + strings.Join(warnings, "\nWarning: curfew: ")
}

// jsonpath reads a field of an object with kubectl.
func (s *space) jsonpath(kind, name, path string) string {
	s.Helper()
	return s.expectSuccess(s.kubectl("get", kind, name, "-o", "jsonpath={"+path+"}")).stdout
}

// object reads one from YAML, for kinds that have no Go type here.
func (s *space) object(text string) map[string]any {
	s.Helper()
	var out map[string]any
	s.ok(yaml.Unmarshal([]byte(text), &out))
	return out
}
