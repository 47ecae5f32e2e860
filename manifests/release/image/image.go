package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"curfew.dev/curfew/manifests/pack"
)

// user is the unprivileged user that the Deployments run as.
const user = "65532:65532"

// entrypoint is the binary. Deployments have args and no command.
const entrypoint = "/curfew"

// build makes the image of one platform from a binary and licences. The binary needs nothing else:
// time zones are linked in, and the cluster hands it the authority that it trusts.
func build(binary, licence string, platform v1.Platform, o *Options) (v1.Image, error) {
	content, err := pack.Tar(o.Created, append([]pack.File{{Path: binary, Name: "curfew", Mode: 0o755},
		{Path: licence, Name: "LICENSE", Mode: 0o644}}, o.Licences...)...)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: o.Created}
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make image"}})
	if err != nil {
		return nil, fmt.Errorf("append the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, created
	config.Config = v1.Config{User: user, WorkingDir: "/", Entrypoint: []string{entrypoint}, Labels: o.labels()}
	return mutate.ConfigFile(image, config)
}

// labels describe the image, with the keys of the OCI image specification.
func (o *Options) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "curfew",
		"org.opencontainers.image.description": "Lifecycle admission and timed cleanup for Kubernetes",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.Version,
		"org.opencontainers.image.created":     o.Created.UTC().Format(time.RFC3339),
	}
	if o.Revision != "" {
		labels["org.opencontainers.image.revision"] = o.Revision
	}
	return labels
}

// Static returns a [Options.Build] whose output does not depend on the machine or its folders.
func Static(root, version string) func(v1.Platform, string) error {
	return func(platform v1.Platform, file string) error {
		flags, env := pack.Static(platform.OS, platform.Architecture)
		return Compile(root, version, file, flags, env...)
	}
}

// Layout is the folder of the OCI image layout, below [Options.Out].
const Layout = "image"

// Options describe the image to build.
type Options struct {
	// Root is the top folder of the repository.
	Root string
	// Out is the folder to write into.
	Out string
	// Repository and Version name the image, as in curfew:v0.1.0. The binary prints the version.
	Repository, Version string
	// Revision is the commit; empty means unknown.
	Revision string
	// Created is the time of the image and of its files.
	Created time.Time
	// Platforms are OS/ARCH, such as linux/arm64.
	Platforms []string
	// Licences are files with the licences of the linked modules.
	Licences []pack.File
	// Build writes the binary of a platform into a file.
	Build func(platform v1.Platform, file string) error
	// Progress gets a line for each step.
	Progress io.Writer
}

// Result describes the image that was built.
type Result struct {
	// Digest is that of the index, by which a registry knows the image.
	Digest string
	// Files are the archives.
	Files []string
}

// Write builds the images, and replaces the layout and the archives of an earlier run.
func Write(o *Options) (*Result, error) {
	utc := *o
	utc.Created = o.Created.UTC()
	o = &utc
	tag, err := name.NewTag(o.Repository + ":" + o.Version)
	if err != nil {
		return nil, fmt.Errorf("name of the image: %w", err)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	index, result := v1.ImageIndex(empty.Index), &Result{}
	for i, text := range o.Platforms {
		fmt.Fprintf(o.Progress, "image for %s (%d of %d)\n", text, i+1, len(o.Platforms))
		image, platform, err := o.image(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		archive := filepath.Join(o.Out, fmt.Sprintf("curfew-image_%s_%s_%s.tar", o.Version, platform.OS, platform.Architecture))
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return nil, fmt.Errorf("write %s: %w", archive, err)
		}
		result.Files = append(result.Files, archive)
	}
	add := func(to layout.Path, named layout.Option) error { return to.AppendIndex(index, named) }
	if err := writeLayout(filepath.Join(o.Out, Layout), o.Version, add); err != nil {
		return nil, err
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, err
	}
	result.Digest = digest.String()
	return result, nil
}

// image builds the binary of a platform, and the image around it.
func (o *Options) image(text string) (v1.Image, *v1.Platform, error) {
	platform, err := v1.ParsePlatform(text)
	if err != nil || platform.OS == "" || platform.Architecture == "" {
		return nil, nil, fmt.Errorf("give OS/ARCH, such as linux/amd64")
	}
	dir, err := os.MkdirTemp("", "curfew-image")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "curfew")
	if err := o.Build(*platform, binary); err != nil {
		return nil, nil, err
	}
	image, err := build(binary, filepath.Join(o.Root, "LICENSE"), *platform, o)
	return image, platform, err
}

