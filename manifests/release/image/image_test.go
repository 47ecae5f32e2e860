package image

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"curfew.dev/curfew/manifests/pack"
)

var root = filepath.Join("..", "..", "..")

// created has a zone, which may not get into an image.
var created = time.Unix(1_700_000_000, 0).In(time.FixedZone("", 3600))

func options(t *testing.T) *Options {
	return &Options{Root: root, Out: t.TempDir(), Repository: "curfew", Version: "v9.8.7", Revision: "037c104", Created: created,
		Platforms: []string{"linux/amd64", "linux/arm64"}, Progress: io.Discard,
		Licences: []pack.File{{Name: "licenses/example.com/a/LICENSE", Mode: 0o644, Content: []byte("linked")}},
		Build: func(platform v1.Platform, file string) error {
			return os.WriteFile(file, []byte("for "+platform.String()), 0o600)
		}}
}

func write(t *testing.T, o *Options) *Result {
	t.Helper()
	result, err := Write(o)
	must(t, err)
	return result
}

// TestLayout: the layout is a valid one with an image per platform, each with its own binary, and
// with what the Deployments rely on: an entrypoint and a user that is not root.
func TestLayout(t *testing.T) {
	o := options(t)
	result := write(t, o)
	index, err := layout.ImageIndexFromPath(filepath.Join(o.Out, Layout))
	must(t, err)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v: index.json has %+v, want one index", err, manifest)
	}
	entry := manifest.Manifests[0]
	if entry.MediaType != types.OCIImageIndex || entry.Digest.String() != result.Digest || entry.Annotations["org.opencontainers.image.ref.name"] != "v9.8.7" {
		t.Errorf("index.json has %+v, want the index %s", entry, result.Digest)
	}
	for _, platform := range o.Platforms {
		into := t.TempDir()
		config, err := Unpack(filepath.Join(o.Out, Layout), platform, into)
		must(t, err)
		if config.OS+"/"+config.Architecture != platform || !config.Created.Equal(created) {
			t.Errorf("%s: config of %s/%s, created %s", platform, config.OS, config.Architecture, config.Created)
		}
		if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/curfew"}) || len(config.Config.Cmd) != 0 {
			t.Errorf("%s: config %+v, want user 65532:65532, entrypoint /curfew and no command", platform, config.Config)
		}
		for key, want := range map[string]string{"version": "v9.8.7", "revision": "037c104", "created": "2023-11-14T22:13:20Z", "licenses": "Apache-2.0"} {
			if got := config.Config.Labels["org.opencontainers.image."+key]; got != want {
				t.Errorf("%s: label %s is %q, want %q", platform, key, got, want)
			}
		}
		if data, err := os.ReadFile(filepath.Join(into, "curfew")); err != nil || string(data) != "for "+platform {
			t.Errorf("%s: %v: the binary is %q", platform, err, data)
		}
		if info, err := os.Stat(filepath.Join(into, "curfew")); err != nil || !info.ModTime().Equal(created) || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: error %v, file %+v; want mode 755 and the time of creation", platform, err, info)
		}
		if data, err := os.ReadFile(filepath.Join(into, "LICENSE")); err != nil || !strings.Contains(string(data), "Apache License") {
			t.Errorf("%s: %v: no licence", platform, err)
		}
		if data, err := os.ReadFile(filepath.Join(into, "licenses", "example.com", "a", "LICENSE")); err != nil || string(data) != "linked" {
			t.Errorf("%s: %v: the licence of a linked module is %q", platform, err, data)
		}
	}
	if _, err := Unpack(filepath.Join(o.Out, Layout), "linux/s390x", t.TempDir()); err == nil {
		t.Error("found an image for a platform that was not built")
	}
}

// TestArchives: what an engine loads has the name that the manifests use, and is the layout's
// image.
func TestArchives(t *testing.T) {
	o := options(t)
	result := write(t, o)
	if len(result.Files) != 2 || filepath.Base(result.Files[1]) != "curfew-image_v9.8.7_linux_arm64.tar" {
		t.Fatalf("wrote %v", result.Files)
	}
	for i, file := range result.Files {
		contents, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
		if err != nil || len(contents) != 1 || !slices.Equal(contents[0].RepoTags, []string{"curfew:v9.8.7"}) {
			t.Errorf("%v: %s has %+v", err, file, contents)
		}
		image, err := tarball.ImageFromPath(file, nil)
		must(t, err)
		config, err := image.ConfigFile()
		if err != nil || config.OS+"/"+config.Architecture != o.Platforms[i] {
			t.Errorf("%v: %s is for %s/%s", err, file, config.OS, config.Architecture)
		}
	}
}

// TestSameSourceSameDigest: built twice, elsewhere and over an earlier build, an image is the same
// to the byte; another source, version or time makes another.
func TestSameSourceSameDigest(t *testing.T) {
	o := options(t)
	first := write(t, o)
	if again := write(t, o); again.Digest != first.Digest {
		t.Errorf("%s and again %s", first.Digest, again.Digest)
	}
	elsewhere := options(t)
	elsewhere.Created = o.Created.UTC()
	result := write(t, elsewhere)
	if result.Digest != first.Digest {
		t.Errorf("%s and elsewhere %s", first.Digest, result.Digest)
	}
	for name, change := range map[string]func(*Options){
		"time":    func(o *Options) { o.Created = o.Created.Add(time.Second) },
		"version": func(o *Options) { o.Version = "v9.8.8" },
		"source": func(o *Options) {
			o.Build = func(_ v1.Platform, file string) error { return os.WriteFile(file, []byte("other"), 0o600) }
		},
	} {
		changed := options(t)
		change(changed)
		if result := write(t, changed); result.Digest == first.Digest {
			t.Errorf("another %s makes the same image", name)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"a platform": {func(o *Options) { o.Platforms = []string{"linux"} }, "linux: give OS/ARCH, such as linux/amd64"},
		"a name": {func(o *Options) { o.Repository = "Curfew" },
			"name of the image: repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: Curfew"},
		"a build that fails": {func(o *Options) { o.Build = func(v1.Platform, string) error { return io.ErrClosedPipe } },
			"linux/amd64: io: read/write on closed pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			test.change(o)
			if _, err := Write(o); err == nil || err.Error() != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
