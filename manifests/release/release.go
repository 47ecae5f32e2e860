package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"curfew.dev/curfew/manifests/linked"
	"curfew.dev/curfew/manifests/pack"
	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/manifests/release/image"
)

// release describes the release to make.
type release struct {
	root, out, repository, version, runbooks string
	platforms                                []string
	// revision is the commit, and created its time.
	revision string
	created  time.Time
	// digest is that of the image, once it is built.
	digest string
	// builder says in the provenance who builds.
	builder string
	// key is the file of the private key that signs. With dirty, it also signs what was built from
	// files that differ from the commit.
	key   string
	dirty bool
	// pgpKey is the file of the key that signs the chart for Helm, if any.
	pgpKey string
	// build writes the binary of a platform into a file.
	build    func(platform v1.Platform, file string) error
	progress io.Writer
}

// complete reads the commit and its time from the repository.
func (r *release) complete() error {
	if !pack.Version.MatchString(r.version) {
		return fmt.Errorf("-version=%s: give one such as v0.1.0", r.version)
	}
	var err error
	for _, folder := range []*string{&r.root, &r.out} {
		if *folder, err = filepath.Abs(*folder); err != nil {
			return err
		}
	}
	if r.revision, r.created, err = pack.Commit(r.root); err != nil {
		return err
	}
	return os.MkdirAll(r.out, 0o755)
}

// digestFile has the digest of the image, so that the checksums cover the image, too.
const digestFile = "image-digest.txt"

func (r *release) image() ([]string, error) {
	modules, err := linked.Modules(r.root, image.Program, r.platforms...)
	if err != nil {
		return nil, err
	}
	made, err := image.Write(&image.Options{
		Root: r.root, Out: r.out, Repository: r.repository, Version: r.version, Revision: r.revision, Created: r.created,
		Platforms: r.platforms, Licences: linked.Files(modules), Build: r.build, Progress: r.progress,
	})
	if err != nil {
		return nil, err
	}
	r.digest = made.Digest
	if err := os.WriteFile(filepath.Join(r.out, digestFile), []byte(r.digest+"\n"), 0o644); err != nil {
		return nil, err
	}
	sbom, err := linked.WriteSBOM(r.out, r.root, "curfew", r.version, modules)
	return append(made.Files, sbom, filepath.Join(r.out, image.Layout)+" "+made.Digest), err
}

func (r *release) chartOptions() *chart.Options {
	return &chart.Options{Root: r.root, Out: r.out, Repository: r.repository, Version: r.version, Digest: r.digest, Created: r.created,
		Runbooks: r.runbooks}
}

func (r *release) chart() ([]string, error) {
	path, err := chart.Write(r.chartOptions())
	return []string{path}, err
}

func (r *release) install() ([]string, error) {
	var made []string
	for name, dryRun := range map[string]bool{"install.yaml": false, "install-dry-run.yaml": true} {
		data, err := chart.InstallYAML(r.chartOptions(), dryRun)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(r.out, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
		made = append(made, path)
	}
	slices.Sort(made)
	return made, nil
}

// push pushes the image with its signature and attestations. The image is the last, so that
// everyone who finds its tag can verify it. The credentials are those of `docker login`.
func (r *release) push() ([]string, error) {
	repository, err := name.NewRepository(r.repository, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("-repository=%s: name its registry, too, such as registry.example.com/curfew (IMAGE=...): %w", r.repository, err)
	}
	digest, err := r.imageDigest()
	if err != nil {
		return nil, err
	}
	var made []string
	for _, folder := range []string{image.Signature, image.Attestations, image.Layout} {
		entry, content, err := image.Entry(filepath.Join(r.out, folder))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(r.progress, "%s is missing and not pushed: make sign makes it\n", folder)
			continue
		}
		if err != nil {
			return nil, err
		}
		tag := repository.Tag(entry.Annotations[image.TagAnnotation])
		if folder != image.Layout && !strings.HasPrefix(tag.TagStr(), strings.Replace(digest, ":", "-", 1)) {
			return nil, fmt.Errorf("%s has tag %s, which is not of image %s: sign the release again", folder, tag.TagStr(), digest)
		}
		if err := remote.Push(tag, content, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return nil, fmt.Errorf("push %s: %w", folder, err)
		}
		made = append(made, tag.Name()+"@"+entry.Digest.String())
	}
	return made, nil
}

// sumsFile has the checksums, in the form that `sha256sum --check` reads.
const sumsFile = "SHA256SUMS"

// sum is the checksum of a file in dist.
type sum struct{ name, digest string }

// sums are the checksums of all files in dist but the signatures and some others, and of the files
// of the image's layout that name its digest. Blobs are named by their checksums.
func (r *release) sums(without ...string) (out []sum, err error) {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() || slices.Contains(without, entry.Name()) || slices.Contains([]string{signature, helmSignature}, filepath.Ext(entry.Name())) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, sum{entry.Name(), fmt.Sprintf("%x", sha256.Sum256(data))})
	}
	for _, name := range []string{image.Layout + "/index.json", image.Layout + "/oci-layout"} {
		data, err := os.ReadFile(filepath.Join(r.out, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // The chart alone was made.
		}
		if err != nil {
			return nil, err
		}
		out = append(out, sum{name, fmt.Sprintf("%x", sha256.Sum256(data))})
	}
	return out, nil
}

func (r *release) checksums() ([]string, error) {
	sums, err := r.sums(sumsFile)
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, sum := range sums {
		fmt.Fprintf(&lines, "%s  %s\n", sum.digest, sum.name)
	}
	path := filepath.Join(r.out, sumsFile)
	return []string{path}, os.WriteFile(path, []byte(lines.String()), 0o644)
}
