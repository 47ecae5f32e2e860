package folders

import (
	"strings"
	"testing"
)

func TestIgnore(t *testing.T) {
	for name, test := range map[string]struct {
		patterns, ignored, kept []string
	}{
		"a name, at any depth":     {[]string{"values.yaml"}, []string{"values.yaml", "a/b/values.yaml"}, []string{"my-values.yaml", "values.yaml/x"}},
		"a directory":              {[]string{"charts/"}, []string{"charts/", "a/charts/"}, []string{"charts"}},
		"anchored":                 {[]string{"/a.yaml"}, []string{"a.yaml"}, []string{"b/a.yaml"}},
		"a path":                   {[]string{"a/*.yaml"}, []string{"a/b.yaml"}, []string{"a/b/c.yaml", "x/a/b.yaml"}},
		"any depth":                {[]string{"a/**/c.yaml"}, []string{"a/c.yaml", "a/b/c.yaml", "a/b/b/c.yaml"}, []string{"c.yaml", "b/c.yaml"}},
		"all below":                {[]string{"a/**"}, []string{"a/b", "a/b/c/"}, []string{"b/a"}},
		"the last that matches":    {[]string{"*.yaml", "!keep.yaml"}, []string{"a.yaml"}, []string{"keep.yaml", "a/keep.yaml"}},
		"kept, and left out again": {[]string{"!a.yaml", "a.yaml"}, []string{"a.yaml"}, nil},
		"letters of a set":         {[]string{"values-[ab].yaml", "?.json"}, []string{"values-a.yaml", "x.json"}, []string{"values-c.yaml", "xy.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			patterns, err := readIgnore(t.TempDir(), test.patterns)
			if err != nil {
				t.Fatal(err)
			}
			is := func(name string) bool {
				trimmed, dir := strings.CutSuffix(name, "/")
				return patterns.matches(trimmed, dir)
			}
			for _, name := range test.ignored {
				if !is(name) {
					t.Errorf("%s is kept", name)
				}
			}
			for _, name := range test.kept {
				if is(name) {
					t.Errorf("%s is left out", name)
				}
			}
		})
	}
	for _, bad := range []string{"", "!", "/", "[a", "a//b"} {
		if _, err := readIgnore(t.TempDir(), []string{bad}); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
}
