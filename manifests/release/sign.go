package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"curfew.dev/curfew/manifests/release/image"
)

const (
	// signature ends the name of a file with the signature of another.
	signature = ".sig"
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
	}
	tag, err := image.Sign(r.out, r.repository, digest, func(data []byte) (string, error) { return signed(key, data) })
	return append(made, filepath.Join(r.out, image.Signature)+" "+tag), err
}

// verify compares all files with the checksums, and the image's layout with its digest, which it
// returns.
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
	for _, one := range sums {
		line := one.digest + "  " + one.name
		if !missing[line] {
			return "", fmt.Errorf("%s differs from its line in %s: make the release again", one.name, sumsFile)
		}
		delete(missing, line)
	}
	for line := range missing {
		return "", fmt.Errorf("%s lists %q, which is missing: make the release again", sumsFile, line)
	}
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
