package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/provenance"

	"curfew.dev/curfew/manifests/release/image"
)

// toRegistry makes a signed release, and returns a repository in a registry on loopback.
func toRegistry(t *testing.T) (*release, name.Repository) {
	t.Helper()
	r := made(t)
	if _, err := r.sign(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/platform/curfew")
	must(t, err)
	return r, repository
}

// layers are the contents of an image in a registry, which have the media type, and the signatures
// in its manifest.
func layers(t *testing.T, ref name.Reference, kind string) (contents, signatures [][]byte) {
	t.Helper()
	pulled, err := remote.Image(ref)
	must(t, err)
	manifest, err := pulled.Manifest()
	must(t, err)
	all, err := pulled.Layers()
	must(t, err)
	for i, layer := range all {
		content, err := layer.Compressed()
		must(t, err)
		data, err := io.ReadAll(content)
		must(t, err)
		text, ok := manifest.Layers[i].Annotations["dev.cosignproject.cosign/signature"]
		signature, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || string(manifest.Layers[i].MediaType) != kind {
			t.Errorf("layer %+v with signature %q, error %v; want media type %s", manifest.Layers[i], text, err, kind)
		}
		contents, signatures = append(contents, data), append(signatures, signature)
	}
	return contents, signatures
}

// TestPush: a registry gets the image under its tag, and beside it what cosign reads: a payload that
// names the digest, signed by the key, and SBOM and provenance as statements about this digest alone
// that the key has signed.
func TestPush(t *testing.T) {
	r, repository := toRegistry(t)
	r.repository = repository.Name()
	pushed, err := r.push()
	base := strings.Replace(r.digest, ":", "-", 1)
	if err != nil || len(pushed) != 3 || pushed[2] != r.repository+":v0.1.0@"+r.digest || !strings.HasPrefix(pushed[0], r.repository+":"+base+".sig@") {
		t.Fatalf("error %v, pushed %q", err, pushed)
	}
	for _, ref := range []name.Reference{repository.Tag("v0.1.0"), repository.Digest(r.digest)} {
		if found, err := remote.Index(ref); err != nil {
			t.Error(err)
		} else if digest, err := found.Digest(); err != nil || digest.String() != r.digest {
			t.Errorf("%s: error %v, digest %s, want %s", ref, err, digest, r.digest)
		}
	}
	key, err := readKey(r.key)
	must(t, err)
	verified := func(data, signature []byte) bool {
		sum := sha256.Sum256(data)
		return ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature)
	}
	payloads, signatures := layers(t, repository.Tag(base+".sig"), "application/vnd.dev.cosign.simplesigning.v1+json")
	if len(payloads) != 1 || !verified(payloads[0], signatures[0]) || string(payloads[0]) != `{"critical":{"identity":{"docker-reference":`+
		`"registry.example.com/platform/curfew"},"image":{"docker-manifest-digest":"`+r.digest+`"},"type":"cosign container image signature"},"optional":null}` {
		t.Errorf("payloads %q, signatures %q", payloads, signatures)
	}
	want := map[string]string{"https://cyclonedx.org/bom": "curfew_v0.1.0.cdx.json", "https://slsa.dev/provenance/v1": provenanceFile}
	envelopes, _ := layers(t, repository.Tag(base+".att"), "application/vnd.dsse.envelope.v1+json")
	for _, data := range envelopes {
		var envelope struct {
			PayloadType string
			Payload     []byte
			Signatures  []struct{ Sig []byte }
		}
		must(t, json.Unmarshal(data, &envelope))
		signed := fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(envelope.Payload), envelope.Payload)
		if len(envelope.Signatures) != 1 || envelope.PayloadType != "application/vnd.in-toto+json" || !verified(signed, envelope.Signatures[0].Sig) {
			t.Errorf("the key has not signed %s", data)
		}
		var statement, file map[string]any
		must(t, json.Unmarshal(envelope.Payload, &statement))
		kind, _ := statement["predicateType"].(string)
		must(t, json.Unmarshal([]byte(read(t, filepath.Join(r.out, want[kind]))), &file))
		if kind == "https://slsa.dev/provenance/v1" {
			file, _ = file["predicate"].(map[string]any)
		}
		about := []any{map[string]any{"name": "registry.example.com/platform/curfew", "digest": map[string]any{"sha256": strings.TrimPrefix(r.digest, "sha256:")}}}
		if statement["_type"] != "https://in-toto.io/Statement/v1" || !reflect.DeepEqual(statement["subject"], about) || !reflect.DeepEqual(statement["predicate"], any(file)) {
			t.Errorf("statement %s", envelope.Payload)
		}
		delete(want, kind)
	}
	if len(want) > 0 {
		t.Errorf("there is no attestation for %v", want)
	}
}

