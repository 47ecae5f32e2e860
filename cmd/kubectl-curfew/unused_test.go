package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// used is a cluster in which a Deployment that is scaled to zero uses one of two ConfigMaps, and a
// label and its age keep two others. A Service is protected.
func used(t *testing.T) []runtime.Object {
	t.Helper()
	return manifests(t, `kind: Namespace
apiVersion: v1
metadata: {name: shop, uid: shop, creationTimestamp: "2026-11-01T00:00:00Z", labels: {kubernetes.io/metadata.name: shop}}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: settings, namespace: shop, uid: settings, creationTimestamp: "2026-12-01T00:00:00Z"}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: leftover, namespace: shop, uid: leftover, creationTimestamp: "2026-12-01T00:00:00Z"}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: dashboard, namespace: shop, uid: dashboard, creationTimestamp: "2026-12-01T00:00:00Z", labels: {grafana_dashboard: "1"}}
---
kind: ConfigMap
apiVersion: v1
metadata: {name: young, namespace: shop, uid: young, creationTimestamp: "2026-12-24T11:30:00Z"}
---
kind: Service
apiVersion: v1
metadata: {name: kept, namespace: shop, uid: kept, creationTimestamp: "2026-12-01T00:00:00Z", annotations: {curfew.dev/protect: "true"}}
spec: {selector: {app: kept}}
---
kind: Secret
apiVersion: v1
metadata: {name: password, namespace: shop, uid: password, creationTimestamp: "2026-12-01T00:00:00Z", labels: {name: b}}
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: web, namespace: shop, uid: web, creationTimestamp: "2026-12-01T00:00:00Z"}
spec: {replicas: 0, template: {spec: {volumes: [{name: a, configMap: {name: settings}}]}}}
`)
}

// Only what no object refers to is unused. If an answer is missing, nothing is.
func TestUnused(t *testing.T) {
	const leftover = "1 unused, 0 unknown and 0 kept of 4 objects\n\nshop   ConfigMap   leftover   23d12h\n"
	const names = "unused -n shop --kind cm,secret -o name"
	for name, c := range map[string]struct {
		line    string
		notMine []string
		silent  bool
		stdout  string
		code    int
	}{
		"all":                     {line: names, stdout: "configmap/leftover\nsecret/password\n"},
		"one kind":                {line: "unused -n shop --kind cm -o name", stdout: "configmap/leftover\n"},
		"two namespaces":          {line: "unused -n pr-42,shop --kind cm -o name", stdout: "configmap/leftover\n"},
		"old enough":              {line: "unused -n shop --kind cm -o name --older-than 20d", stdout: "configmap/leftover\n"},
		"too young":               {line: "unused -n shop --kind cm -o name --older-than 30d"},
		"by label":                {line: "unused -n shop --kind cm,secret -o name -l name=b", stdout: "secret/password\n"},
		"others excluded":         {line: "unused -A --kind cm --no-headers --exclude-namespaces def*,sh*", stdout: "0 unused, 0 unknown and 0 kept of 4 objects\n"},
		"cluster-scoped, too":     {line: "unused -A --kind ns --no-headers --exclude-namespaces x", stdout: "0 unused, 0 unknown and 0 kept of 1 object\n"},
		"another excluded":        {line: "unused -A --kind cm --no-headers --older-than 1d --exclude-namespaces sho", stdout: leftover},
		"young are not unknown":   {line: "unused -n shop --kind cm --older-than 1d --no-headers", stdout: leftover},
		"an empty namespace":      {line: "unused -n shop, -o policy", code: 2},
		"an empty exclusion":      {line: "unused -n shop --exclude-namespaces a,,b", code: 2},
		"elsewhere":               {line: "unused -n default --kind cm,secret -o name"},
		"needs no right to write": {line: names, notMine: []string{"delete configmaps", "delete secrets"}, stdout: "configmap/leftover\nsecret/password\n"},
		"may not list a referrer": {line: names, notMine: []string{"list deployments"}},
		"may not list Secrets":    {line: names, notMine: []string{"list secrets"}},
		"may not get policies":    {line: names, notMine: []string{"list clustercleanuppolicies"}},
		"states": {line: "unused -n shop --kind cm,svc --no-headers -o custom-columns=NAME:.object.name,STATE:.state,REASON:.reason",
			stdout: "leftover   Unused    <none>\nyoung      Unknown   EvaluationFailed\nkept       Kept      Protected\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, used(t))
			for _, list := range cluster.discovery.Resources {
				if list.GroupVersion == "v1" {
					list.APIResources = append(list.APIResources, resource("services", "Service", "svc", true))
				}
			}
			code, stdout, stderr, patched := executeIn(t, cluster, scene{notMine: c.notMine}, words(c.line)...)
			if code != c.code || stdout != c.stdout {
				t.Errorf("exit status %d: %s, want %d: %s (%s)", code, stdout, c.code, c.stdout, stderr)
			}
			for _, fake := range cluster.actions() {
				if verb := fake.GetVerb(); !slices.Contains([]string{"get", "list"}, verb) && fake.GetResource().Resource != "selfsubjectaccessreviews" {
					t.Errorf("sent %s %s, want only reads", verb, fake.GetResource().Resource)
				}
			}
			expectCount(t, "patches", patched, 0)
			if len(cluster.actedAs) > 0 {
				t.Errorf("acted as %q, want the user", cluster.actedAs)
			}
		})
	}
}

