package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// modulePath is the path of the module that pins the control plane, this one.
const modulePath = "curfew.dev/curfew/test/cluster"

// Versions of the programs, as go.mod pins them.
type Versions struct {
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	Kwok       string `json:"kwok"`
}

// Binaries is the place of the built binaries.
type Binaries struct {
	Versions
	// ControlPlane and KwokDir are the absolute folders of the binaries.
	ControlPlane, KwokDir string
}

func (b Binaries) path(name string) string {
	if name == kwok {
		return filepath.Join(b.KwokDir, kwok)
	}
	return filepath.Join(b.ControlPlane, name)
}

// Kubectl is the path of the kubectl binary.
func (b Binaries) Kubectl() string { return b.path("kubectl") }

// FindModule returns the folder of this module: from, a parent of it, or test/cluster below one of
// these.
func FindModule(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "test", "cluster")} {
			data, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.Contains(string(data), "module "+modulePath+"\n") {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no module %s in or above %s: run this within the repository", modulePath, from)
		}
	}
}

// artifact is one binary and the folder that it is cached in, whose name ends with a hash of the
// content that it is built from.
type artifact struct {
	title, pkg, dir, binary string
	links                   []string // further names of the binary
	ldflags                 string
	modfile                 string // what pins the versions, in the module's folder
}

// compilerFlags save a tenth of the time of a first build: Kubernetes' own packages are compiled
// without inlining and debug information.
const compilerFlags = "k8s.io/kubernetes/...=-l -dwarf=false"

// Build makes sure that the binaries in cache, an absolute folder, are what module pins for a
// release of Kubernetes such as "1.36" (empty: that of go.mod), and returns their paths. It leaves
// binaries that are up to date alone, in milliseconds. The first build takes minutes, and reports
// its progress to out. Where [given] finds a folder with all binaries, nothing is compiled.
func Build(ctx context.Context, module, cache, release string, out io.Writer) (Binaries, error) {
	if b, ok, err := given(ctx, os.Getenv, out); ok || err != nil {
		return b, err
	}
	b, artifacts, err := plan(module, cache, release)
	if err != nil {
		return Binaries{}, err
	}
	for _, a := range artifacts {
		if a.current() {
			continue
		}
		if err := a.build(ctx, module, cache, out); err != nil {
			return Binaries{}, err
		}
	}
	return b, nil
}

// Built reports whether [Build] would compile nothing.
func Built(ctx context.Context, module, cache, release string, out io.Writer) (bool, error) {
	if _, ok, err := given(ctx, os.Getenv, out); ok || err != nil {
		return ok, err
	}
	_, artifacts, err := plan(module, cache, release)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(artifacts, func(a artifact) bool { return !a.current() }), nil
}

// plan names the artifacts of a release.
func plan(module, cache, release string) (Binaries, []artifact, error) {
	modfile, err := modfileOf(module, release)
	if err != nil {
		return Binaries{}, nil, err
	}
	versions, key, err := pinned(module, modfile)
	if err != nil {
		return Binaries{}, nil, err
	}
	// kwok is a client of any release. Only go.mod pins it: the modules of older releases do not fit.
	usual, usualKey, err := pinned(module, goMod)
	if err != nil {
		return Binaries{}, nil, err
	}
	versions.Kwok = usual.Kwok
	b := Binaries{
		Versions:     versions,
		ControlPlane: filepath.Join(cache, "controlplane-"+versions.Kubernetes+"-"+key),
		KwokDir:      filepath.Join(cache, "kwok-"+usual.Kwok+"-"+usualKey),
	}
	return b, []artifact{
		{
			title: "control plane " + versions.Kubernetes, pkg: "./controlplane", dir: b.ControlPlane, binary: "controlplane",
			links:   []string{etcd, apiServer, controllerManager, scheduler, "kubectl"},
			ldflags: versionFlags(versions.Kubernetes), modfile: modfile,
		},
		{title: "kwok " + versions.Kwok, pkg: "sigs.k8s.io/kwok/cmd/kwok", dir: b.KwokDir, binary: kwok, ldflags: "-s -w", modfile: goMod},
	}, nil
}

// goMod pins the release that is taken where none is asked for. Another has a file of its own, with
// its sums beside it.
const goMod = "go.mod"

// modfileOf is the file that pins a release of Kubernetes.
func modfileOf(module, release string) (string, error) {
	usual, _, err := pinned(module, goMod)
	if err != nil {
		return "", err
	}
	if release == "" || strings.HasPrefix(usual.Kubernetes, "v"+release+".") {
		return goMod, nil
	}
	others, err := filepath.Glob(filepath.Join(module, "kubernetes-*.mod"))
	if err != nil {
		return "", fmt.Errorf("look for other releases: %w", err)
	}
	known := []string{minor(usual.Kubernetes)}
	for _, path := range others {
		name := filepath.Base(path)
		other := strings.TrimSuffix(strings.TrimPrefix(name, "kubernetes-"), ".mod")
		if other == release {
			return name, nil
		}
		known = append(known, other)
	}
	return "", fmt.Errorf("kubernetes %q: nothing pins it, take one of %s", release, strings.Join(known, ", "))
}

