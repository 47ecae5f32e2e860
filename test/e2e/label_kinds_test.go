package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Every kind at once, built in and custom, namespaced and cluster-scoped: each is watched in
// protobuf, and goes within a second of its date. It runs before the tests that run side by side,
// so that the second is the controller's and not theirs.
func TestEveryKindGoesByItsLabel(t *testing.T) {
	s := newSpace(t)
	for _, kind := range []string{"Widget", "Gadget"} {
		s.define(kind, s.name+".kinds.example.com", kind == "Widget", version{name: "v1", storage: true})
	}
	objects, manifest := s.everyKind()
	resources := s.served()
	var granted []schema.GroupVersionResource
	for kind := range objects {
		if resources[kind].Resource == "" {
			t.Errorf("%s is not served, or cannot be listed, watched and deleted", kind)
		}
		granted = append(granted, resources[kind])
	}
	for kind, resource := range resources {
		if objects[kind] == nil && builtIn(resource.Group) && resource.Group != "events.k8s.io" {
			t.Errorf("testdata/labelled.yaml has no %s, which can be listed, watched and deleted", kind)
		}
	}
	if len(objects) < 25 {
		t.Fatalf("%d kinds, want 25 at least", len(objects))
	}
	s.grant("e2e-every-kind", granted...)
	s.awaitWatched("Gadget."+s.name+".kinds.example.com", true)
	began := time.Now()
	s.expectSuccess(s.kubectlInput(manifest, "create", "-f", "-"))
	creating := time.Since(began)
	s.makeBare(len(objects))
	expiry := now().Add((10*creating + 20*second).Round(second))
	s.expectSuccess(s.kubectlInput(manifest, "label", "--overwrite", "-f", "-", wellknown.LabelTTL+"="+until(expiry)))
	if time.Now().After(expiry.Add(-second)) {
		t.Fatalf("labelling took longer than ten times the %s of creating", creating)
	}
	soon := 10*second + 5*s.deleteBare(len(objects), expiry)
	s.outlast(expiry)
	var latest time.Duration
	for kind, object := range objects {
		s.labelsInProtobuf(resources[kind])
		sent := suite.proxy.Deletes(object.GetNamespace(), object.GetName())
		// An earlier run (-count) may have had one of the same name: the names of IPAddresses are not
		// free to choose.
		sent = slices.DeleteFunc(sent, func(d harness.Delete) bool { return d.Resource != resources[kind].Resource || d.At.Before(began) })
		// A controller may change an object in that very moment, as that of ResourceQuotas does when what
		// they count goes. Then the first DELETE meets a conflict, and what counts is the one that is
		// accepted.
		accepted := slices.IndexFunc(sent, func(d harness.Delete) bool { return d.Status == http.StatusOK })
		if accepted < 0 {
			t.Errorf("%s: DELETEs sent: %+v, want one that was accepted", kind, sent)
			continue
		}
		for _, refused := range sent[:accepted] {
			if refused.Status != http.StatusConflict {
				t.Errorf("%s: a DELETE was answered %d, want that it is accepted or meets a conflict", kind, refused.Status)
			}
		}
		lateness := sent[accepted].Answered.Sub(expiry)
		latest = max(latest, lateness)
		if sent[0].At.Before(expiry) || lateness > soon {
			t.Errorf("%s: its DELETE was accepted %s after its expiry, want between 0s and %s", kind, lateness, soon)
		}
	}
	t.Logf("%d kinds, the latest DELETE accepted %s after its expiry", len(objects), latest)
}

// makeBare makes objects for deleteBare.
func (s *space) makeBare(count int) {
	s.Helper()
	for i := range count {
		s.newConfigMap(fmt.Sprintf("bare-%d", i))
	}
}

// deleteBare is how long it takes to delete so many objects in turn from an instant on: while
// Curfew does the same, and whatever else the machine is busy with, the API server needs that much
// of the time that Curfew has.
func (s *space) deleteBare(count int, from time.Time) time.Duration {
	s.Helper()
	client := s.objects(configMaps).Namespace(s.name)
	timer := time.NewTimer(time.Until(from))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.ok(s.ctx.Err())
	}
	for i := range count {
		s.ok(client.Delete(s.ctx, fmt.Sprintf("bare-%d", i), metav1.DeleteOptions{}))
	}
	return time.Since(from)
}

