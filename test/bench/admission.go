package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"curfew.dev/curfew/test/builders"
)

// admissionBench is the state of the bench "admission": what a review takes, and what a create
// takes longer because of it.
type admissionBench struct {
	env      *environment
	site     *site
	policies *policies
	body     []byte
	creators []*creator

	counts               []int
	reviews, createsEach int
}

var admissionFlags struct{ policies, reviews, creates int }

func init() {
	register(bench{
		name: "admission", about: "reviews of a new Job over TLS, and creating one through the API server", position: 20,
		run: runAdmission,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&admissionFlags.reviews, "admission-reviews", 2000, "how many reviews each contestant of the admission answers a round, for each number of policies")
			fs.IntVar(&admissionFlags.creates, "admission-creates", 500, "how many Jobs are created for each contestant of the admission a round; 0: none")
			fs.IntVar(&admissionFlags.policies, "admission-policies", -1, "the number of LifecyclePolicies; -1: by turns 0, 10 and 100")
		},
	})
}

// theCreatePolicies is how many LifecyclePolicies there are while Jobs are created.
const theCreatePolicies = 10

func runAdmission(ctx context.Context, e *environment) (results []result, err error) {
	a := &admissionBench{env: e, counts: policyCounts, reviews: admissionFlags.reviews, createsEach: admissionFlags.creates}
	if admissionFlags.policies >= 0 {
		a.counts = []int{admissionFlags.policies}
	}
	a.site, err = openSite(ctx, e)
	defer func() { err = errors.Join(err, a.site.close(ctx)) }()
	if err != nil {
		return nil, err
	}
	ctrllog.SetLogger(logr.Discard())
	if a.policies, err = newPolicies(e); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.policies.removeAll(ctx)) }()
	if err := a.site.prepareNamespaces(ctx); err != nil {
		return nil, err
	}
	if a.creators, err = a.site.newCreators(ctx); err != nil {
		return nil, err
	}
	if a.body, err = a.site.captureReview(ctx, a.creators[1].client, builders.BuildJob(reviewNamespace, "build-000000")); err != nil {
		return nil, err
	}
	fmt.Fprintf(e.out, "the review of a Job has %d bytes\n", len(a.body))
	defer func() { err = errors.Join(err, a.site.unconfigure(ctx)) }()
	if err := a.site.configure(ctx); err != nil {
		return nil, err
	}
	if err := a.creators[0].awaitConfigured(ctx); err != nil {
		return nil, err
	}
	var runs struct {
		Reviews []reviewMeasurement `json:"reviews"`
		Creates []createMeasurement `json:"creates"`
	}
	for n := 1; n <= e.rounds; n++ {
		fmt.Fprintf(e.out, "round %d of %d\n", n, e.rounds)
		measured, err := a.latencyRound(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("round %d, reviews: %w", n, err)
		}
		for _, m := range measured {
			fmt.Fprintf(e.out, "  %-16s%4d policies   p50 %6.0f µs   p99 %6.0f µs   %5.0f allocations   others %.0f%%\n",
				m.Contestant, m.Policies, m.P50, m.P99, m.Allocations, m.Others*100)
		}
		runs.Reviews = append(runs.Reviews, measured...)
		created, err := a.createRound(ctx, n)
		if err != nil {
			return nil, err
		}
		runs.Creates = append(runs.Creates, created...)
		if err := e.writeRuns("admission", runs); err != nil {
			return nil, err
		}
	}
	return summarizeAdmission(runs.Reviews, runs.Creates), nil
}

// createRound lets each creator create Jobs once.
func (a *admissionBench) createRound(ctx context.Context, n int) (all []createMeasurement, err error) {
	if a.createsEach == 0 {
		return nil, nil
	}
	if err := a.policies.set(ctx, a.site, theCreatePolicies); err != nil {
		return nil, err
	}
	for _, c := range a.creators {
		created, err := a.creates(ctx, n, c)
		if err != nil {
			return nil, fmt.Errorf("round %d, creates by %s: %w", n, c.about, err)
		}
		fmt.Fprintf(a.env.out, "  creates by %s\n", c.about)
		for _, m := range created {
			fmt.Fprintf(a.env.out, "    %-10s p50 %6.0f µs   p99 %6.0f µs   others %.0f%%\n", m.Contestant, m.P50, m.P99, m.Others*100)
		}
		all = append(all, created...)
	}
	return all, nil
}

