package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository.
const root = ".."

// pages are the Markdown files for users, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "test/cluster/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			out[filepath.ToSlash(name)] = string(text)
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d pages found", len(out))
	}
	return out
}

// reference is all pages of the reference, one after the other.
func reference(t *testing.T) string {
	t.Helper()
	all := pages(t)
	var out strings.Builder
	for _, page := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(page, "docs/reference-") {
			out.WriteString(all[page])
		}
	}
	return out.String()
}

// sources are the Go files below some folders of the repository, without tests.
func sources(t *testing.T, folders ...string) []string {
	t.Helper()
	var out []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !entry.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no Go files in %v", folders)
	}
	return out
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	oddSign = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors of a page, as Git hosts make them of its headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := oddSign.ReplaceAllString(strings.ToLower(strings.TrimSpace(match[1])), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}

func TestLinks(t *testing.T) {
	all := pages(t)
	checked := 0
	site, err := os.ReadFile(filepath.Join(root, "docs/site/content/_content.gotmpl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			checked++
			path := name
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			file, err := os.Stat(filepath.Join(root, path))
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
				continue
			}
			if folder, inside := strings.CutPrefix(path, "manifests/"); file.IsDir() && (!inside || !strings.Contains(string(site), `"`+folder+`"`)) {
				t.Errorf("%s links to %s, a folder that the site has no page for: add it to docs/site/content/_content.gotmpl", name, match[1])
			}
			if anchor != "" && !anchors(all[path])[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, match[1])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links found", checked)
	}
}

var (
	target     = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]+)`)
	targetRule = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]+):`)
)

// TestMakeTargets: what the pages tell people to type exists.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, match := range targetRule.FindAllStringSubmatch(string(makefile), -1) {
		known[match[1]] = true
	}
	code := regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]+`")
	for name, text := range pages(t) {
		for _, span := range code.FindAllString(text, -1) {
			for _, match := range target.FindAllStringSubmatch(span, -1) {
				if !known[match[1]] {
					t.Errorf("%s names make %s, which the Makefile does not have", name, match[1])
				}
			}
		}
	}
}
