package folders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

// extensions of the files that are read in a directory. A named file may have any.
var extensions = []string{".yaml", ".yml", ".json"}

// Why a file of a directory, or a document in it, is skipped.
const (
	skippedTemplate      = "Helm template"
	skippedPatch         = "kustomize patch"
	skippedKustomization = "Kustomization"
	skippedForeign       = "no Kubernetes object"
)

// file is one file with manifests.
type file struct {
	Name string
	// found means that it was found in a directory, so that it may be something else.
	found bool
	// Skip says why it is not read; "" where it is.
	Skip string
	// data of standard input, which cannot be read again.
	data []byte
}

// folder collects the files of a directory.
type folder struct {
	name      string
	recursive bool
	ignore    ignore
	files     []file
	// templates is the directory of Helm templates that the walk is in.
	templates string
	// patches of all Kustomizations that the walk has come across.
	patches map[string]bool
}

// listFolder returns the files of a directory in the order of their names.
func listFolder(name string, recursive bool, patterns []string) ([]file, error) {
	ignored, err := readIgnore(name, patterns)
	if err != nil {
		return nil, err
	}
	f := &folder{name: name, recursive: recursive, ignore: ignored, patches: map[string]bool{}}
	if err := filepath.WalkDir(name, f.visit); err != nil {
		return nil, fmt.Errorf("-f %s: %w", name, err)
	}
	for i := range f.files {
		if each := &f.files[i]; f.patches[filepath.Clean(each.Name)] && each.Skip == "" {
			each.Skip = skippedPatch
		}
	}
	if len(f.files) == 0 {
		fix := ""
		if !recursive {
			fix = ", or -R to look in the directories below"
		}
		return nil, fmt.Errorf("-f %s: there is no .yaml, .yml or .json file in it: give another%s", name, fix)
	}
	return f.files, nil
}

func (f *folder) visit(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	below, err := filepath.Rel(f.name, path)
	if err != nil {
		return err
	}
	if entry.IsDir() {
		if path != f.name && (!f.recursive || entry.Name() == ".git" || f.ignore.matches(below, true)) {
			return filepath.SkipDir
		}
		if f.templates == "" || !strings.HasPrefix(path, f.templates) {
			f.templates = templatesIn(path)
		}
		return nil
	}
	if !slices.Contains(extensions, filepath.Ext(path)) || f.ignore.matches(below, false) {
		return nil
	}
	found := file{Name: path, found: true}
	if f.templates != "" && strings.HasPrefix(path, f.templates) {
		found.Skip = skippedTemplate
	}
	if base := filepath.Base(path); base == "kustomization.yaml" || base == "kustomization.yml" {
		found.Skip = skippedKustomization
		f.addPatches(path)
	}
	f.files = append(f.files, found)
	return nil
}

// templatesIn returns a directory, as a prefix of paths, if it has the templates of a Helm chart.
func templatesIn(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil && filepath.Base(whole) == "templates" {
		if _, err := os.Stat(filepath.Join(filepath.Dir(whole), "Chart.yaml")); err == nil {
			return dir + string(filepath.Separator)
		}
	}
	return ""
}

// addPatches adds the patches that a Kustomization names. One that cannot be read names none.
func (f *folder) addPatches(path string) {
	type target struct {
		Path string `json:"path"`
	}
	var kustomization struct {
		Patches   []target `json:"patches"`
		JSON6902  []target `json:"patchesJson6902"`
		Strategic []string `json:"patchesStrategicMerge"`
	}
	source, err := readFile(path)
	if err != nil || sigsyaml.Unmarshal(source.Data, &kustomization) != nil {
		return
	}
	names := kustomization.Strategic
	for _, each := range slices.Concat(kustomization.Patches, kustomization.JSON6902) {
		names = append(names, each.Path)
	}
	for _, name := range names {
		if name != "" && !strings.Contains(name, "\n") { // An inline patch has lines.
			f.patches[filepath.Join(filepath.Dir(path), name)] = true
		}
	}
}

// ignoreFile has patterns of files that lint leaves out, in a directory that -f names.
const ignoreFile = ".curfewlintignore"

// ignore has patterns as .gitignore has them; the last that matches decides.
type ignore []ignorePattern

type ignorePattern struct {
	// segments are matched one by one; ** stands for any number of them.
	segments         []string
	negated, dirOnly bool
}

// readIgnore reads the patterns of a directory, and adds the patterns of --ignore.
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
