package main

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/test/builders"
)

// createMeasurement is what creating Jobs in one namespace, one after the other, took in one round.
// It is written to .bench/runs-admission.json.
type createMeasurement struct {
	Round      int     `json:"round"`
	Contestant string  `json:"contestant"`
	Scenario   string  `json:"scenario"`
	Creates    int     `json:"creates"`
	P50        float64 `json:"p50"` // microseconds
	P99        float64 `json:"p99"`
	Others     float64 `json:"others"`
}

// Contestants of the creates, each with a namespace of its own: bench-<name>.
const (
	createNone  = "none"
	createMAP   = "map"
	createPatch = "map-patch"
)

// createField lists them in the order of the first round. Webhooks that are no part of Curfew are
// there to tell what a webhook costs.
var createField = []string{createNone, createMAP, createPatch, theCurfew, answerNoop, answerTyped}

// scenario is who creates what.
type scenario struct {
	// name stands in the names of results; the first has none.
	name, about string
	// person is an administrator: for people Curfew announces what it has filled in, for
	// ServiceAccounts it does not.
	person bool
	job    func(namespace, name string) *batchv1.Job
}

// scenarios; the first one is what `kubectl create job` does.
var scenarios = []scenario{
	{name: "", about: "a person, one container", person: true, job: oneContainer},
	{name: "service_account", about: "a ServiceAccount, one container", job: oneContainer},
	{name: "build", about: "a ServiceAccount, the Job of a build system", job: builders.BuildJob},
}

// oneContainer is a Job as `kubectl create job` makes it.
func oneContainer(namespace, name string) *batchv1.Job {
	return builders.MakeJob(namespace, name).Obj()
}

func createNamespace(contestant string) string { return "bench-" + contestant }

// prepareNamespaces makes the namespaces of all contestants, and of the reviews.
func (s *site) prepareNamespaces(ctx context.Context) error {
	for _, name := range append([]string{probeNamespace, policyNamespace}, namespacesOf(createField)...) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.org/tier": "ci"}}}
		if name == reviewNamespace || name == policyNamespace {
			namespace.Labels[builders.LabelTeam] = builders.TeamPayments
		}
		if name == reviewNamespace {
			namespace.Labels["curfew.dev/in-use"] = "true"
			namespace.Annotations = map[string]string{"curfew.dev/default-ttl": fmt.Sprint(defaultedTTL)}
		}
		if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

func namespacesOf(contestants []string) []string {
	var out []string
	for _, c := range contestants {
		out = append(out, createNamespace(c))
	}
	return out
}

// configure has the API server ask everybody but Curfew, which is installed already, for each in
// its namespace.
func (s *site) configure(ctx context.Context) error {
	for _, server := range []*server{s.noop, s.typed} {
		configuration := webhookConfiguration("bench-"+server.name, "https://"+server.address, s.authority, createNamespace(server.name))
		if _, err := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("configure the webhook %s: %w", server.name, err)
		}
	}
	api := s.client.AdmissionregistrationV1()
	for _, contestant := range []string{createMAP, createPatch} {
		policy, binding := mutatingPolicy(contestant)
		if _, err := api.MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create a MutatingAdmissionPolicy: %w", err)
		}
		if _, err := api.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind a MutatingAdmissionPolicy: %w", err)
		}
	}
	return nil
}

// mutatingPolicy is the simple default in the API server itself, written in one of the two ways
// that there are.
func mutatingPolicy(contestant string) (*admissionregistrationv1.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	name := "bench-" + contestant
	mutation := admissionregistrationv1.Mutation{
		PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
		ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
			Expression: fmt.Sprintf("Object{spec: Object.spec{ttlSecondsAfterFinished: %d}}", defaultedTTL)},
	}
	if contestant == createPatch {
		mutation = admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch,
			JSONPatch: &admissionregistrationv1.JSONPatch{
				Expression: fmt.Sprintf(`[JSONPatch{op: "add", path: "/spec/ttlSecondsAfterFinished", value: %d}]`, defaultedTTL)},
		}
	}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				},
			}}},
			MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: "no-ttl", Expression: "!has(object.spec.ttlSecondsAfterFinished)"}},
			FailurePolicy:      ptr.To(admissionregistrationv1.Fail),
			Mutations:          []admissionregistrationv1.Mutation{mutation},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: name,
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: createNamespace(contestant)}}},
		},
	}
	return policy, binding
}

