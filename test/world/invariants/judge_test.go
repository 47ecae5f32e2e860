package invariants_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/test/world"
	"curfew.dev/curfew/test/world/invariants"
)

const (
	curfew  = "curfew"
	cleanup = "system:serviceaccount:curfew-system:curfew-cleanup"
)

// planted is a history with one fault.
type planted struct {
	*world.World
	t     *testing.T
	judge *invariants.Judge
}

func (p *planted) add(resource, text string) *unstructured.Unstructured {
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		p.t.Fatal(err)
	}
	object, err := p.Create(resource, content)
	if err != nil {
		p.t.Fatal(err)
	}
	return object
}

// confirm lists the rules as Curfew does before it deletes.
func (p *planted) confirm(kinds ...string) {
	if kinds == nil {
		kinds = []string{"namespaces", "lifecyclepolicies.curfew.dev", "kindprofiles.curfew.dev"}
	}
	for _, kind := range kinds {
		p.read(kind, "list", "")
	}
}

func (p *planted) read(kind, verb, name string) {
	if _, err := p.Do(curfew, world.Request{Verb: verb, Resource: p.Resource(kind), Name: name}); err != nil {
		p.t.Fatal(err)
	}
}

// remove deletes an object as Curfew does, in the state that it is in.
func (p *planted) remove(resource, name string, change ...func(*world.Request)) {
	for _, object := range p.Objects(resource) {
		if object.GetName() != name {
			continue
		}
		request := world.Request{Verb: "delete", Resource: p.Resource(resource), Namespace: object.GetNamespace(), Name: name,
			Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())},
				PropagationPolicy: new(metav1.DeletePropagationBackground)}}
		for _, fn := range change {
			fn(&request)
		}
		if _, err := p.Do(curfew, request); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	p.t.Fatalf("there is no %s %s", resource, name)
}

func asCleanup(r *world.Request) { r.User = cleanup }

const (
	labelled = "metadata: {namespace: default, name: x, labels: {curfew.dev/ttl: 30s}}"
	tmp      = "metadata: {namespace: default, name: tmp-x}"
	policy   = "metadata: {name: p}\nspec: {schedule: '* * * * *', matchConstraints: {resourceRules: [{apiGroups: [''], resources: [configmaps], resourceNames: [tmp-*]}]}}"
	tracked  = "metadata: {namespace: default, name: x, labels: {curfew.dev/ttl: 30s}, finalizers: [batch.kubernetes.io/job-tracking]}\nspec: {restartPolicy: Never}"
)

