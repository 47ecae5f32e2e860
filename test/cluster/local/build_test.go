package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module writes a module like this one, whose control plane is a few lines of the standard library.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module "+modulePath+"\n\ngo 1.26.0\n")
	write(t, dir, "go.sum", "")
	write(t, dir, "controlplane/main.go", "package main\n\nfunc main() {}\n")
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPinned(t *testing.T) {
	dir := module(t)
	if _, _, err := pinned(dir, goMod); err == nil || !strings.HasPrefix(err.Error(), "go.mod in "+dir+" requires no ") {
		t.Errorf("error %v", err)
	}
	const gomod = "module " + modulePath + "\nrequire (\n\tk8s.io/kubernetes v1.36.3\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n\tsigs.k8s.io/kwok v0.8.0 // indirect\n)\n"
	write(t, dir, "go.mod", gomod)
	versions, key, err := pinned(dir, goMod)
	if err != nil || versions != (Versions{Kubernetes: "v1.36.3", Etcd: "v3.6.8", Kwok: "v0.8.0"}) {
		t.Fatalf("versions %+v, error %v; want the versions in go.mod", versions, err)
	}
	for name, content := range map[string]string{"go.mod": gomod + "\n", "go.sum": "x", "controlplane/main.go": "package main"} {
		write(t, dir, name, content)
		_, changed, err := pinned(dir, goMod)
		if err != nil || changed == key {
			t.Errorf("a change of %s goes unnoticed (%v)", name, err)
		}
		key = changed
	}
}

// Each release has a file that pins it, and that of go.mod has two names.
func TestModfileOf(t *testing.T) {
	dir := module(t)
	if _, err := modfileOf(dir, ""); err == nil {
		t.Error("a go.mod that pins nothing is taken")
	}
	const pins = "require (\n\tk8s.io/kubernetes v1.%s.1\n\tgo.etcd.io/etcd/server/v3 v3.6.8\n)\n"
	write(t, dir, "go.mod", fmt.Sprintf(pins, "36"))
	if _, err := modfileOf(dir, ""); err == nil {
		t.Error("a go.mod that pins no kwok is taken")
	}
	write(t, dir, "go.mod", fmt.Sprintf(pins, "36")+"\tsigs.k8s.io/kwok v0.8.0\n")
	write(t, dir, "kubernetes-1.37.mod", fmt.Sprintf(pins, "37"))
	write(t, dir, "kubernetes-1.37.sum", "")
	for release, want := range map[string]string{"": "go.mod", "1.36": "go.mod", "1.37": "kubernetes-1.37.mod"} {
		if got, err := modfileOf(dir, release); err != nil || got != want {
			t.Errorf("release %q: got %q, %v, want %s", release, got, err, want)
		}
	}
	for _, release := range []string{"1.3", "v1.37", "1.37.1", "*"} {
		_, err := modfileOf(dir, release)
		if want := fmt.Sprintf("kubernetes %q: nothing pins it, take one of 1.36, 1.37", release); err == nil || err.Error() != want {
			t.Errorf("release %q: error %v, want %s", release, err, want)
		}
	}
	if versions, _, err := pinned(dir, "kubernetes-1.37.mod"); err != nil || versions.Kubernetes != "v1.37.1" {
		t.Errorf("versions %+v, error %v; want Kubernetes v1.37.1", versions, err)
	}
}