// newCreators are the users who create Jobs: an administrator, and the ServiceAccount of a build
// system.
func (s *site) newCreators(ctx context.Context) ([]*creator, error) {
	const name = "builder"
	meta := metav1.ObjectMeta{Name: name, Namespace: reviewNamespace}
	_, err := s.client.CoreV1().ServiceAccounts(reviewNamespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create the ServiceAccount of a build system: %w", err)
	}
	// In the whole cluster, as a build system's rights are, because the contestants have a namespace
	// each.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bench-" + name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create", "delete"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: reviewNamespace}}}
	_, err = s.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = s.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("let the build system create Jobs: %w", err)
	}
	path, err := s.env.serviceAccountConfig(ctx, reviewNamespace, name)
	if err != nil {
		return nil, err
	}
	builder, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the build system's kubeconfig: %w", err)
	}
	var out []*creator
	for _, scenario := range scenarios {
		config := connect(builder)
		if scenario.person {
			config = connect(s.env.config)
		}
		// As kubectl and most build systems write.
		config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
		config.WarningHandler = rest.NoWarnings{}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client of %s: %w", scenario.about, err)
		}
		out = append(out, &creator{scenario: scenario, client: client})
	}
	return out, nil
}

func (s *site) tlsConfig() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}, nil
}

// summarizeAdmission makes results of the measurements. Only values of the same round are compared.
func summarizeAdmission(reviews []reviewMeasurement, creates []createMeasurement) []result {
	values := map[string][]float64{}
	for _, m := range reviews {
		key := fmt.Sprintf("%s.%d.", m.Contestant, m.Policies)
		values[key+"p50"] = append(values[key+"p50"], m.P50)
		values[key+"p99"] = append(values[key+"p99"], m.P99)
		values[key+"allocs"] = append(values[key+"allocs"], m.Allocations)
	}
	var results []result
	against := func(name, unit, who, baseline, about string) {
		if len(values[who]) > 0 && len(values[who]) == len(values[baseline]) {
			results = append(results, compare(name, unit, values[who], about, values[baseline]))
		}
	}
	const noopAbout, typedAbout = `a webhook that only says "allowed"`, "controller-runtime's typed defaulter"
	for _, quantile := range []string{"p50", "p99"} {
		of := func(who string, n int) string { return fmt.Sprintf("%s.%d.%s", who, n, quantile) }
		name := func(infix string, n int) string { return fmt.Sprintf("admission.%s.%d.%s", quantile, n, infix) }
		for _, n := range policyCounts {
			against(name("vs_noop", n), "µs", of(theCurfew, n), of(answerNoop, n), noopAbout)
			against(name("by_policy.vs_noop", n), "µs", of(theByPolicy, n), of(answerNoop, n), noopAbout)
		}
		against(name("vs_typed", 10), "µs", of(theCurfew, 10), of(answerTyped, 10), typedAbout)
		against(name("vs_10", 100), "µs", of(theCurfew, 100), of(theCurfew, 10), "Curfew with 10 policies")
		against(name("by_policy.vs_10", 100), "µs", of(theByPolicy, 100), of(theByPolicy, 10), "Curfew with 10 policies")
	}
	against("admission.allocs.10", "allocations", theCurfew+".10.allocs", answerNoop+".10.allocs", noopAbout)
	against("admission.allocs.10.vs_typed", "allocations", theCurfew+".10.allocs", answerTyped+".10.allocs", typedAbout)
	against("admission.allocs.100", "allocations", theCurfew+".100.allocs", answerNoop+".100.allocs", noopAbout)
	for _, scenario := range scenarios {
		results = append(results, summarizeCreates(creates, scenario)...)
	}
	return results
}

// summarizeCreates compares how much longer creates take than without a webhook.
func summarizeCreates(creates []createMeasurement, of scenario) []result {
	p50, p99 := map[string][]float64{}, map[string][]float64{}
	for _, m := range creates {
		if m.Scenario == of.name {
			p50[m.Contestant] = append(p50[m.Contestant], m.P50)
			p99[m.Contestant] = append(p99[m.Contestant], m.P99)
		}
	}
	none := p50[createNone]
	if len(none) == 0 {
		return nil
	}
	added := func(contestant string) []float64 {
		var out []float64
		for i, v := range p50[contestant] {
			out = append(out, v-none[i])
		}
		return out
	}
	infix := ""
	if of.name != "" {
		infix = of.name + "."
	}
	const mapAbout, noneAbout = "a MutatingAdmissionPolicy", "no admission"
	results := []result{compare("admission.create_added_p50."+infix+"vs_map", "µs", added(theCurfew), mapAbout, added(createMAP))}
	for _, other := range []string{answerNoop, answerTyped, createPatch} {
		results = append(results, compare("admission.create_added_p50."+infix+other+".vs_map", "µs", added(other), mapAbout, added(createMAP)))
	}
	for _, who := range []string{theCurfew, createMAP} {
		results = append(results,
			compare("admission.create_p50."+infix+who+".vs_none", "µs", p50[who], noneAbout, none),
			compare("admission.create_p99."+infix+who+".vs_none", "µs", p99[who], noneAbout, p99[createNone]))
	}
	return results
}
