package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/linked"
	"curfew.dev/curfew/manifests/release/image"
)

// full skips tests that compile all of Curfew once more: make test-full runs them.
func full(t *testing.T) {
	t.Helper()
	if os.Getenv("FULL") == "" {
		t.Skip("compiles all of Curfew once more; FULL=1 runs it")
	}
}

// TestBuiltTwice: make release in two clones, in different folders, makes the same files to the
// byte. RELEASE has more arguments, such as PLATFORMS=linux/amd64.
func TestBuiltTwice(t *testing.T) {
	full(t)
	var made [2]string
	for i := range made {
		clone := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i), "curfew")
		command(t, top, "git", "clone", "--quiet", "--no-tags", ".", clone)
		command(t, clone, "make", append([]string{"release", "VERSION=v0.1.0", "IMAGE=registry.example.com/curfew"},
			strings.Fields(os.Getenv("RELEASE"))...)...)
		made[i] = read(t, filepath.Join(clone, "dist", sumsFile))
		digest, err := image.Digest(filepath.Join(clone, "dist", image.Layout))
		if err != nil || !strings.Contains(read(t, filepath.Join(clone, "dist", "install.yaml")), "@"+digest+"\n") {
			t.Errorf("error %v; install.yaml does not name the image by %s", err, digest)
		}
	}
	if made[0] != made[1] {
		t.Errorf("made\n%s\nand elsewhere\n%s", made[0], made[1])
	}
	for _, file := range []string{"curfew-image_v0.1.0_linux_amd64.tar", "curfew-0.1.0.tgz", "install.yaml", "curfew-v0.1.0-src.tar.gz",
		"kubectl-curfew_v0.1.0_", "curfew_v0.1.0.cdx.json", "kubectl-curfew_v0.1.0.cdx.json", "image-digest.txt", "provenance.json"} {
		if !strings.Contains(made[0], "  "+file) {
			t.Errorf("there is no %s in\n%s", file, made[0])
		}
	}
}

// TestSourceArchive: Curfew builds from the source archive without network and without any module
// on the machine, and so does its release, which finds the same licences there.
func TestSourceArchive(t *testing.T) {
	full(t)
	r := &release{root: top, out: t.TempDir(), version: "v0.1.0", progress: t.Output()}
	must(t, r.complete())
	here, err := linked.Modules(top, image.Program, "linux/amd64")
	must(t, err)
	made, err := r.source()
	must(t, err)
	command(t, r.out, "tar", "-xzf", made[0])
	unpacked := filepath.Join(r.out, "curfew-v0.1.0")
	for name, value := range map[string]string{"GOPROXY": "off", "GOFLAGS": "-mod=vendor", "GOMODCACHE": filepath.Join(r.out, "modules"), "GOWORK": "off"} {
		t.Setenv(name, value)
	}
	cut := withoutNetwork(t)
	command(t, unpacked, cut[0], append(cut[1:], "go", "build", "-o", "built", "./cmd/curfew")...)
	if out := command(t, unpacked, "./built", "version"); out != "curfew dev\ncommit unknown\n" {
		t.Errorf("the program prints %q", out)
	}
	command(t, unpacked, cut[0], append(cut[1:], "make", "release", "VERSION=v0.1.0", "PLATFORMS=linux/amd64", "KREW=-platforms=linux/amd64")...)
	command(t, filepath.Join(unpacked, "dist"), "sha256sum", "--check", sumsFile)
	there, err := linked.Modules(unpacked, image.Program, "linux/amd64")
	must(t, err)
	if !reflect.DeepEqual(here, there) {
		t.Errorf("the archive has the modules %s, want %s", names(there), names(here))
	}
	again := *r
	again.root = unpacked
	if err := again.complete(); err != nil || again.revision != "" {
		t.Errorf("error %v; the archive has commit %q, want none", err, again.revision)
	}
}

// withoutNetwork begins a command that runs in a network namespace of its own, where the machine
// permits that. GOPROXY=off holds everywhere.
func withoutNetwork(t *testing.T) []string {
	t.Helper()
	for _, cut := range [][]string{{"unshare", "--net"}, {"unshare", "--map-root-user", "--net"}} {
		if exec.CommandContext(t.Context(), cut[0], append(cut[1:], "true")...).Run() == nil {
			return cut
		}
	}
	t.Log("this machine permits no network namespace: only GOPROXY=off keeps the build from the network")
	return []string{"env"}
}

func names(modules []linked.Module) string {
	var out strings.Builder
	for _, module := range modules {
		fmt.Fprintf(&out, "\n%s %s %v, %d files", module.Path, module.Version, module.Licences, len(module.Files))
	}
	return out.String()
}

// command runs a command to its end and returns its output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