// minor is the release of a version: 1.36 of v1.36.3.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// pinned reads a modfile for the versions and hashes everything that the binaries are made of.
func pinned(module, modfile string) (Versions, string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOOS, runtime.GOARCH, compilerFlags)
	var gomod string
	for _, name := range []string{modfile, strings.TrimSuffix(modfile, ".mod") + ".sum", "controlplane/main.go"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return Versions{}, "", fmt.Errorf("read what the control plane is built from: %w", err)
		}
		if name == modfile {
			gomod = string(data)
		}
		fmt.Fprintln(hash, name, len(data))
		hash.Write(data)
	}
	var v Versions
	required := map[string]*string{"k8s.io/kubernetes": &v.Kubernetes, "go.etcd.io/etcd/server/v3": &v.Etcd}
	if modfile == goMod {
		required["sigs.k8s.io/kwok"] = &v.Kwok
	}
	for path, version := range required {
		match := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(path) + ` (v\S+)`).FindStringSubmatch(gomod)
		if match == nil {
			return Versions{}, "", fmt.Errorf("%s in %s requires no %s", modfile, module, path)
		}
		*version = match[1]
	}
	return v, hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// versionFlags tells the binaries their version. Without it, they call themselves v0.0.0, in
// `kubectl version` and for the defaults of feature gates.
func versionFlags(version string) string {
	parts := append(strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3), "", "")
	const base = " -X k8s.io/component-base/version."
	return "-s -w" + base + "gitVersion=" + version + base + "gitMajor=" + parts[0] + base + "gitMinor=" + parts[1] +
		base + "gitTreeState=clean"
}

// current reports whether the folder holds this artifact. A build puts all files there by one rename.
func (a artifact) current() bool {
	return len(missing(a.dir, append([]string{a.binary}, a.links...))) == 0
}

// missing are the names of files that a folder lacks.
func missing(dir string, names []string) (out []string) {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// build compiles into a folder of its own and renames it to its place when it is complete. Only one
// build a cache runs at a time; a build that waited finds the work done. The next build removes
// the remains of one that was cut short.
func (a artifact) build(ctx context.Context, module, cache string, out io.Writer) error {
	unlock, err := lock(cache, func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) })
	if err != nil {
		return err
	}
	defer unlock()
	if a.current() {
		return nil
	}
	stale, err := filepath.Glob(filepath.Join(cache, ".build-*"))
	if err != nil {
		return fmt.Errorf("look for unfinished builds: %w", err)
	}
	for _, dir := range stale {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	work, err := os.MkdirTemp(cache, ".build-")
	if err != nil {
		return fmt.Errorf("make a folder for the build: %w", err)
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "new")
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return fmt.Errorf("make a folder for the build: %w", err)
	}

	if err := a.compile(ctx, module, filepath.Join(fresh, a.binary), out); err != nil {
		return err
	}
	for _, link := range a.links {
		if err := os.Symlink(a.binary, filepath.Join(fresh, link)); err != nil {
			return fmt.Errorf("link %s: %w", link, err)
		}
	}
	// A folder cannot be renamed over one that is not empty, such as one that lacks a file.
	if _, err := os.Stat(a.dir); err == nil {
		if err := os.Rename(a.dir, filepath.Join(work, "old")); err != nil {
			return fmt.Errorf("put the old %s aside: %w", a.title, err)
		}
	}
	if err := os.Rename(fresh, a.dir); err != nil {
		return fmt.Errorf("put %s in its place: %w", a.title, err)
	}
	return nil
}

// compile runs `go build`, with its progress on out.
func (a artifact) compile(ctx context.Context, module, target string, out io.Writer) error {
	progress := newProgress(out, a.title)
	defer progress.stop()

	list := exec.CommandContext(ctx, "go", "list", "-modfile="+a.modfile, "-deps", a.pkg)
	list.Dir, list.Env, list.Stderr = module, buildEnvironment(os.Environ()), progress
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("find the packages of %s: %w\n%s", a.title, err, progress.complaint())
	}
	progress.expect(strings.Count(string(packages), "\n"))

	build := exec.CommandContext(ctx, "go", "build", "-modfile="+a.modfile, "-v", "-buildvcs=false", "-trimpath",
		"-gcflags="+compilerFlags, "-ldflags", a.ldflags, "-o", target, a.pkg)
	build.Dir, build.Env = module, buildEnvironment(os.Environ())
	build.Stdout, build.Stderr = progress, progress
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", a.title, err, progress.complaint())
	}
	progress.done()
	return nil
}

// buildEnvironment removes variables that are meant for the product's module and would break or
// change this build: a workspace, and flags about modules, tags and instrumentation.
func buildEnvironment(environ []string) []string {
	kept := make([]string, 0, len(environ)+3)
	// Compiler and linker collect their garbage less often: that takes a fifth less of both cores, and
	// half a gigabyte each at most.
	kept = append(kept, "GOGC=400") // What the environment says comes later, and counts.
	flags := ""
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case "GOFLAGS":
			flags = value
		case "GOWORK", "PWD":
		default:
			kept = append(kept, variable)
		}
	}
	// Never empty: where it is, what `go env -w` has stored would count again.
	safe := []string{"-mod=readonly"}
	for _, flag := range strings.Fields(flags) {
		switch name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); name {
		case "mod", "modfile", "overlay", "tags", "race", "msan", "asan", "cover", "coverpkg", "covermode", "C", "v", "x", "n", "json":
		default:
			safe = append(safe, flag)
		}
	}
	return append(kept, "GOWORK=off", "GOFLAGS="+strings.Join(safe, " "))
}
