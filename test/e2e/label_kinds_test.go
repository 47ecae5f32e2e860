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
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/harness"
)

// Every kind at once, built in and custom, namespaced and cluster-scoped: each is watched in
// protobuf, and deleted by its label. A pause holds all of them until they have been created,
// however long that takes. That it holds everything is why no other test runs beside this one.
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
	s.expectSuccess(s.kubectlInput("{apiVersion: curfew.dev/v1alpha1, kind: DeletionPause, metadata: {name: every-kind}, spec: {reason: e2e}}", "create", "-f", "-"))
	resume := sync.OnceFunc(func() { s.afterwards("delete", "deletionpause", "every-kind") })
	defer resume()
	s.awaitMetrics("the pause to hold", func(text string) bool {
		return strings.Contains(text, "\n"+`curfew_paused_scopes{class="pause"} 1`+"\n")
	})
	began := time.Now()
	s.expectSuccess(s.kubectlInput(manifest, "create", "-f", "-"))
	expiry := time.Now()
	resume()
	for kind, object := range objects {
		s.labelsInProtobuf(resources[kind])
		// An earlier run (-count) may have had one of the same name: the names of IPAddresses are not
		// free to choose. A controller may change an object in that very moment, as that of
		// ResourceQuotas does when what they count is deleted. Then a DELETE meets a conflict.
		var sent []harness.Delete
		s.poll(kind+" to be deleted", func(context.Context) (bool, error) {
			sent = slices.DeleteFunc(suite.proxy.Deletes(object.GetNamespace(), object.GetName()), func(d harness.Delete) bool {
				return d.Resource != resources[kind].Resource || d.At.Before(began)
			})
			return slices.ContainsFunc(sent, func(d harness.Delete) bool { return d.Status == http.StatusOK }), nil
		})
		for _, each := range sent {
			if each.Status != http.StatusOK && each.Status != http.StatusConflict || each.At.Before(expiry) {
				t.Errorf("%s: a DELETE was answered %d, %s after the pause; want that it is accepted or meets a conflict", kind, each.Status, each.At.Sub(expiry))
			}
		}
	}
}

// everyKind is one object of every kind, by kind, and its manifest.
func (s *space) everyKind() (map[string]*unstructured.Unstructured, string) {
	s.Helper()
	data, err := os.ReadFile("testdata/labelled.yaml")
	s.ok(err)
	request := s.signingRequest()
	values := map[string]string{
		"NAME": s.name, "TTL": "1s", "AUTHORITY": strings.ReplaceAll(s.authority(), "\n", `\n`),
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
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		s.ok(err)
		for _, resource := range list.APIResources {
			out[list.GroupVersion+" "+resource.Kind] = groupVersion.WithResource(resource.Name)
		}
	}
	return out
}

// builtIn reports whether the API server serves a group without a CRD of it.
func builtIn(group string) bool {
	return scheme.Scheme.IsGroupRegistered(group) || group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io"
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
