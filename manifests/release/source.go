package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"curfew.dev/curfew/manifests/pack"
)

// source packs the files of the repository with the modules that Curfew and its release are built
// from, so that both build without a module proxy. An archive of the source makes no other one.
func (r *release) source() ([]string, error) {
	if r.revision == "" {
		return nil, nil
	}
	listing := exec.Command("git", "ls-files", "-z")
	listing.Dir = r.root
	names, err := listing.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []pack.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		files = append(files, pack.File{Name: name, Path: filepath.Join(r.root, filepath.FromSlash(name))})
	}
	dir, err := os.MkdirTemp("", "curfew-source")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, module := range []string{".", "manifests/release"} {
		fmt.Fprintf(r.progress, "modules of %s\n", module)
		cmd := exec.Command("go", "mod", "vendor", "-o", filepath.Join(dir, module, "vendor"))
		cmd.Dir = filepath.Join(r.root, module)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go mod vendor in %s: %w\n%s", module, err, text)
		}
	}
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		files = append(files, pack.File{Name: filepath.ToSlash(name), Path: file})
		return err
	})
	if err != nil {
		return nil, err
	}
	top := "curfew-" + r.version
	for i := range files {
		info, err := os.Lstat(files[i].Path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			files[i].Link, err = os.Readlink(files[i].Path)
		}
		if err != nil {
			return nil, err
		}
		files[i].Name, files[i].Mode = top+"/"+files[i].Name, 0o644|int64(info.Mode().Perm()&0o111)
	}
	slices.SortFunc(files, func(a, b pack.File) int { return strings.Compare(a.Name, b.Name) })
	archive, err := pack.TarGz(r.created, files...)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.out, top+"-src.tar.gz")
	return []string{file}, os.WriteFile(file, archive, 0o644)
}
