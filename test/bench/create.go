package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/test/builders"
)

// createMeasurement is what creating Jobs in one namespace, one after the other, took in one round,
// in microseconds. It is written to .bench/runs-create.json.
type createMeasurement struct {
	Round      int     `json:"round"`
	Contestant string  `json:"contestant"`
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	Others     float64 `json:"others"`
}

// Contestants of the creates, each with a namespace of its own: bench-<name>.
const (
	createNone = "none"
	createMAP  = "map"

	createBlock  = 20
	createWarmup = 40
)

var createField = []string{createNone, createMAP, theCurfew}

func createNamespace(contestant string) string { return "bench-" + contestant }

// runCreate creates Jobs as a person does, in a namespace without defaults, in one where a
// MutatingAdmissionPolicy of the API server writes a TTL, and in one where Curfew does.
func runCreate(ctx context.Context, e *environment) (results []result, err error) {
	s := &site{env: e}
	defer func() { err = errors.Join(err, s.clearCreates(ctx), s.close(ctx)) }()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if err := s.bindPolicy(ctx); err != nil {
		return nil, err
	}
	var all []createMeasurement
	for n := 1; n <= e.rounds; n++ {
		measured, err := s.createRound(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		for _, m := range measured {
			fmt.Fprintf(e.out, "round %d of %d  %-8s p50 %6.0f µs   p99 %6.0f µs   others %.0f%%\n", n, e.rounds, m.Contestant, m.P50, m.P99, m.Others*100)
		}
		all = append(all, measured...)
		if err := e.writeRuns("create", all); err != nil {
			return nil, err
		}
	}
	return summarizeCreates(all), nil
}

// createRound lets everybody's Jobs be created by turns.
func (s *site) createRound(ctx context.Context, n int) ([]createMeasurement, error) {
	samples, created := map[string][]float64{}, 0
	create := func(contestant string, times int) error {
		for range times {
			created++
			job, began := builders.MakeJob(createNamespace(contestant), fmt.Sprintf("build-%d-%06d", n, created)).Obj(), time.Now()
			got, err := s.client.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{})
			took := time.Since(began)
			if err != nil {
				return fmt.Errorf("create a Job for %s: %w", contestant, err)
			}
			if !defaulted(contestant, got) {
				return fmt.Errorf("%s made spec.ttlSecondsAfterFinished %v of a Job", contestant, ptr.Deref(got.Spec.TTLSecondsAfterFinished, -1))
			}
			samples[contestant] = append(samples[contestant], float64(took)/float64(time.Microsecond))
		}
		return nil
	}
	for _, contestant := range createField {
		if err := create(contestant, createWarmup); err != nil {
			return nil, err
		}
	}
	clear(samples)
	pids := s.env.processes()
	pids[theCurfew] = s.curfew.PID
	since, err := startMeter(pids)
	if err != nil {
		return nil, err
	}
	for done := 0; done < s.env.objects; done += createBlock {
		for i := range createField {
			if err := create(createField[(i+n+done/createBlock)%len(createField)], createBlock); err != nil {
				return nil, err
			}
		}
	}
	_, others, err := since.read(1)
	if err != nil {
		return nil, err
	}
	var out []createMeasurement
	for _, contestant := range createField {
		out = append(out, createMeasurement{Round: n, Contestant: contestant, Others: others,
			P50: round(percentile(samples[contestant], 0.5)), P99: round(percentile(samples[contestant], 0.99))})
	}
	return out, nil
}

// defaulted reports whether a contestant wrote a TTL into a Job: who does has to have done so, or
// doing nothing would win.
func defaulted(contestant string, job *batchv1.Job) bool {
	has := ptr.Deref(job.Spec.TTLSecondsAfterFinished, 0) == defaultedTTL
	return has == (contestant != createNone)
}

// bindPolicy lets the API server itself write the TTL in the namespace of createMAP, and returns when
// it and Curfew do so.
func (s *site) bindPolicy(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: createNamespace(createMAP)}
	_, err := s.client.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				},
			}}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "no-ttl", Expression: "!has(object.spec.ttlSecondsAfterFinished)"}},
			FailurePolicy:   ptr.To(admissionregistrationv1.Fail),
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: fmt.Sprintf("Object{spec: Object.spec{ttlSecondsAfterFinished: %d}}", defaultedTTL)},
			}},
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a MutatingAdmissionPolicy: %w", err)
	}
	_, err = s.client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, MatchResources: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: meta.Name}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind a MutatingAdmissionPolicy: %w", err)
	}
	return s.curfew.poll(ctx, time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		for _, contestant := range createField {
			job := builders.MakeJob(createNamespace(contestant), "probe").Obj()
			got, err := s.client.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return fmt.Errorf("create a Job for %s: %w", contestant, err)
			}
			if !defaulted(contestant, got) {
				return fmt.Errorf("the API server does not ask %s", contestant)
			}
		}
		return nil
	})
}

// clearCreates takes all of it away. It is harmless where there is nothing.
func (s *site) clearCreates(ctx context.Context) error {
	if s.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	api, name := s.client.AdmissionregistrationV1(), createNamespace(createMAP)
	err := errors.Join(
		client.IgnoreNotFound(api.MutatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{})),
		client.IgnoreNotFound(api.MutatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})))
	policy := metav1.DeletePropagationBackground
	for _, contestant := range createField {
		err = errors.Join(err, s.client.BatchV1().Jobs(createNamespace(contestant)).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &policy}, metav1.ListOptions{}))
	}
	return err
}

// summarizeCreates compares how much longer creates take than without admission.
func summarizeCreates(all []createMeasurement) []result {
	p50, added := map[string][]float64{}, map[string][]float64{}
	for _, m := range all {
		p50[m.Contestant] = append(p50[m.Contestant], m.P50)
	}
	for _, who := range []string{theCurfew, createMAP} {
		for i, v := range p50[who] {
			added[who] = append(added[who], v-p50[createNone][i])
		}
	}
	return slices.Concat(
		against("admission.create_added_p50.vs_map", "µs", added, theCurfew, contestant{name: createMAP, about: "a MutatingAdmissionPolicy"}),
		against("admission.create_p50.curfew.vs_none", "µs", p50, theCurfew, contestant{name: createNone, about: "no admission"}))
}