// everyKind is one object of every kind, by kind, and its manifest.
func (s *space) everyKind() (map[string]*unstructured.Unstructured, string) {
	s.Helper()
	data, err := os.ReadFile("testdata/labelled.yaml")
	s.ok(err)
	request := s.signingRequest()
	values := map[string]string{
		"NAME": s.name, "TTL": "30d", "AUTHORITY": strings.ReplaceAll(s.authority(), "\n", `\n`),
		"REQUEST":         base64.StdEncoding.EncodeToString(request),
		"SIGNING_REQUEST": base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})),
	}
	release := s.release()
	out, manifests := map[string]*unstructured.Unstructured{}, []string{}
	for _, text := range strings.Split(os.Expand(string(data), func(name string) string { return values[name] }), "\n---\n") {
		var since int
		if n, _ := fmt.Sscanf(text, "# since 1.%d\n", &since); n == 1 && since > release {
			continue
		}
		object := &unstructured.Unstructured{}
		s.ok(yaml.Unmarshal([]byte(text), &object.Object))
		out[object.GetAPIVersion()+" "+object.GetKind()] = object
		manifests = append(manifests, text)
	}
	return out, strings.Join(manifests, "\n---\n")
}

// release is the minor version of the control plane: 36 of Kubernetes 1.36.
func (s *space) release() int {
	s.Helper()
	version, err := suite.cluster.Client.Discovery().ServerVersion()
	s.ok(err)
	minor, err := strconv.Atoi(version.Minor)
	s.ok(err)
	return minor
}

// signingRequest is a PKCS #10 request without a subject, in DER.
func (s *space) signingRequest() []byte {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.ok(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	s.ok(err)
	return der
}

// authority is a certificate of an authority, in PEM.
func (s *space) authority() string {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.ok(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	s.ok(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// served are the resources that can be listed, watched and deleted, by version and kind.
func (s *space) served() map[string]schema.GroupVersionResource {
	s.Helper()
	lists, err := suite.cluster.Client.Discovery().ServerPreferredResources()
	s.ok(err)
	out := map[string]schema.GroupVersionResource{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch", "delete"}}, lists) {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		s.ok(err)
		for _, resource := range list.APIResources {
			out[list.GroupVersion+" "+resource.Kind] = of.WithResource(resource.Name)
		}
	}
	return out
}

func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io")
}

// version is one of a kind that a test defines.
type version struct {
	name    string
	storage bool
	// open keeps fields that the schema does not have.
	open bool
}

// define makes a custom kind, or changes it, and waits until it is served.
func (s *space) define(kind, group string, namespaced bool, versions ...version) schema.GroupVersionResource {
	s.Helper()
	return s.defineWith(kind, group, namespaced, `{"strategy":"None"}`, versions...)
}

func (s *space) defineWith(kind, group string, namespaced bool, conversion string, versions ...version) schema.GroupVersionResource {
	s.Helper()
	scope := map[bool]string{true: "Namespaced", false: "Cluster"}[namespaced]
	var list []string
	for _, v := range versions {
		unknown := map[bool]string{true: `,"x-kubernetes-preserve-unknown-fields":true`}[v.open]
		list = append(list, fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"schema":{"openAPIV3Schema":{"type":"object"%s}}}`, v.name, v.storage, unknown))
	}
	plural := strings.ToLower(kind) + "s"
	name := plural + "." + group
	s.expectSuccess(s.kubectlInput(fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},
		"spec":{"group":%q,"scope":%q,"names":{"kind":%q,"plural":%q},"conversion":%s,"versions":[%s]}}`,
		name, group, scope, kind, plural, conversion, strings.Join(list, ",")), "apply", "--server-side", "--force-conflicts", "-f", "-"))
	s.awaitEstablished(name)
	s.Cleanup(func() { s.undefine(name) })
	resource := schema.GroupVersionResource{Group: group, Version: versions[0].name, Resource: plural}
	s.expectSuccess(s.kubectl("wait", "--for=jsonpath={.spec.versions[0].name}="+versions[0].name, "crd/"+name, "--timeout=10m"))
	return resource
}

// awaitEstablished waits until the kind of a CustomResourceDefinition is served.
func (s *space) awaitEstablished(name string) {
	s.Helper()
	s.ok(suite.cluster.WaitForEstablished(s.ctx, "crd/"+name))
}

func (s *space) undefine(name string) {
	client := s.objects(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := client.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.Errorf("delete the CustomResourceDefinition %s: %v", name, err)
	}
}
