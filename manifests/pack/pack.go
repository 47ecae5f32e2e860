// Package pack builds and packs the files of a release. The same source, version and time make the
// same bytes on every machine.
package pack

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the form of versions that krew and Helm require: v0.1.0, v0.1.0-rc.1.
var Version = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// File is a file of an archive. Its content is read from Path if there is one. With Link it is a
// symbolic link to that path.
type File struct {
	Name    string
	Mode    int64
	Path    string
	Link    string
	Content []byte
}

// Tar packs files that belong to root, all with one time.
func Tar(modified time.Time, files ...File) ([]byte, error) {
	var out bytes.Buffer
	packed := tar.NewWriter(&out)
	for _, f := range files {
		kind := byte(tar.TypeReg)
		if f.Link != "" {
			kind, f.Path = tar.TypeSymlink, ""
		}
		if f.Path != "" {
			var err error
			if f.Content, err = os.ReadFile(filepath.Clean(f.Path)); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Typeflag: kind, Name: f.Name, Linkname: f.Link, Mode: f.Mode, Size: int64(len(f.Content)), ModTime: modified}
		if err := packed.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := packed.Write(f.Content); err != nil {
			return nil, err
		}
	}
	err := packed.Close()
	return out.Bytes(), err
}

// TarGz is a compressed [Tar].
func TarGz(modified time.Time, files ...File) ([]byte, error) {
	packed, err := Tar(modified, files...)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	_, err = zipped.Write(packed)
	err = errors.Join(err, zipped.Close())
	return out.Bytes(), err
}

// Commit returns the commit of a repository, with "-dirty" where files differ from it, and its time
// or SOURCE_DATE_EPOCH. An archive of the source has no history: its commit is empty and its time
// the epoch.
func Commit(root string) (commit string, t time.Time, err error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(root)) // no repository around it
		text, err := cmd.Output()
		return strings.TrimSpace(string(text)), err
	}
	seconds := "0"
	if text, err := git("log", "-1", "--format=%ct %H"); err == nil {
		seconds, commit, _ = strings.Cut(text, " ")
		changed, err := git("status", "--porcelain")
		if err != nil {
			return "", t, fmt.Errorf("git status in %s: %w", root, err)
		}
		if changed != "" {
			commit += "-dirty"
		}
	}
	seconds = cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), seconds)
	number, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", t, fmt.Errorf("SOURCE_DATE_EPOCH=%s: give seconds since 1970", seconds)
	}
	return commit, time.Unix(number, 0).UTC(), nil
}

// Static returns the flags and settings with which [Build] makes the same bytes on every machine.
func Static(goos, goarch string) (flags, env []string) {
	return []string{"-v", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace"}, []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0",
		"GOAMD64=v1", "GOARM64=v8.0", "GOPPC64=power8", "GOEXPERIMENT="}
}

// Build runs go build in the top folder of the repository, with the linker's flags of the Makefile.
func Build(root, program, version, file string, flags []string, env ...string) error {
	commit, _, err := Commit(root)
	if err != nil {
		return err
	}
	linked := "-s -w -X main.version=" + version + " -X main.commit=" + cmp.Or(commit, "unknown")
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-ldflags", linked, "-o", file, program})...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var text counted
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text.Bytes())
	}
	return nil
}

// counted is the output of go build -v, a line for each package. It shows how many there are.
type counted struct {
	bytes.Buffer
	lines int
}

// Write implements io.Writer.
func (c *counted) Write(text []byte) (int, error) {
	const every = 150
	before := c.lines
	c.lines += bytes.Count(text, []byte("\n"))
	if c.lines/every > before/every {
		fmt.Fprintf(os.Stderr, "  %d packages compiled\n", c.lines)
	}
	return c.Buffer.Write(text)
}