// An artifact is built once, and again when part of it is missing. The build removes the remains of a
// build that crashed.
func TestBuild(t *testing.T) {
	source, bin := module(t), t.TempDir()
	a := artifact{title: "toy", pkg: "./controlplane", dir: filepath.Join(bin, "toy-v1"), binary: "toy", links: []string{"other"}}
	write(t, bin, ".build-123/new/toy", "half a binary")

	build := func(wantBuilt bool) {
		t.Helper()
		var out bytes.Buffer
		if !a.current() {
			if err := a.build(t.Context(), source, bin, &out); err != nil {
				t.Fatal(err)
			}
		}
		if built := strings.Contains(out.String(), "built toy in "); built != wantBuilt {
			t.Errorf("built: %v, want %v: %s", built, wantBuilt, out.String())
		}
		if !a.current() {
			t.Error("not current after the build")
		}
		if left, _ := filepath.Glob(filepath.Join(bin, ".build-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	build(true)
	build(false)
	if err := os.Remove(filepath.Join(a.dir, "other")); err != nil {
		t.Fatal(err)
	}
	build(true)
}

// A build that fails says why and leaves what was there.
func TestBuildFails(t *testing.T) {
	source, bin := module(t), t.TempDir()
	write(t, source, "controlplane/main.go", "package main\n\nfunc main() { nonsense }\n")
	a := artifact{title: "toy", pkg: "./controlplane", dir: filepath.Join(bin, "toy-v1"), binary: "toy"}
	write(t, a.dir, "other", "old")
	err := a.build(t.Context(), source, bin, t.Output())
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("error %v", err)
	}
	if old, err := os.ReadFile(filepath.Join(a.dir, "other")); err != nil || string(old) != "old" {
		t.Errorf("the old file is %q, %v", old, err)
	}
	if left, _ := filepath.Glob(filepath.Join(bin, ".build-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Build uses a folder with all programs as it is. The error names each missing program.
func TestGiven(t *testing.T) {
	full, part := t.TempDir(), t.TempDir()
	for _, name := range programs {
		write(t, full, name, "#!/bin/sh\necho Kubernetes v1.36.9\n")
		if err := os.Chmod(filepath.Join(full, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, part, etcd, "")
	for name, test := range map[string]struct {
		environ map[string]string
		taken   bool
		err     string
	}{
		"none":             {},
		"all":              {environ: map[string]string{"CURFEW_CONTROL_PLANE": full}, taken: true},
		"all, of envtest":  {environ: map[string]string{"KUBEBUILDER_ASSETS": full}, taken: true},
		"some, of envtest": {environ: map[string]string{"KUBEBUILDER_ASSETS": part}},
		"some": {environ: map[string]string{"CURFEW_CONTROL_PLANE": part, "KUBEBUILDER_ASSETS": full},
			err: "CURFEW_CONTROL_PLANE=" + part + " has no kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok: " +
				"add what is missing, or unset the variable to compile all"},
	} {
		t.Run(name, func(t *testing.T) {
			b, ok, err := given(t.Context(), func(name string) string { return test.environ[name] }, t.Output())
			if ok != test.taken || err == nil && test.err != "" || err != nil && err.Error() != test.err {
				t.Fatalf("taken %t, error %v", ok, err)
			}
			if ok && (b.Kubernetes != "v1.36.9" || b.path(kwok) != filepath.Join(full, kwok)) {
				t.Errorf("got %+v", b)
			}
		})
	}
}

func TestBuildEnvironment(t *testing.T) {
	got := buildEnvironment([]string{"A=b", "GOFLAGS=-mod=vendor -modcacherw --tags=x -p=1", "GOWORK=/w", "PWD=/x"})
	if want := []string{"GOGC=400", "A=b", "GOWORK=off", "GOFLAGS=-mod=readonly -modcacherw -p=1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestComponentEnvironment(t *testing.T) {
	got := componentEnvironment([]string{"A=b", "ETCD_NAME=x", "KUBECONFIG=/k", "https_proxy=http://p", dirMark + "=/c", "PATH=/bin"})
	if want := []string{"A=b", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, "toy")
	p.stop()
	lineAt := func(after time.Duration) string { return p.line(p.started.Add(after)) }

	fmt.Fprint(p, "go: downloading k8s.io/api v1\n")
	if got, want := lineAt(5*time.Second), "  0:05  fetching modules  k8s.io/api v1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.expect(30)
	// Written in pieces, as a pipe delivers it.
	fmt.Fprint(p, "internal/abi\nk8s.io/a")
	fmt.Fprint(p, "pi/core/v1\n# k8s.io/api\nfile.go:1:2: oh no\n")
	if got, want := lineAt(65*time.Second), "  1:05  2 of at most 30 packages  k8s.io/api/core/v1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := p.complaint(), "# k8s.io/api\nfile.go:1:2: oh no"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
