package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/provenance"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/release/image"
)

const (
	// signature ends the name of a file with the signature of another, and helmSignature one that
	// `helm verify` reads.
	signature, helmSignature = ".sig", ".prov"
	// dirtySuffix ends a commit whose files were changed.
	dirtySuffix = "-dirty"
)

// sign signs the checksums, which cover all files, and the chart and the image once more for those
// who have these alone. openssl and cosign verify the signatures: docs/verify.md has the commands.
func (r *release) sign() ([]string, error) {
	key, err := readKey(r.key)
	if err != nil {
		return nil, err
	}
	digest, err := r.verify()
	if err == nil {
		err = r.asBuilt()
	}
	if err != nil {
		return nil, err
	}
	charts, err := filepath.Glob(filepath.Join(r.out, "curfew-*.tgz"))
	if err != nil {
		return nil, err
	}
	var made []string
	for _, path := range append(charts, filepath.Join(r.out, sumsFile)) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text, err := signed(key, data)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(path+signature, []byte(text+"\n"), 0o644); err != nil {
			return nil, err
		}
		made = append(made, path+signature)
		if r.pgpKey != "" && filepath.Ext(path) == ".tgz" {
			if err := r.signChart(path, data); err != nil {
				return nil, fmt.Errorf("-pgp-key=%s: %w", r.pgpKey, err)
			}
			made = append(made, path+helmSignature)
		}
	}
	tag, err := image.Sign(r.out, r.repository, digest, func(data []byte) (string, error) { return signed(key, data) })
	if err != nil {
		return nil, err
	}
	attested, err := r.attest(key, digest)
	return append(made, filepath.Join(r.out, image.Signature)+" "+tag, filepath.Join(r.out, image.Attestations)+" "+attested), err
}

// attest writes the provenance and the SBOM as attestations of the image alone.
func (r *release) attest(key *ecdsa.PrivateKey, digest string) (string, error) {
	statement, envelopes := object{}, [][]byte{}
	data, err := os.ReadFile(filepath.Join(r.out, provenanceFile))
	sbom, missing := os.ReadFile(filepath.Join(r.out, "curfew_"+r.version+".cdx.json"))
	if err := errors.Join(err, missing, json.Unmarshal(data, &statement)); err != nil {
		return "", err
	}
	statement["subject"] = []object{{"name": r.repository, "digest": object{"sha256": strings.TrimPrefix(digest, "sha256:")}}}
	for _, other := range []object{{}, {"predicateType": "https://cyclonedx.org/bom", "predicate": json.RawMessage(sbom)}} {
		maps.Copy(statement, other)
		payload, err := json.Marshal(statement)
		envelope := dsse.Envelope{PayloadType: "application/vnd.in-toto+json", Payload: base64.StdEncoding.EncodeToString(payload)}
		text, failed := signed(key, dsse.PAE(envelope.PayloadType, payload))
		envelope.Signatures = []dsse.Signature{{Sig: text}}
		data, malformed := json.Marshal(envelope)
		if err := errors.Join(err, failed, malformed); err != nil {
			return "", err
		}
		envelopes = append(envelopes, data)
	}
	return image.Attest(r.out, digest, envelopes...)
}

// signChart signs a chart for `helm verify`.
func (r *release) signChart(path string, data []byte) error {
	signatory, err := provenance.NewFromKeyring(r.pgpKey, "")
	if err != nil || len(signatory.KeyRing) != 1 || signatory.KeyRing[0].PrivateKey == nil || signatory.KeyRing[0].PrivateKey.Encrypted {
		return errors.Join(errors.New("give one private key without a password, as gpg --export-secret-keys writes it"), err)
	}
	signatory.Entity = signatory.KeyRing[0]
	chart, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return err
	}
	metadata, err := yaml.Marshal(chart.Metadata)
	if err != nil {
		return err
	}
	text, err := signatory.ClearSign(data, filepath.Base(path), metadata)
	if err != nil {
		return err
	}
	return os.WriteFile(path+helmSignature, []byte(text), 0o644)
}

// verify compares all files with the checksums, and returns the digest of the image.
func (r *release) verify() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		return "", fmt.Errorf("%w: make the checksums first", err)
	}
	missing := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		missing[strings.TrimSuffix(line, "\n")] = true
	}
	sums, err := r.sums(sumsFile)
	if err != nil {
		return "", err
	}
	for _, sum := range sums {
		line := sum.digest + "  " + sum.name
		if !missing[line] {
			return "", fmt.Errorf("%s differs from its line in %s: make the release again", sum.name, sumsFile)
		}
		delete(missing, line)
	}
	for line := range missing {
		return "", fmt.Errorf("%s lists %q, which is missing: make the release again", sumsFile, line)
	}
	return r.imageDigest()
}

// imageDigest compares the image's layout with its digest, which it returns.
func (r *release) imageDigest() (string, error) {
	want, err := os.ReadFile(filepath.Join(r.out, digestFile))
	if err != nil {
		return "", fmt.Errorf("%w: make the image first", err)
	}
	digest, err := image.Digest(filepath.Join(r.out, image.Layout))
	if err == nil && digest+"\n" != string(want) {
		err = fmt.Errorf("%s has digest %s, and %s is %q: make the release again", image.Layout, digest, digestFile, want)
	}
	return digest, err
}

// clean is an error if files differ from the commit of a version that does not say so.
func (r *release) clean(revision string) error {
	if !strings.HasSuffix(revision, dirtySuffix) || strings.HasSuffix(r.version, dirtySuffix) || r.dirty {
		return nil
	}
	return fmt.Errorf("-version=%s: it was built from files that differ from commit %s: commit them and make the release again, "+
		"or give -dirty (DIRTY=1) to sign all the same", r.version, strings.TrimSuffix(revision, dirtySuffix))
}

// asBuilt compares the arguments with what the provenance says about how the files were made: they
// may be signed on another machine.
func (r *release) asBuilt() error {
	data, err := os.ReadFile(filepath.Join(r.out, provenanceFile))
	if err != nil {
		return fmt.Errorf("%w: make the provenance first", err)
	}
	var statement struct {
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters struct{ Version, Repository, Commit string }
			}
		}
	}
	if err := json.Unmarshal(data, &statement); err != nil {
		return fmt.Errorf("%s: %w", provenanceFile, err)
	}
	built := &statement.Predicate.BuildDefinition.ExternalParameters
	switch {
	case built.Version != r.version:
		return fmt.Errorf("-version=%s: %s says that it was built as %s", r.version, provenanceFile, built.Version)
	case built.Repository != r.repository:
		return fmt.Errorf("-repository=%s: %s says that it was built as %s", r.repository, provenanceFile, built.Repository)
	}
	return r.clean(built.Commit)
}

// signed is the signature of data: ECDSA over its SHA-256, as ASN.1 in base64.
func signed(key *ecdsa.PrivateKey, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	text, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	return base64.StdEncoding.EncodeToString(text), err
}

// readKey reads a private key.
func readKey(path string) (*ecdsa.PrivateKey, error) {
	if path == "" {
		return nil, fmt.Errorf("-key: name the file of a private key (SIGN_KEY=file)")
	}
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("-key: %w", err)
	}
	if block, _ := pem.Decode(data); block != nil && block.Type == "PRIVATE KEY" {
		if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := parsed.(*ecdsa.PrivateKey); ok && key.Curve == elliptic.P256() {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("-key=%s: give a P-256 key in PKCS #8 without a password, as this makes one: "+
		"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", path)
}