// unconfigure takes all of it away. It is harmless where there is nothing.
func (s *site) unconfigure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	api := s.client.AdmissionregistrationV1()
	for _, name := range []string{answerNoop, answerTyped, createMAP, createPatch} {
		name = "bench-" + name
		for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
			api.MutatingWebhookConfigurations().Delete, api.MutatingAdmissionPolicyBindings().Delete, api.MutatingAdmissionPolicies().Delete,
		} {
			if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("take away what the API server was configured with: %w", err)
			}
		}
	}
	return nil
}

// creator creates the Jobs of a scenario.
type creator struct {
	scenario
	client  kubernetes.Interface
	created int
}

// create makes one Job and returns how long that took, and the Job.
func (c *creator) create(ctx context.Context, contestant string, options metav1.CreateOptions) (*batchv1.Job, time.Duration, error) {
	c.created++
	job := c.job(createNamespace(contestant), fmt.Sprintf("build-%06d", c.created))
	began := time.Now()
	got, err := c.client.BatchV1().Jobs(job.Namespace).Create(ctx, job, options)
	took := time.Since(began)
	if err != nil {
		return nil, 0, fmt.Errorf("create a Job for %s: %w", contestant, err)
	}
	return got, took, nil
}

// checks what a contestant made of a Job: everybody who defaults has to have done so.
func defaulted(contestant string, job *batchv1.Job) bool {
	has := ptr.Deref(job.Spec.TTLSecondsAfterFinished, 0) == defaultedTTL
	return has == (contestant != createNone && contestant != answerNoop)
}

// awaitConfigured returns when the API server asks everybody.
func (c *creator) awaitConfigured(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, contestant := range createField {
		for {
			job, _, err := c.create(ctx, contestant, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			if defaulted(contestant, job) {
				break
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("the API server does not ask %s: %w", contestant, err)
			}
		}
	}
	return nil
}

const (
	createBlock  = 20
	createWarmup = 40
)

// creates lets everybody's Jobs be created by turns.
func (a *admissionBench) creates(ctx context.Context, n int, c *creator) ([]createMeasurement, error) {
	for _, contestant := range createField {
		for range createWarmup {
			if _, _, err := c.create(ctx, contestant, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
		}
	}
	pids := a.pids()
	from, err := clock(pids)
	if err != nil {
		return nil, err
	}
	samples := map[string][]float64{}
	for done := 0; done < a.createsEach; done += createBlock {
		for i := range createField {
			contestant := createField[(i+n+done/createBlock)%len(createField)]
			for range createBlock {
				job, took, err := c.create(ctx, contestant, metav1.CreateOptions{})
				if err != nil {
					return nil, err
				}
				if !defaulted(contestant, job) {
					return nil, fmt.Errorf("%s made spec.ttlSecondsAfterFinished %v of a Job", contestant, ptr.Deref(job.Spec.TTLSecondsAfterFinished, -1))
				}
				samples[contestant] = append(samples[contestant], float64(took)/float64(time.Microsecond))
			}
		}
	}
	to, err := clock(pids)
	if err != nil {
		return nil, err
	}
	var out []createMeasurement
	for _, contestant := range createField {
		out = append(out, createMeasurement{
			Round: n, Contestant: contestant, Scenario: c.name, Creates: len(samples[contestant]),
			P50: round(percentile(samples[contestant], 0.5)), P99: round(percentile(samples[contestant], 0.99)), Others: round(others(from, to)),
		})
	}
	return out, a.site.clearJobs(ctx)
}

// clearJobs deletes the Jobs of all contestants.
func (s *site) clearJobs(ctx context.Context) error {
	policy := metav1.DeletePropagationBackground
	for _, namespace := range namespacesOf(createField) {
		if err := s.client.BatchV1().Jobs(namespace).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &policy}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the Jobs in %s: %w", namespace, err)
		}
	}
	return nil
}
