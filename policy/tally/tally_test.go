package tally_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func podTally(name string, created time.Time, labels map[string]string) *v1alpha1.PodTally {
	return &v1alpha1.PodTally{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchLabels: labels}},
	}
}

func compile(t *testing.T, object *v1alpha1.PodTally) *tally.Tally {
	t.Helper()
	out, errs := tally.Compile(object)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return out
}

func pod(change func(*corev1.Pod)) *policy.Facts {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "a", Labels: map[string]string{"app": "build"}}, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
	if change != nil {
		change(out)
	}
	return policy.FactsOfPod(out)
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", Controller: &controller}}
	}
}

func TestExempt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"a bare Pod":              {nil, ""},
		"restarts on failure":     {func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }, ""},
		"restarts always":         {func(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "has restartPolicy Always, so it never finishes"},
		"restart policy absent":   {func(pod *corev1.Pod) { pod.Spec.RestartPolicy = "" }, "has restartPolicy Always, so it never finishes"},
		"of a Job":                {ownedBy("batch/v1", "Job"), "belongs to a Job, which counts it"},
		"of another kind of Job":  {ownedBy("batch.volcano.sh/v1alpha1", "Job"), ""},
		"a Spark executor":        {ownedBy("v1", "Pod"), ""},
		"tracked, Job removed":    {func(pod *corev1.Pod) { pod.Finalizers = []string{wellknown.FinalizerJobTracking} }, "belongs to a Job, which counts it"},
		"a mirror Pod":            {func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, "is a mirror Pod, which the kubelet deletes"},
		"a copy of MultiKueue's":  {func(pod *corev1.Pod) { pod.Labels[wellknown.LabelMultiKueueOrigin] = "m" }, "is a copy made by MultiKueue"},
		"protected":               {func(pod *corev1.Pod) { pod.Annotations = map[string]string{wellknown.AnnotationProtect: "true"} }, ""},
		"finished, being deleted": {func(pod *corev1.Pod) { now := metav1.Now(); pod.DeletionTimestamp = &now }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			entry := compile(t, podTally("a", noon, map[string]string{"app": "build"}))
			facts := pod(c.change)
			if got := tally.Exempt(facts); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if entry.Selects(facts) != (c.want == "") {
				t.Errorf("selected: %v", entry.Selects(facts))
			}
		})
	}
}

func TestOwner(t *testing.T) {
	build := map[string]string{"app": "build"}
	older, younger := podTally("z", noon, build), podTally("a", noon.Add(time.Second), build)
	twin := podTally("y", noon, build)
	other := podTally("b", noon.Add(-time.Hour), map[string]string{"app": "test"})
	deleting := podTally("c", noon.Add(-time.Hour), build)
	deleting.DeletionTimestamp = &metav1.Time{Time: noon}
	elsewhere := podTally("d", noon.Add(-time.Hour), build)
	elsewhere.Namespace = "other"
	unborn := podTally("0", time.Time{}, build)
	for name, c := range map[string]struct {
		tallies []*v1alpha1.PodTally
		want    string
	}{
		"none":                {nil, ""},
		"one":                 {[]*v1alpha1.PodTally{younger}, "a"},
		"the older":           {[]*v1alpha1.PodTally{younger, older}, "z"},
		"the order is no say": {[]*v1alpha1.PodTally{older, younger}, "z"},
		"same second":         {[]*v1alpha1.PodTally{older, twin}, "y"},
		"does not match":      {[]*v1alpha1.PodTally{other, younger}, "a"},
		"being deleted":       {[]*v1alpha1.PodTally{deleting, younger}, "a"},
		"another namespace":   {[]*v1alpha1.PodTally{elsewhere, younger}, "a"},
		"not created yet":     {[]*v1alpha1.PodTally{unborn, younger}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var tallies []*tally.Tally
			for _, each := range c.tallies {
				tallies = append(tallies, compile(t, each))
			}
			got := ""
			if owner := tally.Owner(tallies, pod(nil)); owner != nil {
				got = owner.Name
			}
			if got != c.want {
				t.Errorf("owner %q, want %q", got, c.want)
			}
		})
	}
}

func TestCompile(t *testing.T) {
	ttl := func(text string) *v1alpha1.TTL { out := v1alpha1.TTL(text); return &out }
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprint("v", i))
	}
	for name, c := range map[string]struct {
		spec    v1alpha1.PodTallySpec
		want    string
		selects bool
	}{
		"labels":         {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "build"}}}, "", true},
		"expressions":    {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}}}, "", true},
		"TTL":            {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "build"}}, TTLAfterCounted: ttl("10m")}, "", true},
		"empty":          {v1alpha1.PodTallySpec{}, "spec.selector: Required value: an empty selector would match every Pod", false},
		"bad operator":   {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}}, `"Like" is not a valid label selector operator`, false},
		"too many terms": {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "NotIn", Values: many}}}}, "spec.selector: Too many: 301: must have at most 256", false},
		"bad TTL":        {v1alpha1.PodTallySpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "build"}}, TTLAfterCounted: ttl("soon")}, "spec.ttlAfterCounted", true},
	} {
		t.Run(name, func(t *testing.T) {
			entry, errs := tally.Compile(&v1alpha1.PodTally{ObjectMeta: metav1.ObjectMeta{Namespace: "ci"}, Spec: c.spec})
			if c.want == "" && len(errs) > 0 || c.want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), c.want)) {
				t.Errorf("got %v, want %q", errs.ToAggregate(), c.want)
			}
			if entry.Selects(pod(nil)) != c.selects {
				t.Errorf("selects: %v", !c.selects)
			}
		})
	}
}

// A PodTally with a field that only a newer version knows keeps the Pods that it has counted (S6).
func TestTallyOfANewerVersion(t *testing.T) {
	spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "build"}}, "ttlAfterCounted": "10m"}
	object := map[string]any{"metadata": map[string]any{"namespace": "ci", "name": "builds", "uid": "uid-builds"}, "spec": spec}
	entry, errs := tally.Read(object)
	if counter := entry.Counter(); len(errs) > 0 || counter.TTL == nil || counter.TTL.Err != nil {
		t.Errorf("of this version: %+v, %v", counter, errs)
	}
	spec["keepFailed"] = true
	entry, errs = tally.Read(object)
	if counter := entry.Counter(); len(errs) != 1 || errs[0].Field != "spec.keepFailed" || counter.TTL.Err == nil {
		t.Errorf("of a newer version: %+v, %v", counter, errs)
	}
	if !entry.Selects(pod(nil)) || tally.CounterOf(object).TTL.Err == nil {
		t.Error("it does not count, or its Pods are not kept")
	}
}
