package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/pack"
)

var top = filepath.Join("..", "..")

// TestChecksums: sha256sum --check reads the file, which names all files but itself, and no
// folders.
func TestChecksums(t *testing.T) {
	r := &release{out: t.TempDir()}
	must(t, os.MkdirAll(filepath.Join(r.out, "image"), 0o755))
	var want string
	for _, name := range []string{"a.tgz", "b.yaml"} {
		must(t, os.WriteFile(filepath.Join(r.out, name), []byte(name), 0o600))
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(name)), name)
	}
	for range 2 {
		made, err := r.checksums()
		if err != nil || len(made) != 1 {
			t.Fatal(made, err)
		}
		if text, err := os.ReadFile(made[0]); err != nil || string(text) != want {
			t.Errorf("%v: %s, want %s", err, text, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-version=v0.1.0":                      "name what to make",
		"-version=v0.1.0 images":               `"images": give one of image, chart, install, source, provenance, checksums, sign, push`,
		"-version=0371042 image":               "-version=0371042: give one such as v0.1.0",
		"-version=v0.1.0 -platforms=arm image": "image: arm: give OS/ARCH, such as linux/amd64",
	} {
		if err := run(append([]string{"-root=" + t.TempDir(), "-out=" + t.TempDir()}, strings.Fields(args)...), io.Discard, io.Discard); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// TestMakeRelease: make release makes all parts, in a clone without tags, too, and passes on what
// people give it.
func TestMakeRelease(t *testing.T) {
	absolute, err := filepath.Abs(top)
	must(t, err)
	command := regexp.MustCompile(`go -C manifests/release run \. -version "([^"]*)" (.*)`)
	for args, want := range map[string]string{
		"release VERSION=v0.1.0":                              "v0.1.0 image chart install source provenance checksums",
		"release VERSION=0371042":                             "v0.0.0-g0371042 image chart install source provenance checksums",
		"image VERSION=v0.1.0 IMAGE=registry.example.com/c":   `v0.1.0 -repository "registry.example.com/c" image`,
		"chart VERSION=v0.1.0 RUNBOOKS=https://a.example/":    `v0.1.0 -runbooks "https://a.example/" chart`,
		"chart VERSION=v0.1.0-3-g037c104":                     "v0.1.0-3-g037c104 chart",
		"image VERSION=v0.1.0 PLATFORMS=linux/amd64":          `v0.1.0 -platforms "linux/amd64" image`,
		"release VERSION=v0.1.0 SIGN_KEY=a.key":               `v0.1.0 -key "` + absolute + `/a.key" image chart install source provenance checksums sign`,
		"sign VERSION=v0.1.0 SIGN_KEY=/a.key DIRTY=1":         `v0.1.0 -key "/a.key" -dirty sign`,
		"sign VERSION=v0.1.0 SIGN_KEY=/a.key PGP_KEY=/a.gpg":  `v0.1.0 -key "/a.key" -pgp-key "/a.gpg" sign`,
		"push VERSION=v0.1.0 IMAGE=registry.example.com/c":    `v0.1.0 -repository "registry.example.com/c" push`,
		"release VERSION=unknown IMAGE=registry.example.com/": `v0.0.0-gunknown -repository "registry.example.com/" image chart install source provenance checksums`,
	} {
		cmd := exec.Command("make", append([]string{"-n"}, strings.Fields(args)...)...)
		cmd.Dir = top
		out, err := cmd.CombinedOutput()
		found := command.FindSubmatch(out)
		if err != nil || found == nil {
			t.Fatalf("%s fails, or does not name the command: %v\n%s", args, err, out)
		}
		if got := string(found[1]) + " " + strings.Join(strings.Fields(string(found[2])), " "); got != want || !pack.Version.Match(found[1]) {
			t.Errorf("make %s runs %s, want %s", args, got, want)
		}
		if krew := strings.Contains(string(out), "manifests/krew"); krew != strings.HasPrefix(args, "release") {
			t.Errorf("make %s: krew: %t", args, krew)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