// writeLayout writes an OCI image layout with one entry, so that tools need no digest to find it.
func writeLayout(dir, name string, add func(layout.Path, layout.Option) error) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	written, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = add(written, layout.WithAnnotations(map[string]string{TagAnnotation: name}))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}

// Program is the package of the binary.
const Program = "./cmd/curfew"

// Compile runs go build.
func Compile(root, version, file string, flags []string, env ...string) error {
	return pack.Build(root, Program, version, file, flags, env...)
}

// Unpack writes the files of the image for a platform into a folder, as a container engine would.
func Unpack(dir, platform, into string) (*v1.ConfigFile, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	inner, err := partial.FindIndexes(index, match.MediaTypes(string(types.OCIImageIndex)))
	if err != nil || len(inner) != 1 {
		return nil, fmt.Errorf("%s has %d indexes, want 1: %w", dir, len(inner), err)
	}
	images, err := partial.FindImages(inner[0], func(each v1.Descriptor) bool {
		return each.Platform != nil && each.Platform.String() == platform
	})
	if err != nil || len(images) != 1 {
		return nil, fmt.Errorf("%s has %d images for %s, want 1: %w", dir, len(images), platform, err)
	}
	content := mutate.Extract(images[0])
	defer content.Close()
	cmd := exec.Command("tar", "-x", "--no-same-owner", "-f", "-", "-C", into)
	cmd.Stdin = content
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("unpack %s: %w: %s", dir, err, text)
	}
	return images[0].ConfigFile()
}

// Signature and Attestations are the folders of the layouts with the image's signature and its
// attestations, below [Options.Out]. They are layouts of their own, so that tools push the image's
// layout, which has one entry, without a flag.
const Signature, Attestations = "image-signature", "image-attestations"

// Sign writes a signature of a digest in the form that cosign reads, and returns the tag that it
// has to get beside the image. sign returns the signature of a text in base64. Source: cosign's
// signature specification.
func Sign(out, repository, digest string, sign func([]byte) (string, error)) (string, error) {
	payload, err := json.Marshal(map[string]any{"critical": map[string]any{
		"identity": map[string]any{"docker-reference": repository}, "image": map[string]any{"docker-manifest-digest": digest},
		"type": "cosign container image signature"}, "optional": nil})
	if err != nil {
		return "", err
	}
	text, err := sign(payload)
	if err != nil {
		return "", err
	}
	return attach(filepath.Join(out, Signature), digest, ".sig", attachment(payload, "application/vnd.dev.cosign.simplesigning.v1+json", text))
}

// Attest writes attestations of a digest, DSSE envelopes, in the form that cosign reads, and returns
// the tag that they have to get beside the image. Source: cosign's attestation specification.
func Attest(out, digest string, envelopes ...[]byte) (string, error) {
	var layers []mutate.Addendum
	for _, envelope := range envelopes {
		layers = append(layers, attachment(envelope, "application/vnd.dsse.envelope.v1+json", ""))
	}
	return attach(filepath.Join(out, Attestations), digest, ".att", layers...)
}

// attachment is a layer that cosign reads. The signature is empty where the content has its own.
func attachment(content []byte, kind types.MediaType, signature string) mutate.Addendum {
	return mutate.Addendum{Layer: static.NewLayer(content, kind), Annotations: map[string]string{"dev.cosignproject.cosign/signature": signature}}
}

// attach writes a layout with an image that is found by a digest.
func attach(dir, digest, suffix string, layers ...mutate.Addendum) (string, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return "", fmt.Errorf("append the payload: %w", err)
	}
	tag := strings.Replace(digest, ":", "-", 1) + suffix
	add := func(to layout.Path, named layout.Option) error { return to.AppendImage(image, named) }
	return tag, writeLayout(dir, tag, add)
}

// Digest reads the digest of the image from its layout.
func Digest(dir string) (string, error) {
	entry, _, err := Entry(dir)
	return entry.Digest.String(), err
}

// Entry reads the only entry of a layout. Its annotation [TagAnnotation] has its tag.
func Entry(dir string) (entry v1.Descriptor, content remote.Taggable, err error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return entry, nil, fmt.Errorf("read %s: %w", dir, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return entry, nil, fmt.Errorf("%s has %d entries, want 1: %w", dir, len(manifest.Manifests), err)
	}
	if entry = manifest.Manifests[0]; entry.MediaType.IsIndex() {
		content, err = index.ImageIndex(entry.Digest)
	} else {
		content, err = index.Image(entry.Digest)
	}
	return entry, content, err
}

// TagAnnotation has the tag of an entry of a layout.
const TagAnnotation = "org.opencontainers.image.ref.name"
