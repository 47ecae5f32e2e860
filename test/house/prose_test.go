package house

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	british = regexp.MustCompile(`(?i)\b(behaviour|colour|favour|honour|unlabelled|labelled|labelling|cancelled|organis|recognis|` +
		`normalis|serialis|authoris|licence|centre|defence|catalogue|judgement)`)
	stumble = regexp.MustCompile(`(?i)\b(gone by|goes by|whose word|speaks? of|says of|a[n]ew|a[f]resh|fresh look|mend(s|ed)?|` +
		`who[e]ver|taken for|in (its|their) way|tells? of|(is|are) told|(is|are) to be)\b`)

	// clumsy is what messages do not say, beside stumble.
	clumsy = regexp.MustCompile(`(?i)\b((could not|cannot|can not) be told|stands in|said|told|nobody|somebody)\b|\b\w*[^e\s"] is no [a-z]`)

	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$|<!--.*?-->")
	codeSpan  = regexp.MustCompile("`[^`]*`")
	linkOf    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// paragraph is also the end of a heading, of an item and of a cell.
	paragraph = regexp.MustCompile(`\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n#+ |\|`)
	sentence  = regexp.MustCompile(`[.?!]\s+`)

	// fileName is the name of a file in a comment, with or without its folder.
	fileName = regexp.MustCompile(`[\w./{},-]*\w\.(?:go|md)\b`)
)

// sentences are the bad sentences of a page. A piece of code is one word.
func sentences(page string, bad func(string) bool) (out []string) {
	text := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(page, "\n\n"), "code")
	for _, part := range paragraph.Split(linkOf.ReplaceAllString(text, "$1"), -1) {
		for _, name := range sentence.Split(part, -1) {
			if bad(name) {
				out = append(out, strings.Join(strings.Fields(name), " "))
			}
		}
	}
	return out
}

// TestProse reads the pages in the top folder and in docs. Its kinds of bad sentences are those of
// badSentence.
func TestProse(t *testing.T) {
	eachFile(t, ".md", func(page, name string) {
		if top, _, inside := strings.Cut(page, "/"); inside && top != "docs" {
			return
		}
		data, err := os.ReadFile(filepath.Clean(name))
		must(t, err)
		for _, text := range sentences(string(data), func(n string) bool { return badSentence(n) != "" }) {
			t.Errorf("%s: %s: %s", page, badSentence(text), text)
		}
	})
}

// TestFilesInComments reads the comments of Go files. A Go file without a folder is one beside the
// comment, a page without a folder is any of ours, and a path into a top folder of ours exists.
// Other paths are those of other projects.
func TestFilesInComments(t *testing.T) {
	exists := map[string]bool{}
	eachFile(t, "", func(relative, _ string) {
		top, _, _ := strings.Cut(relative, "/")
		exists[relative], exists[top+"/"] = true, true
		if path.Ext(relative) == ".md" {
			exists[path.Base(relative)] = true
		}
	})
	for _, s := range sources(t) {
		for _, comment := range s.file.Comments {
			for _, name := range fileName.FindAllString(comment.Text(), -1) {
				top, _, inside := strings.Cut(name, "/")
				beside := !inside && exists[path.Join(path.Dir(s.path), name)]
				if !exists[name] && !beside && (!inside || exists[top+"/"]) {
					t.Errorf("%s: there is no %s", s.set.Position(comment.Pos()), name)
				}
			}
		}
	}
}

// TestMessages reads the messages of the product: the string literals with a space.
func TestMessages(t *testing.T) {
	for _, s := range sources(t) {
		if !s.product() {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && strings.Contains(literal.Value, " ") {
				if bad := stumble.FindString(literal.Value) + clumsy.FindString(literal.Value); bad != "" {
					t.Errorf("%s: %q: use the terms of the Kubernetes documentation", s.set.Position(literal.Pos()), bad)
				}
			}
			return true
		})
	}
}

// badSentence says how to improve a sentence, or nothing.
func badSentence(name string) string {
	switch {
	case len(strings.Fields(name)) > 35:
		return "split what has over 35 words"
	case british.MatchString(name):
		return "write labeled, judgment, honored as Kubernetes does"
	case stumble.MatchString(name):
		return "use the terms of the Kubernetes documentation"
	}
	return ""
}

// TestBadSentences: a fault is found, and only that.
func TestBadSentences(t *testing.T) {
	half := strings.Repeat("word ", 20)
	for text, want := range map[string]int{
		half + half:                             1,
		half + "(that is, " + half + ")":        1,
		half + ". " + half:                      0,
		half + "\n\n" + half:                    0,
		half + "\n- " + half:                    0,
		half + "| " + half + "|":                0,
		half + "`" + half + "`":                 0,
		half + "[a](" + half + half + ")":       0,
		half + "\n```\n" + half + "\n```\n":     0,
		"It is not labelled. It is.":            1,
		"`--favour-drain` is a flag":            0,
		"```\nlabelled\n```\n":                  0,
		"All is " + "told. Colours are labeled": 2,
	} {
		bad := sentences(text, func(n string) bool { return badSentence(n) != "" })
		if len(bad) != want {
			t.Errorf("%q: found %q, want %d", text, bad, want)
		}
	}
}
