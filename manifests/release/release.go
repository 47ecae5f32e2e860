package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"curfew.dev/curfew/manifests/pack"
	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/manifests/release/image"
)

// release describes the release to make.
type release struct {
	root, repository, version, runbooks string
	platforms                           []string
	// revision is the commit, and created its time.
	revision string
	created  time.Time
	progress io.Writer
}

// complete reads the commit and its time from the repository. Without its history, the time is the
// epoch.
func (r *release) complete() error {
	if !pack.Version.MatchString(r.version) {
		return fmt.Errorf("-version=%s: give one such as v0.1.0", r.version)
	}
	var err error
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	r.created = time.Unix(0, 0).UTC()
	if text, err := r.git("log", "-1", "--format=%ct %H"); err == nil {
		seconds, revision, _ := strings.Cut(text, " ")
		r.revision = revision
		if err := r.at(seconds); err != nil {
			return err
		}
	}
	if seconds := os.Getenv("SOURCE_DATE_EPOCH"); seconds != "" {
		return r.at(seconds)
	}
	return nil
}

func (r *release) at(seconds string) error {
	number, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time %q: give seconds since 1970", seconds)
	}
	r.created = time.Unix(number, 0).UTC()
	return nil
}

func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.root
	text, err := cmd.Output()
	return strings.TrimSpace(string(text)), err
}

func (r *release) dist() string { return filepath.Join(r.root, "dist") }

func (r *release) image() ([]string, error) {
	made, err := image.Write(&image.Options{
		Root: r.root, Out: r.dist(), Repository: r.repository, Version: r.version, Revision: r.revision, Created: r.created,
		Platforms: r.platforms, Build: image.Static(r.root, r.version), Progress: r.progress,
	})
	if err != nil {
		return nil, err
	}
	return append(made.Files, filepath.Join(r.dist(), image.Layout)+" "+made.Digest), nil
}

func (r *release) chartOptions() *chart.Options {
	return &chart.Options{Root: r.root, Out: r.dist(), Repository: r.repository, Version: r.version, Created: r.created, Runbooks: r.runbooks}
}

func (r *release) chart() ([]string, error) {
	path, err := chart.Write(r.chartOptions())
	return []string{path}, err
}

func (r *release) install() ([]string, error) {
	var made []string
	if err := os.MkdirAll(r.dist(), 0o755); err != nil {
		return nil, err
	}
	for name, dryRun := range map[string]bool{"install.yaml": false, "install-dry-run.yaml": true} {
		data, err := chart.InstallYAML(r.chartOptions(), dryRun)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(r.dist(), name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
		made = append(made, path)
	}
	slices.Sort(made)
	return made, nil
}

// checksums writes the checksums of all files in dist, in the form that `sha256sum --check` reads.
// Folders are not downloaded, and the image layout has checksums of its own.
func (r *release) checksums() ([]string, error) {
	const name = "SHA256SUMS"
	entries, err := os.ReadDir(r.dist())
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == name {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.dist(), entry.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), entry.Name())
	}
	path := filepath.Join(r.dist(), name)
	return []string{path}, os.WriteFile(path, []byte(lines.String()), 0o644)
}
