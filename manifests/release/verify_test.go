package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"curfew.dev/curfew/manifests/release/image"
)

const commit = "0371042aa5eee3dc13d9f0e3cce5c5a5a5a5a5a5"

// made makes a release with a binary that is none, and the checksums.
func made(t *testing.T) *release {
	t.Helper()
	r := &release{root: top, out: t.TempDir(), repository: "registry.example.com/platform/curfew", version: "v0.1.0", builder: "https://ci.example.com",
		platforms: []string{"linux/amd64"}, progress: io.Discard,
		build: func(_ v1.Platform, file string) error { return os.WriteFile(file, []byte("binary"), 0o600) }}
	must(t, r.complete())
	r.revision = commit
	r.key = keyFile(t, newKey(t, elliptic.P256()))
	for _, step := range []func() ([]string, error){r.image, r.chart, r.install, r.provenance, r.checksums} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func newKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	must(t, err)
	return key
}

func keyFile(t *testing.T, key crypto.PrivateKey) string {
	t.Helper()
	data, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return write(t, filepath.Join(t.TempDir(), "throwaway.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data})))
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// publish writes the public half of the key that signs.
func (r *release) publish(t *testing.T) {
	t.Helper()
	key, err := readKey(r.key)
	must(t, err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, err)
	write(t, filepath.Join(r.out, "curfew.pub"), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
}

var (
	blocks = regexp.MustCompile("(?ms)^```\n(.*?)^```$")
	// offline are the commands of docs/verify.md that need neither registry nor network, nor cosign.
	offline = regexp.MustCompile(`^(openssl base64|sha256sum|grep|cd) `)
)

// TestVerify runs the commands of docs/verify.md on a release that was signed with a throwaway key.
// They accept it, and refuse each file that was changed, and a signature of another key.
func TestVerify(t *testing.T) {
	r := made(t)
	if _, err := r.sign(); err != nil {
		t.Fatal(err)
	}
	r.publish(t)
	var commands []string
	for _, block := range blocks.FindAllStringSubmatch(read(t, filepath.Join(top, "docs", "verify.md")), -1) {
		for line := range strings.Lines(block[1]) {
			if offline.MatchString(line) {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	if len(commands) != 4 {
		t.Fatalf("docs/verify.md has %q, want 4 commands", commands)
	}
	// failing are the commands that do not accept the release.
	failing := func(t *testing.T) (out []string) {
		for _, command := range commands {
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
			cmd.Dir = r.out
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Logf("%s: %v: %s", command, err, text)
				out = append(out, command)
			}
		}
		return out
	}
	if failed := failing(t); failed != nil {
		t.Fatalf("refused what was built: %q", failed)
	}
	blob := filepath.Join(image.Layout, "blobs", "sha256", strings.TrimPrefix(r.digest, "sha256:"))
	for file, want := range map[string]string{
		"SHA256SUMS": "openssl base64 -d -A -in SHA256SUMS.sig", "install.yaml": "sha256sum", "curfew_v0.1.0.cdx.json": "sha256sum",
		"provenance.json": "sha256sum", "image-digest.txt": "sha256sum", "curfew-0.1.0.tgz": "openssl base64 -d -A -in curfew-0.1.0.tgz.sig",
		blob: "cd image/blobs", "image/index.json": "sha256sum", "curfew.pub": "openssl",
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(r.out, file)
			before := read(t, path)
			defer write(t, path, before)
			if file == "curfew.pub" {
				other := &release{out: r.out, key: keyFile(t, newKey(t, elliptic.P256()))}
				other.publish(t)
			} else {
				write(t, path, before+"# changed\n")
			}
			if failed := failing(t); !slices.ContainsFunc(failed, func(command string) bool { return strings.HasPrefix(command, want) }) {
				t.Errorf("%s was changed, and %q accepts that; failed: %q", file, want, failed)
			}
		})
	}
	if failed := failing(t); failed != nil {
		t.Errorf("refused what was restored: %q", failed)
	}
}

// TestSignRefuses: only files that are as the checksums say are signed, with a key that others can
// verify, and from a commit unless someone says otherwise.
func TestSignRefuses(t *testing.T) {
	r := made(t)
	ec, err := x509.MarshalECPrivateKey(newKey(t, elliptic.P256()))
	must(t, err)
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	sec1 := write(t, filepath.Join(t.TempDir(), "a.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ec})))
	const keys = ": give a P-256 key in PKCS #8 without a password"
	file := func(name, text string) func(*testing.T, *release) {
		return func(t *testing.T, r *release) { write(t, filepath.Join(r.out, name), text) }
	}
	// built makes a release another time. Who signs it has a clean commit.
	built := func(change func(*release)) func(*testing.T, *release) {
		return func(t *testing.T, r *release) {
			before := r.revision
			change(r)
			must(t, os.Rename(filepath.Join(r.out, "curfew_v0.1.0.cdx.json"), filepath.Join(r.out, "curfew_"+r.version+".cdx.json")))
			for _, step := range []func() ([]string, error){r.provenance, r.checksums} {
				if _, err := step(); err != nil {
					t.Fatal(err)
				}
			}
			r.revision = before
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, *release)
		want   string
	}{
		"a changed file":    {file("install.yaml", "kind: Other"), "install.yaml differs from its line in SHA256SUMS: make the release again"},
		"a new file":        {file("extra.yaml", "kind: Other"), "extra.yaml differs from its line in SHA256SUMS: make the release again"},
		"a changed list":    {file("SHA256SUMS", strings.Repeat("0", 64)+"  install.yaml\n"), " differs from its line in SHA256SUMS"},
		"a missing file":    {func(t *testing.T, r *release) { remove(t, filepath.Join(r.out, "install.yaml")) }, `  install.yaml", which is missing: make the release again`},
		"no checksums":      {func(t *testing.T, r *release) { remove(t, filepath.Join(r.out, "SHA256SUMS")) }, "no such file or directory: make the checksums first"},
		"another image":     {func(t *testing.T, r *release) { otherImage(t, r) }, `, and image-digest.txt is "sha256:`},
		"a changed commit":  {built(func(r *release) { r.revision += "-dirty" }), "-version=v0.1.0: it was built from files that differ from commit " + commit + ": commit them and make the release again, or give -dirty"},
		"… that says so":    {built(func(r *release) { r.revision, r.version = r.revision+"-dirty", "v0.1.0-1-g0371042-dirty" }), ""},
		"… and a flag":      {built(func(r *release) { r.revision, r.dirty = r.revision+"-dirty", true }), ""},
		"another version":   {func(_ *testing.T, r *release) { r.version = "v0.2.0" }, "-version=v0.2.0: provenance.json says that it was built as v0.1.0"},
		"another name":      {func(_ *testing.T, r *release) { r.repository = "registry.example.com/other" }, "-repository=registry.example.com/other: provenance.json says that it was built as registry.example.com/platform/curfew"},
		"no key":            {func(_ *testing.T, r *release) { r.key = "" }, "-key: name the file of a private key (SIGN_KEY=file)"},
		"a key that is not": {func(_ *testing.T, r *release) { r.key = "absent.key" }, "-key: open absent.key: no such file or directory"},
		"another curve":     {func(t *testing.T, r *release) { r.key = keyFile(t, newKey(t, elliptic.P384())) }, keys},
		"an RSA key":        {func(t *testing.T, r *release) { r.key = keyFile(t, big) }, keys},
		"another form":      {func(_ *testing.T, r *release) { r.key = sec1 }, keys},
	} {
		t.Run(name, func(t *testing.T) {
			changed := *r
			changed.out = t.TempDir()
			must(t, os.CopyFS(changed.out, os.DirFS(r.out)))
			test.change(t, &changed)
			_, err := changed.sign()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if left, _ := filepath.Glob(filepath.Join(changed.out, "*.sig")); err != nil && left != nil {
				t.Errorf("signed %v", left)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.Remove(path))
}

// otherImage replaces the layout, and not the digest beside it.
func otherImage(t *testing.T, r *release) {
	t.Helper()
	before := read(t, filepath.Join(r.out, digestFile))
	r.build = func(_ v1.Platform, file string) error { return os.WriteFile(file, []byte("other"), 0o600) }
	if _, err := r.image(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.out, digestFile), before)
	if _, err := r.checksums(); err != nil {
		t.Fatal(err)
	}
}

// TestProvenance: the statement has all files and the image, with the digests that they have, the
// commit unless files differed from it, and the same bytes each time.
func TestProvenance(t *testing.T) {
	r := made(t)
	text := read(t, filepath.Join(r.out, provenanceFile))
	type digest map[string]string
	var got struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest digest
		}
		Predicate struct {
			BuildDefinition struct {
				BuildType            string
				ExternalParameters   map[string]any
				ResolvedDependencies []struct {
					URI    string
					Digest digest
				}
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	must(t, json.Unmarshal([]byte(text), &got))
	definition := got.Predicate.BuildDefinition
	if got.Type != "https://in-toto.io/Statement/v1" || got.PredicateType != "https://slsa.dev/provenance/v1" || definition.BuildType == "" ||
		got.Predicate.RunDetails.Builder.ID != "https://ci.example.com" || definition.ExternalParameters["version"] != "v0.1.0" {
		t.Errorf("statement %s", text)
	}
	if deps := definition.ResolvedDependencies; len(deps) != 2 || !strings.HasPrefix(deps[0].URI, "pkg:generic/go@1.") || deps[1].Digest["gitCommit"] != commit {
		t.Errorf("made from %+v", deps)
	}
	listed := read(t, filepath.Join(r.out, sumsFile))
	for _, subject := range got.Subject {
		if subject.Name == "registry.example.com/platform/curfew:v0.1.0" {
			if "sha256:"+subject.Digest["sha256"] != r.digest {
				t.Errorf("the image has digest %s, want %s", subject.Digest, r.digest)
			}
			continue
		}
		listed = strings.Replace(listed, subject.Digest["sha256"]+"  "+subject.Name+"\n", "", 1)
	}
	if !regexp.MustCompile(`^[0-9a-f]{64}  provenance\.json\n$`).MatchString(listed) {
		t.Errorf("the statement has not: %s", listed)
	}
	for _, revision := range []string{commit, commit + "-dirty"} {
		r.revision = revision
		if _, err := r.provenance(); err != nil {
			t.Fatal(err)
		}
		again := read(t, filepath.Join(r.out, provenanceFile))
		if clean := revision == commit; (again == text) != clean || strings.Contains(again, "gitCommit") != clean || !strings.Contains(again, revision) {
			t.Errorf("%s: statement %s", revision, again)
		}
	}
}

// TestNamedByDigest: the chart and the single files of a release run the image that was built, by
// its digest.
func TestNamedByDigest(t *testing.T) {
	r := made(t)
	for _, name := range []string{"install.yaml", "install-dry-run.yaml"} {
		if image := "image: registry.example.com/platform/curfew:v0.1.0@" + r.digest + "\n"; strings.Count(read(t, filepath.Join(r.out, name)), image) != 2 {
			t.Errorf("%s does not run %s", name, image)
		}
	}
	if chart := read(t, filepath.Join(r.out, "chart", "curfew", "Chart.yaml")); !strings.Contains(chart, "curfew.dev/image-digest: "+r.digest+"\n") {
		t.Errorf("the chart has another digest than %s", r.digest)
	}
}