// TestPushRefuses: no image is pushed that differs from its digest, nor a signature of another
// image, nor to a registry that is not named. A release that is not signed is pushed alone.
func TestPushRefuses(t *testing.T) {
	r, repository := toRegistry(t)
	for name, test := range map[string]struct {
		change func(*testing.T, *release)
		want   string
	}{
		"no registry":     {func(_ *testing.T, r *release) { r.repository = "curfew" }, "-repository=curfew: name its registry, too"},
		"a changed image": {func(t *testing.T, r *release) { otherImage(t, r) }, ", and image-digest.txt is "},
		"another image": {func(t *testing.T, r *release) {
			r.build = func(_ v1.Platform, file string) error { return os.WriteFile(file, []byte("other"), 0o600) }
			if _, err := r.image(); err != nil {
				t.Fatal(err)
			}
		}, "image-signature has tag sha256-"},
		"no signature": {func(t *testing.T, r *release) {
			must(t, os.RemoveAll(filepath.Join(r.out, image.Signature)))
			must(t, os.RemoveAll(filepath.Join(r.out, image.Attestations)))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := *r
			changed.out, changed.repository = t.TempDir(), repository.Name()
			must(t, os.CopyFS(changed.out, os.DirFS(r.out)))
			test.change(t, &changed)
			pushed, err := changed.push()
			if test.want == "" && (err != nil || len(pushed) != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, pushed %q; want %q", err, pushed, test.want)
			}
		})
	}
}

// TestCosign runs the commands of docs/verify.md with cosign, which must be on PATH: it is no Go
// module of ours. TestPush checks the same signatures with the key alone.
func TestCosign(t *testing.T) {
	if _, err := exec.LookPath("cosign"); err != nil {
		t.Skip("no cosign on PATH")
	}
	r, repository := toRegistry(t)
	r.publish(t)
	r.repository = repository.Name()
	if _, err := r.push(); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^cosign verify.* --key .*$`).FindAllString(read(t, filepath.Join(top, "docs", "verify.md")), -1)
	for _, valid := range []bool{true, false} {
		for _, command := range commands {
			cmd := exec.CommandContext(context.Background(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(command, "registry.example.com/platform/curfew", r.repository))
			cmd.Dir = r.out
			if text, err := cmd.CombinedOutput(); (err == nil) != valid {
				t.Errorf("%s: error %v, want it to be valid: %v\n%s", command, err, valid, text)
			}
		}
		(&release{out: r.out, key: keyFile(t, newKey(t, elliptic.P256()))}).publish(t)
	}
	if len(commands) != 4 {
		t.Errorf("docs/verify.md has %q, want 4 commands", commands)
	}
}

// TestHelmVerify: Helm verifies the chart with the public half of the key, and refuses another chart.
func TestHelmVerify(t *testing.T) {
	r := made(t)
	entity, err := openpgp.NewEntity("Curfew", "", "releases@example.com", nil)
	must(t, err)
	var private, public bytes.Buffer
	must(t, entity.SerializePrivate(&private, nil))
	must(t, entity.Serialize(&public))
	r.pgpKey = write(t, filepath.Join(t.TempDir(), "private.gpg"), private.String())
	for range 2 { // The first one's file is in no checksum.
		if _, err := r.sign(); err != nil {
			t.Fatal(err)
		}
	}
	ring, err := provenance.NewFromKeyring(write(t, filepath.Join(t.TempDir(), "public.gpg"), public.String()), "")
	must(t, err)
	chart := filepath.Join(r.out, "curfew-0.1.0.tgz")
	for content, valid := range map[string]bool{read(t, chart): true, read(t, chart) + "changed": false} {
		if _, err := ring.Verify([]byte(content), []byte(read(t, chart+".prov")), "curfew-0.1.0.tgz"); (err == nil) != valid {
			t.Errorf("error %v, want it to be valid: %v", err, valid)
		}
	}
	r.pgpKey = write(t, filepath.Join(t.TempDir(), "public.gpg"), public.String())
	if _, err := r.sign(); err == nil || !strings.Contains(err.Error(), ": give one private key without a password, as gpg --export-secret-keys writes it") {
		t.Errorf("signed with a public key: %v", err)
	}
}
