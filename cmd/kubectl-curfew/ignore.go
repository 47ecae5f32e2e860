package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ignoreFile has patterns of files that lint leaves out, in a directory that -f names.
const ignoreFile = ".curfewlintignore"

// ignore has patterns as .gitignore has them; the last that matches decides.
type ignore []ignorePattern

type ignorePattern struct {
	// segments are matched one by one; ** stands for any number of them.
	segments         []string
	negated, dirOnly bool
}

// readIgnore reads the patterns of a directory, and adds those of --ignore.
func readIgnore(dir string, patterns []string) (ignore, error) {
	var out ignore
	text, err := os.ReadFile(filepath.Join(dir, ignoreFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ignoreFile), unwrapPath(err))
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := out.add(line); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ignoreFile), err)
		}
	}
	for _, pattern := range patterns {
		if err := out.add(pattern); err != nil {
			return nil, fmt.Errorf("--ignore: %w", err)
		}
	}
	return out, nil
}

func (i *ignore) add(text string) error {
	var out ignorePattern
	rest, negated := strings.CutPrefix(text, "!")
	rest, out.dirOnly = strings.CutSuffix(rest, "/")
	rest, anchored := strings.CutPrefix(rest, "/")
	out.negated, out.segments = negated, strings.Split(rest, "/")
	if !anchored && len(out.segments) == 1 {
		out.segments = append([]string{"**"}, out.segments...)
	}
	for _, segment := range out.segments {
		if _, err := path.Match(segment, ""); err != nil || segment == "" {
			return fmt.Errorf("%q is not a pattern: use one such as charts/ or **/values-*.yaml", text)
		}
	}
	*i = append(*i, out)
	return nil
}

// matches reports whether a path below the directory is left out.
func (i ignore) matches(name string, dir bool) bool {
	segments, out := strings.Split(filepath.ToSlash(name), "/"), false
	for _, pattern := range i {
		if (dir || !pattern.dirOnly) && matchSegments(pattern.segments, segments) {
			out = !pattern.negated
		}
	}
	return out
}

func matchSegments(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**":
		return matchSegments(pattern[1:], names) || len(names) > 0 && matchSegments(pattern, names[1:])
	case len(names) == 0:
		return false
	}
	ok, _ := path.Match(pattern[0], names[0]) // The pattern was checked when it was read.
	return ok && matchSegments(pattern[1:], names[1:])
}
