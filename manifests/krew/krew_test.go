package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/builders"
)

// fake builds nothing: the file says what it was to be.
func fake(goos, goarch, version, file string) error {
	return os.WriteFile(file, []byte(goos+" "+goarch+" "+version), 0o600)
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return data
}

// unpack is what an archive holds, by name, and which of it may be run.
func unpack(t *testing.T, archive []byte) (content map[string][]byte, programs []string) {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	content = map[string][]byte{}
	for packed := tar.NewReader(zipped); ; {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			return content, programs
		}
		must(t, err)
		content[header.Name], err = io.ReadAll(packed)
		must(t, err)
		if header.Mode&0o111 != 0 {
			programs = append(programs, header.Name)
		}
	}
}

// TestManifest: what the manifest says of each platform is true of the archive that lies beside it,
// by the rules of krew: a name, a version, one archive for a platform, its checksum, and a program
// in it, with the licence.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	all := strings.Split(platforms, ",")
	var progress strings.Builder
	files, err := (&release{version: "v1.2.3", out: dir, url: "https://example.com/releases/v1.2.3/", homepage: "https://example.com",
		platforms: all, build: fake, progress: &progress}).pack()
	must(t, err)
	if len(files) != len(all)+2 || filepath.Base(files[len(all)+1]) != "kubectl-curfew_v1.2.3.cdx.json" {
		t.Errorf("wrote %v", files)
	}
	if shown := progress.String(); !strings.HasPrefix(shown, "darwin/amd64 (1 of 5)\n") || strings.Count(shown, "\n") != len(all) {
		t.Errorf("progress %q", shown)
	}
	var manifest plugin
	must(t, yaml.UnmarshalStrict(read(t, filepath.Join(dir, "curfew.yaml")), &manifest))
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" || manifest.Metadata.Name != "curfew" ||
		manifest.Spec.Version != "v1.2.3" || manifest.Spec.Homepage != "https://example.com" {
		t.Errorf("the manifest begins with %+v", manifest)
	}
	// Short enough for a line of krew's tables.
	if short := manifest.Spec.ShortDescription; short == "" || len(short) > 50 || strings.HasSuffix(short, ".") {
		t.Errorf("short description %q", short)
	}
	var seen []string
	for _, each := range manifest.Spec.Platforms {
		goos, goarch := each.Selector.MatchLabels["os"], each.Selector.MatchLabels["arch"]
		seen = append(seen, goos+"/"+goarch)
		name, ok := strings.CutPrefix(each.URI, "https://example.com/releases/v1.2.3/")
		if !ok || name != "kubectl-curfew_v1.2.3_"+goos+"_"+goarch+".tar.gz" {
			t.Errorf("%s/%s: uri %s", goos, goarch, each.URI)
			continue
		}
		archive := read(t, filepath.Join(dir, name))
		if sum := sha256.Sum256(archive); each.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: sha256 %s", name, each.SHA256)
		}
		content, programs := unpack(t, archive)
		if string(content[each.Bin]) != goos+" "+goarch+" v1.2.3" || !slices.Contains(programs, each.Bin) {
			t.Errorf("%s: %s is %q, and programs are %v", name, each.Bin, content[each.Bin], programs)
		}
		if strings.HasSuffix(each.Bin, ".exe") != (goos == "windows") {
			t.Errorf("%s: bin %s", name, each.Bin)
		}
		if !bytes.Contains(content["LICENSE"], []byte("Apache License")) {
			t.Errorf("%s holds no licence", name)
		}
		if !bytes.Contains(content["licenses/k8s.io/client-go/LICENSE"], []byte("Apache License")) {
			t.Errorf("%s holds no licences of linked modules", name)
		}
		if completes := slices.Contains(programs, "kubectl_complete-curfew"); completes != (goos != "windows") {
			t.Errorf("%s: completion: %t", name, completes)
		}
	}
	if !slices.Equal(seen, all) {
		t.Errorf("platforms %v, want %v", seen, all)
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		release release
		want    string
	}{
		"no version": {release{platforms: []string{"linux/amd64"}}, "-version=: give one such as v0.1.0 (make krew VERSION=v0.1.0)"},
		"no semantic version": {release{version: "037c104-dirty", platforms: []string{"linux/amd64"}},
			"-version=037c104-dirty: give one such as v0.1.0 (make krew VERSION=v0.1.0)"},
		"a platform": {release{version: "v0.1.0", platforms: []string{"linux"}}, `-platforms: "linux": give OS/ARCH, such as linux/amd64`},
		"an address": {release{version: "v0.1.0", url: "http://x", platforms: []string{"linux/amd64"}},
			"-url=http://x: give an address that begins with https://"},
		"a build that fails": {release{version: "v0.1.0", platforms: []string{"linux/amd64"}}, "linux/amd64: no compiler"},
	} {
		t.Run(name, func(t *testing.T) {
			test.release.out, test.release.progress = t.TempDir(), io.Discard
			test.release.build = func(_, _, _, _ string) error { return errors.New("no compiler") }
			if _, err := test.release.pack(); err == nil || err.Error() != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestArchiveRuns: the archive of this machine's platform, built by go, holds a plugin that runs
// and knows its version. It is built as by make build, whose packages are compiled already.
func TestArchiveRuns(t *testing.T) {
	dir := t.TempDir()
	asMake := func(_, _, version, file string) error { return compile(version, file, nil) }
	files, err := (&release{version: "v9.8.7", out: dir, platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, build: asMake, progress: io.Discard}).pack()
	must(t, err)
	content, _ := unpack(t, read(t, files[0]))
	plugin := filepath.Join(dir, binary(runtime.GOOS))
	must(t, os.WriteFile(plugin, content[binary(runtime.GOOS)], 0o700))
	out, err := exec.Command(plugin, "version", "--client").CombinedOutput()
	if err != nil || !regexp.MustCompile(`^kubectl curfew version v9\.8\.7\ncommit ([0-9a-f]{40}(-dirty)?|unknown)\n$`).Match(out) {
		t.Errorf("error %v, output %q; want version v9.8.7 and the commit", err, out)
	}
}

// plugin is krew's manifest of a plugin, as far as this one needs it. Source: krew's developer
// guide, "Writing a plugin manifest".
type plugin struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   metadata   `json:"metadata"`
	Spec       pluginSpec `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type pluginSpec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage,omitempty"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

var must = builders.Must
