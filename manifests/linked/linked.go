// Package linked lists the modules that a program links, with their licences, from what the go
// command knows of its packages. Release archives get the licences, and an SBOM lists the modules.
package linked

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"curfew.dev/curfew/manifests/pack"
)

// Module is a module that a program links. Go's standard library is module std.
type Module struct {
	Path, Version string
	// Licences are SPDX identifiers.
	Licences []string
	// Files are the texts of the licences and notices, for an archive.
	Files []pack.File
}

var (
	// allowed are the licences under which a program may link a module.
	allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

	licenceFile = regexp.MustCompile(`^(?i:LICEN[CS]E|COPYING)([._-].*)?$`)
	noticeFile  = regexp.MustCompile(`^(?i:NOTICE|PATENTS|COPYRIGHT)([._-].*)?$`)
)

// minimum is how much of a licence file, in percent, has to be the known text of licences. The rest
// is names, years and explanations.
const minimum = 75

// listed is a package, as go list shows it.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version string
		Main          bool
		Replace       *struct{ Path string }
	}
}

// Modules lists the modules that a program links on any of some platforms, in order. It fails where
// a module has no licence, or one that is not known or not allowed.
func Modules(root, program string, platforms ...string) ([]Module, error) {
	text, err := golang(root, nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(text)), "\ngo")
	found, seen := map[string]*Module{}, map[string]bool{}
	for _, platform := range platforms {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok || goos == "" || goarch == "" {
			return nil, fmt.Errorf("%s: give OS/ARCH, such as linux/amd64", platform)
		}
		_, env := pack.Static(goos, goarch)
		text, err := golang(root, env, "list", "-deps", "-json=ImportPath,Dir,Standard,Module", program)
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
			var info listed
			if err := decoder.Decode(&info); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("output of go list: %w", err)
			}
			module, top := Module{Path: "std", Version: version}, goroot
			switch {
			case info.Standard:
				info.Dir = goroot
			case info.Module.Main:
				continue
			case info.Module.Replace != nil:
				return nil, fmt.Errorf("module %s is replaced by %s: a release needs the module itself", info.Module.Path, info.Module.Replace.Path)
			default:
				module = Module{Path: info.Module.Path, Version: info.Module.Version}
				top = strings.TrimSuffix(info.Dir, filepath.FromSlash(strings.TrimPrefix(info.ImportPath, module.Path)))
			}
			if found[module.Path] == nil {
				found[module.Path] = &module
			}
			for dir := info.Dir; !seen[dir]; dir = filepath.Dir(dir) {
				seen[dir] = true
				if err := found[module.Path].read(top, dir); err != nil {
					return nil, err
				}
				if dir == top {
					break
				}
			}
		}
	}
	out := make([]Module, 0, len(found))
	for _, module := range found {
		slices.SortFunc(module.Files, func(a, b pack.File) int { return strings.Compare(a.Name, b.Name) })
		slices.Sort(module.Licences)
		module.Licences = slices.Compact(module.Licences)
		out = append(out, *module)
	}
	slices.SortFunc(out, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func golang(root string, env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	var text bytes.Buffer
	cmd.Stderr = &text
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, text.Bytes())
	}
	return out, nil
}

// read reads the licences and notices in a folder of a module, which is below top. Packages that a
// module has copied from elsewhere have licences of their own.
func (m *Module) read(top, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	licences := 0
	for _, entry := range entries {
		name := entry.Name()
		isLicence := licenceFile.MatchString(name)
		if entry.IsDir() || strings.HasSuffix(name, ".go") || !isLicence && !noticeFile.MatchString(name) {
			continue
		}
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		if isLicence {
			known, err := identify(text)
			if err != nil {
				return fmt.Errorf("module %s: %s: %w", m.Path, file, err)
			}
			m.Licences = append(m.Licences, known...)
			licences++
		}
		below, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, pack.File{Name: path.Join("licenses", m.Path, filepath.ToSlash(below)), Mode: 0o644, Content: text})
	}
	if dir == top && licences == 0 {
		return fmt.Errorf("module %s has no licence file in %s", m.Path, dir)
	}
	return nil
}

// identify returns the licences of a text.
func identify(text []byte) ([]string, error) {
	coverage := licensecheck.Scan(text)
	var out []string
	for _, match := range coverage.Match {
		if !slices.Contains(allowed, match.ID) {
			return nil, fmt.Errorf("its licence is %s, which is none of %s", match.ID, strings.Join(allowed, ", "))
		}
		out = append(out, match.ID)
	}
	if coverage.Percent < minimum {
		return nil, fmt.Errorf("only %.0f%% of it is the known text of licences", coverage.Percent)
	}
	return out, nil
}

// Files are the licences and notices of modules, for an archive.
func Files(modules []Module) (out []pack.File) {
	for _, module := range modules {
		out = append(out, module.Files...)
	}
	return out
}
