package manifests

import (
	"maps"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy/v1alpha1"
)

// TestStatusPolicy: the policy on statuses compares every field of a report but its metadata.
func TestStatusPolicy(t *testing.T) {
	var compared string
	for _, policy := range only[*admissionv1.ValidatingAdmissionPolicy](build(t, "base")) {
		if policy.Name == "curfew-status" {
			compared = policy.Spec.Validations[1].Expression
		}
	}
	definitions, err := crd.All()
	must(t, err)
	for _, definition := range definitions {
		if !strings.HasSuffix(definition.Name, "cleanupreports.curfew.dev") {
			continue
		}
		for field := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties {
			switch field {
			case "apiVersion", "kind", "metadata":
			default:
				if !strings.Contains(compared, "object.?"+field+" == oldObject.?"+field) {
					t.Errorf("field %s of %s is not compared", field, definition.Name)
				}
			}
		}
	}
}

// TestStatusPolicyOnRequests: what the policy denies, and to whom.
func TestStatusPolicyOnRequests(t *testing.T) {
	maps.Copy(kinds, map[string]schema.GroupVersionKind{"podtallies": v1alpha1.GroupVersion.WithKind("PodTally"),
		"cleanupreports": v1alpha1.GroupVersion.WithKind("CleanupReport"), "clustercleanupreports": v1alpha1.GroupVersion.WithKind("ClusterCleanupReport")})
	const (
		plain   = "{metadata: {name: a}, spec: {x: 1}}"
		since   = "{metadata: {name: a}, spec: {x: 1}, status: {defaults: {sinceTime: '2020-01-01T00:00:00Z'}}}"
		noted   = "{metadata: {name: a, annotations: {a: b}}, spec: {x: 1}, status: {defaults: {sinceTime: '2020-01-01T00:00:00Z'}}}"
		page    = "{metadata: {name: a}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: x}]}"
		orphan  = "{metadata: {name: a, ownerReferences: []}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: x}]}"
		labels  = "{metadata: {name: a, labels: {curfew.dev/cleanup-run: r, a: b}}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: x}]}"
		moved   = "{metadata: {name: a, labels: {curfew.dev/cleanup-run: s, a: b}}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: x}]}"
		theirs  = "{metadata: {name: a, labels: {curfew.dev/cleanup-run: r, a: c}}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: x}]}"
		another = "{metadata: {name: a}, policy: {name: p, uid: u}, run: r, page: 1, objects: [{name: y}]}"
	)
	limitsOf(t, build(t, "base"), "curfew-status").check(t, "someone", map[string]limited{
		"a policy's status":            {request{resource: "lifecyclepolicies", sub: "status", old: plain, new: since}, "the status"},
		"… that is removed":            {request{resource: "lifecyclepolicies", sub: "status", old: since, new: plain}, "the status"},
		"… by Curfew":                  {request{resource: "lifecyclepolicies", sub: "status", old: plain, new: since, user: controllerSA}, ""},
		"… by its webhook":             {request{resource: "lifecyclepolicies", sub: "status", old: plain, new: since, user: "system:serviceaccount:curfew-system:curfew-webhook"}, "the status"},
		"… by an account of the name":  {request{resource: "lifecyclepolicies", sub: "status", old: plain, new: since, user: "system:serviceaccount:team:curfew-controller"}, "the status"},
		"… by an administrator":        {request{resource: "lifecyclepolicies", sub: "status", old: plain, new: since, user: "kubernetes-admin"}, "the status"},
		"metadata by a status write":   {request{resource: "lifecyclepolicies", sub: "status", old: since, new: noted}, ""},
		"a policy's spec":              {request{resource: "lifecyclepolicies", old: plain, new: "{metadata: {name: a}, spec: {x: 2}}"}, ""},
		"a new policy":                 {request{resource: "lifecyclepolicies", new: plain}, ""},
		"a tally's counts":             {request{resource: "podtallies", sub: "status", old: plain, new: "{metadata: {name: a}, spec: {x: 1}, status: {succeeded: 99}}"}, "the status"},
		"a Job's status":               {request{resource: "jobs", sub: "status", old: bareJob, new: "{metadata: {name: a}, spec: {template: {spec: {}}}, status: {active: 1}}"}, ""},
		"a new report":                 {request{resource: "cleanupreports", new: page}, "write reports"},
		"… of the cluster":             {request{resource: "clustercleanupreports", new: page}, "write reports"},
		"… by Curfew, a new one":       {request{resource: "cleanupreports", new: page, user: controllerSA}, ""},
		"a changed report":             {request{resource: "cleanupreports", old: page, new: another}, "write reports"},
		"… of the cluster, changed":    {request{resource: "clustercleanupreports", old: page, new: another}, "write reports"},
		"… by Curfew, changed":         {request{resource: "cleanupreports", old: page, new: another, user: controllerSA}, ""},
		"the run in a report's labels": {request{resource: "cleanupreports", old: labels, new: moved}, "write reports"},
		"… that are removed":           {request{resource: "cleanupreports", old: labels, new: page}, "write reports"},
		"… of others":                  {request{resource: "cleanupreports", old: labels, new: theirs}, ""},
		"a report's owners":            {request{resource: "cleanupreports", old: page, new: orphan, user: "system:serviceaccount:kube-system:generic-garbage-collector"}, ""},
	})
}