// Each invariant, broken on purpose, is reported, and nothing else is. Without a fault there is no
// report.
func TestPlantedFaultsAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		want string // the beginning of each fault
		do   func(p *planted)
	}{
		"as it should be": {"", func(p *planted) {
			p.add("configmaps", labelled)
			p.add("configmaps", tmp)
			p.add("clustercleanuppolicies.curfew.dev", policy)
			time.Sleep(31 * time.Second)
			p.confirm()
			p.remove("configmaps", "x")
			p.remove("configmaps", "tmp-x", asCleanup)
			p.Edit(curfew, "clustercleanuppolicies.curfew.dev", "", "p", "status", func(live *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(live.Object, int64(1), "status", "deleted")
			})
		}},
		"early": {"S1", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(29 * time.Second)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"in dry-run for a minute": {"S1", func(p *planted) {
			p.add("configmaps", labelled)
			p.Edit(world.Admin, "namespaces", "", "default", "", func(live *unstructured.Unstructured) {
				live.SetAnnotations(map[string]string{"curfew.dev/mode": "dry-run"})
			})
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"any resourceVersion": {"S1", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x", func(r *world.Request) { r.Options.Preconditions.ResourceVersion = nil })
		}},
		"any UID": {"S2", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x", func(r *world.Request) { r.Options.Preconditions.UID = nil })
		}},
		"forgotten": {"S3", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(10 * time.Minute)
			p.confirm()
		}},
		"unfinished": {"S4", func(p *planted) {
			p.add("jobs.batch", "metadata: {namespace: default, name: x}\nspec: {ttlSecondsAfterFinished: 0, template: {}}")
			p.confirm()
			p.remove("jobs.batch", "x")
		}},
		"another's finalizer": {"S5", func(p *planted) {
			p.add("configmaps", "metadata: {namespace: default, name: x, finalizers: [example.dev/keep]}")
			p.Edit(curfew, "configmaps", "default", "x", "", func(live *unstructured.Unstructured) { live.SetFinalizers(nil) })
		}},
		"a Pod that its Job has not counted": {"S5", func(p *planted) {
			p.add("pods", tracked)
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("pods", "x")
		}},
		"a label on a child": {"S5", func(p *planted) {
			p.add("configmaps", "metadata: {namespace: default, name: x, ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b, controller: true}]}")
			p.Edit(curfew, "configmaps", "default", "x", "", func(live *unstructured.Unstructured) {
				live.SetLabels(map[string]string{"curfew.dev/ttl": "300h"})
			})
		}},
		"an unreadable label": {"S6", func(p *planted) {
			p.add("configmaps", "metadata: {namespace: default, name: x, labels: {curfew.dev/ttl: soon}}")
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"not counted": {"S7", func(p *planted) {
			p.add("configmaps", tmp)
			p.add("clustercleanuppolicies.curfew.dev", policy)
			p.confirm()
			p.remove("configmaps", "tmp-x", asCleanup)
		}},
		"counted twice": {"S7", func(p *planted) {
			p.add("podtallies.curfew.dev", "{metadata: {namespace: default, name: t}, spec: {selector: {matchLabels: {app: a}}}}")
			p.Edit(curfew, "podtallies.curfew.dev", "default", "t", "status", func(live *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(live.Object, int64(1), "status", "succeeded")
			})
		}},
		"after it was stopped": {"S8", func(p *planted) {
			p.add("configmaps", labelled)
			p.judge.Stopped = map[string]time.Time{curfew: p.Now().Add(20 * time.Second)}
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"an object that no policy matches": {"S10", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(time.Minute)
			p.confirm()
			p.remove("configmaps", "x", asCleanup)
		}},
		"in a pause": {"S11", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(time.Minute)
			p.add("deletionpauses.curfew.dev", "{metadata: {name: x}, spec: {triggers: [label], reason: a test}}")
			time.Sleep(6 * time.Second)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"as a pause begins": {"", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(time.Minute)
			p.add("deletionpauses.curfew.dev", "{metadata: {name: x}, spec: {triggers: [label], reason: a test}}")
			time.Sleep(4 * time.Second)
			p.confirm()
			p.remove("configmaps", "x")
		}},
		"by its namespace, read live": {"", func(p *planted) {
			p.add("configmaps", labelled)
			p.confirm()
			time.Sleep(30 * time.Second)
			p.confirm("lifecyclepolicies.curfew.dev", "kindprofiles.curfew.dev")
			p.read("namespaces", "get", "default")
			p.remove("configmaps", "x")
		}},
		"by the rules of another namespace": {"S12", func(p *planted) {
			p.add("configmaps", labelled)
			p.confirm()
			time.Sleep(30 * time.Second)
			p.confirm("lifecyclepolicies.curfew.dev", "kindprofiles.curfew.dev")
			p.read("namespaces", "get", "kube-system")
			p.remove("configmaps", "x")
		}},
		"by old rules": {"S12", func(p *planted) {
			p.add("configmaps", labelled)
			time.Sleep(30 * time.Second)
			p.confirm()
			time.Sleep(16 * time.Second)
			p.remove("configmaps", "x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &planted{World: world.New(t), t: t, judge: &invariants.Judge{
					Curfew: func(client string) bool { return client == curfew }, Own: "curfew-system", CleanupUser: cleanup, Reads: true}}
				definitions, err := crd.All()
				if err != nil {
					t.Fatal(err)
				}
				for _, definition := range definitions {
					p.Define(definition)
				}
				test.do(p)
				faults := p.judge.Check(p.History())
				if (len(faults) > 0) != (test.want != "") {
					t.Errorf("faults %q, want %q", faults, test.want)
				}
				for _, fault := range faults {
					if !strings.HasPrefix(fault, test.want+":") {
						t.Errorf("fault %q, want %q", fault, test.want)
					}
				}
			})
		})
	}
}