// Secrets are read as metadata alone.
func TestUnusedReadsNoSecret(t *testing.T) {
	cluster := newFakeCluster(t, used(t))
	if _, stdout, stderr, _ := executeIn(t, cluster, scene{}, words("unused -A")...); !strings.Contains(stdout, "password") {
		t.Fatalf("no report: %s%s", stdout, stderr)
	}
	for _, fake := range cluster.objects.Actions() {
		if fake.GetResource().Resource == "secrets" {
			t.Errorf("sent %s secrets for whole objects", fake.GetVerb())
		}
	}
}

// The command needs neither Curfew nor its kinds.
func TestUnusedWithoutCurfew(t *testing.T) {
	cluster := newFakeCluster(t, used(t))
	cluster.discovery.Resources = slices.DeleteFunc(cluster.discovery.Resources, func(list *metav1.APIResourceList) bool {
		return list.GroupVersion == "curfew.dev/v1alpha1"
	})
	stdout, _, _ := expectRun(t, cluster, scene{}, "unused -n shop --kind cm -o name", 0)
	expectSame(t, "stdout", stdout, "configmap/leftover\n")
}

// An object that is too new is Unknown in plain words. Warnings of the API server about the versions
// that the lookups list are not the user's.
func TestUnusedIsPlain(t *testing.T) {
	cluster := newFakeCluster(t, used(t))
	expectRun(t, cluster, scene{}, "unused -n shop --kind cm", 0, "ConfigMap shop/young: too new to judge: created less than an hour ago\n")
	if cluster.warnings != nil {
		t.Error("unused prints the warnings of the API server")
	}
	if expectRun(t, cluster, scene{stdin: unusedPolicy}, "preview -f -", 0); cluster.warnings != nil {
		t.Error("preview prints the warnings of the API server")
	}
}

// CustomResourceDefinitions without objects are shown only if a user names the kind: operators
// install many.
func TestUnusedDefinitions(t *testing.T) {
	definition, ok := thingsOf(t, "v1").(*unstructured.Unstructured)
	if !ok {
		t.Fatal("thingsOf is typed")
	}
	definition.SetCreationTimestamp(metav1.Time{Time: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)})
	cluster := newFakeCluster(t, append(used(t), definition))
	stdout, _, _ := expectRun(t, cluster, scene{}, "unused -A -o wide", 0)
	expectPart(t, "by default", stdout, "things.example.com", false)
	expectRun(t, cluster, scene{}, "unused -A --kind crd -o wide", 0, "things.example.com")
}

// Policies of two namespaces do not replace each other.
func TestUnusedPolicyNames(t *testing.T) {
	for where, want := range map[string]string{"-n a": "unused-a", "-n b": "unused-b", "-A": "unused"} {
		_, stdout, _, _ := execute(t, scene{}, words("unused "+where+" --kind cm -o policy")...)
		expectPart(t, where, stdout, "\nkind: ClusterCleanupPolicy\nmetadata:\n  name: "+want+"\n", true)
	}
}

// Admission accepts each policy that -o policy prints, without a warning.
func TestUnusedPoliciesAreAccepted(t *testing.T) {
	const kinds = "cm,secret,sa,ingressclass,runtimeclass,pc,sc,pvc,svc,hpa,ing,ns,no"
	for where, i := range map[string]int{"-A --kind " + kinds: 23, "-n shop": 17} {
		_, printed, _, _ := execute(t, scene{}, words("unused "+where+" -o policy")...)
		code, stdout, stderr, _ := execute(t, scene{stdin: printed}, words("lint -f -")...)
		if want := fmt.Sprintf("%d objects: 0 errors, 0 warnings, 0 defaults\n", i); code != 0 || stderr != want {
			t.Errorf("%s: exit status %d: %s%s, want %s", where, code, stdout, stderr, want)
		}
	}
}

// A policy in one namespace has no kinds whose objects are in none: it would never match them.
func TestUnusedClusterScoped(t *testing.T) {
	code, stdout, stderr, _ := execute(t, scene{}, words("unused -n shop -o policy")...)
	for _, kind := range []string{"ingressclasses", "runtimeclasses", "priorityclasses", "storageclasses"} {
		expectPart(t, "policy", stdout, kind, false)
	}
	expectPart(t, "policy", stdout, "      - configmaps\n      - secrets\n      - serviceaccounts\n", true)
	expectPart(t, "notes", stderr, "IngressClass, RuntimeClass, PriorityClass, StorageClass, ", true)
	expectExit(t, "the command", code, 0, stderr)
}

// The policy that -o policy prints matches what the report shows.
func TestUnusedPolicy(t *testing.T) {
	_, manifest, _, _ := execute(t, scene{}, words("unused -n shop --kind cm -o policy")...)
	code, stdout, stderr, _ := executeIn(t, newFakeCluster(t, used(t)), scene{stdin: manifest}, words("preview -f - -o json")...)
	for _, want := range []string{`"name": "leftover"`, `"dryRun": true`, "deleted at about 2027-01-14T12:17:00Z: see minUnused"} {
		expectPart(t, "preview", stdout, want, true)
	}
	for _, name := range []string{"settings", "dashboard"} {
		expectPart(t, "preview", stdout, `"name": "`+name+`"`, false)
	}
	if code != 0 {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}
