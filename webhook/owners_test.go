package webhook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// owners answers with one object, given as YAML; "" is an owner that is gone.
type owners struct {
	text  string
	err   error
	reads int
}

func (o *owners) Read(context.Context, string, *metav1.OwnerReference) (map[string]any, error) {
	o.reads++
	if o.text == "" || o.err != nil {
		return nil, o.err
	}
	var out map[string]any
	text, err := yaml.YAMLToJSON([]byte(o.text))
	return out, errors.Join(err, json.Unmarshal(text, &out))
}

const (
	cronJobController = "system:serviceaccount:kube-system:cronjob-controller"
	// nightly is a Job of a CronJob, under the min-ttl of its namespace.
	nightly = "{apiVersion: batch/v1, kind: Job, metadata: {name: nightly-1, namespace: bounded, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: nightly, uid: u, controller: true}]}, spec: {ttlSecondsAfterFinished: 0, template: {spec: {}}}}"
	// older is its CronJob.
	older = "{metadata: {name: nightly}, spec: {jobTemplate: {spec: {ttlSecondsAfterFinished: 0}}}}"
)

// Only a known controller creates what a rule denies, and only for an owner that has the value.
// Everybody can write an owner reference.
func TestForgedOwner(t *testing.T) {
	listed := "system:serviceaccount:ml:operator"
	for name, test := range map[string]struct {
		user, object string
		owner        owners
		allowed      bool
		reads        int
	}{
		"the CronJob's controller":          {user: cronJobController, owner: owners{text: older}, allowed: true, reads: 1},
		"kube-controller-manager":           {user: "system:kube-controller-manager", owner: owners{text: older}, allowed: true, reads: 1},
		"an account of the flag":            {user: listed, owner: owners{text: older}, allowed: true, reads: 1},
		"the owner has another value":       {user: cronJobController, owner: owners{text: "{spec: {jobTemplate: {spec: {ttlSecondsAfterFinished: 3600}}}}"}, reads: 1},
		"the owner is gone":                 {user: cronJobController, reads: 1},
		"the owner cannot be read":          {user: cronJobController, owner: owners{err: errors.New("forbidden")}, allowed: true, reads: 1},
		"an owner without a known template": {user: listed, object: strings.Replace(nightly, "batch/v1, kind: CronJob", "example.com/v1, kind: Batch", 1), allowed: true},
		"a tenant's account":                {user: robot, owner: owners{text: older}},
		"a person":                          {user: person, owner: owners{text: older}},
		"a node":                            {user: "system:node:a", owner: owners{text: older}},
		"an owner without a UID":            {user: cronJobController, object: strings.Replace(nightly, "uid: u, ", "", 1), owner: owners{text: older}},
		"no owner":                          {user: cronJobController, object: strings.Replace(nightly, "controller: true", "controller: false", 1), owner: owners{text: older}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Owners, o.ControllerAccounts = &test.owner, []string{listed} })
			if test.object == "" {
				test.object = nightly
			}
			response := w.ask(t, ask{path: PathValidate, namespace: "bounded", user: test.user, object: test.object})
			if response.Allowed != test.allowed || test.owner.reads != test.reads {
				t.Errorf("allowed %t after %d reads, want %t after %d: %q", response.Allowed, test.owner.reads, test.allowed, test.reads, response.Warnings)
			}
			if warned := strings.Contains(strings.Join(response.Warnings, "\n"), "admitted only because"); warned != test.allowed {
				t.Errorf("warnings %q", response.Warnings)
			}
		})
	}
}

// Where Argo Workflows is not installed, a tenant may own namespace argo, and a Workflow as owner is
// made up: nothing collects its children.
func TestOwnerOfAProductThatIsNotInstalled(t *testing.T) {
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	w := newWorld(t, func(o *Options) { o.Platform = known })
	const argo = "system:serviceaccount:argo:argo"
	object := strings.Replace(nightly, "batch/v1, kind: CronJob", "argoproj.io/v1alpha1, kind: Workflow", 1)
	create := func() bool {
		return w.ask(t, ask{path: PathValidate, namespace: "bounded", user: argo, object: object}).Allowed
	}
	if create() {
		t.Error("admitted while no CustomResourceDefinition serves Workflows")
	}
	known.SetDefinition("workflows.argoproj.io", &expression.Definition{Kind: schema.GroupKind{Group: "argoproj.io", Kind: "Workflow"}})
	if !create() {
		t.Error("denied while Workflows are served")
	}
}

// A rollout of many Pods does not read the owner for each. What the owner does not have is read
// each time, so that a corrected owner counts at once.
func TestOwnersAreReadOnce(t *testing.T) {
	owner := &owners{text: "{}"}
	w := newWorld(t, func(o *Options) { o.Owners = owner })
	create := func(object string) bool {
		return w.ask(t, ask{path: PathValidate, namespace: "bounded", user: cronJobController, object: object}).Allowed
	}
	for range 2 {
		if create(nightly) {
			t.Error("admitted")
		}
	}
	if owner.reads != 2 {
		t.Errorf("%d reads, want 2 denials after one each", owner.reads)
	}
	owner.text = older
	for range 3 {
		if !create(nightly) {
			t.Error("denied")
		}
	}
	if owner.reads != 3 {
		t.Errorf("%d reads, want one more", owner.reads)
	}
	owner.text = ""
	if create(strings.Replace(nightly, "uid: u,", "uid: v,", 1)) || create(strings.Replace(nightly, "Finished: 0", "Finished: 1", 1)) || owner.reads != 5 {
		t.Errorf("%d reads, want one for another owner and one for another value", owner.reads)
	}
}

// crowd is an OwnerReader that notes how many reads have begun.
type crowd struct{ started, end chan struct{} }

func (c *crowd) Read(context.Context, string, *metav1.OwnerReference) (map[string]any, error) {
	c.started <- struct{}{}
	<-c.end
	return nil, nil
}

// S9: posted reviews have no more than four owners, and four Pods of Bindings, read at the same time.
func TestReadsAreLimited(t *testing.T) {
	binding := &request{kind: bindingKind, review: &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Name: "a"}}, facts: &policy.Facts{UID: "u", Labels: map[string]string{wellknown.LabelTTL: "2d"}}}
	for name, read := range map[string]func(context.Context, *Webhooks){
		"owners": func(ctx context.Context, w *Webhooks) {
			_, _ = w.read(ctx, w.ownerReads, "ci", &metav1.OwnerReference{})
		},
		"Pods": func(ctx context.Context, w *Webhooks) { w.validate(ctx, binding, time.Unix(1000, 0)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			reader := &crowd{started: make(chan struct{}, 100), end: make(chan struct{})}
			w := &Webhooks{settings: Options{Owners: reader}}
			w.ownerReads, w.podReads = semaphore.NewWeighted(maxReads), semaphore.NewWeighted(maxReads)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { read(t.Context(), w) })
			}
			synctest.Wait()
			if got := len(reader.started); got != maxReads {
				t.Errorf("%s: %d reads at the same time, want %d", name, got, maxReads)
			}
			close(reader.end)
			all.Wait()
			if got := len(reader.started); got != 50 {
				t.Errorf("%s: %d reads, want 50", name, got)
			}
		})
	}
}
