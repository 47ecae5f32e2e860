package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of hand-written code that is shipped. What breaks one today stands in
// exceptions_test.go, with how far it may go.
const (
	maxFile        = 400 // lines
	maxFunction    = 60  // lines
	maxComment     = 100 // columns, where a tab is one
	maxOtherFile   = 450 // lines of tests and what stands beside them
	exceptionsFile = "test/house/exceptions_test.go"
)

// allow reports a size above a limit, unless an exception allows it. An exception that is no longer
// needed is logged.
func allow(t *testing.T, exceptions map[string]int, name string, size, limit int, problem string) {
	t.Helper()
	most, excepted := exceptions[name]
	switch {
	case excepted && size <= limit:
		t.Logf("%s: %s needs no exception any more", exceptionsFile, name)
	case size > max(most, limit):
		t.Errorf("%s: %s", name, problem)
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		size, limit := len(s.lines), maxOtherFile
		if s.product() {
			limit = maxFile
		}
		if !ast.IsGenerated(s.file) {
			allow(t, longFiles, s.path, size, limit, fmt.Sprintf("%d lines, at most %d: split it", size, limit))
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			size := s.set.Position(function.End()).Line - s.set.Position(function.Pos()).Line + 1
			allow(t, longFunctions, s.path+": "+function.Name.Name, size, maxFunction, fmt.Sprintf("%d lines, at most %d: split it", size, maxFunction))
		}
	}
}

// Tools need these on one line.
var directive = regexp.MustCompile(`^\s*//(go:| ?\+|nolint)`)

func TestCommentsAreWrapped(t *testing.T) {
	long, first := map[string]int{}, map[string]string{}
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		folder := path.Dir(s.path)
		long[folder] += 0
		for i, line := range s.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "//") && utf8.RuneCountInString(line) > maxComment && !directive.MatchString(line) {
				if long[folder]++; first[folder] == "" {
					first[folder] = fmt.Sprintf("%s:%d", s.path, i+1)
				}
			}
		}
	}
	for folder, size := range long {
		allow(t, unwrapped, folder, size, 0, fmt.Sprintf("%d lines of comments, such as %s, are longer than %d columns: wrap them", size, first[folder], maxComment))
	}
}
