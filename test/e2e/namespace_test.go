package e2e

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// What the annotations of a Namespace do at admission. default-ttl, its outcomes, its bounds and
// the modes have their tests in admission_test.go and templates_test.go.

func namespace(name string, annotations ...string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: pairs(annotations)},
	}
}

func limited(deadline time.Duration) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		seconds := int64(deadline / time.Second)
		j.Spec.ActiveDeadlineSeconds = &seconds
	}
}

func labelled(ttl string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Labels = map[string]string{wellknown.LabelTTL: ttl} }
}

// What Curfew keeps on a Namespace is not its author's to write, nor to take away.
func TestCurfewsOwnKeysOnNamespaces(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	read := func() (since, inUse, podsInUse string) {
		got, err := suite.cluster.Client.CoreV1().Namespaces().Get(s.ctx, s.name, metav1.GetOptions{})
		s.ok(err)
		return got.Annotations[wellknown.AnnotationDefaultSince], got.Labels[wellknown.LabelInUse], got.Labels[wellknown.LabelPodsInUse]
	}
	since, inUse, podsInUse := read()
	if when, hash, ok := resolution.ParseSince(since); !ok || inUse != "true" || podsInUse != "true" ||
		hash != resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}) || time.Since(when) > time.Hour {
		t.Fatalf("default-since %q, in-use %q, pods-in-use %q", since, inUse, podsInUse)
	}
	earlier := resolution.FormatSince(time.Now().Add(-1000*hour), resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}))
	s.expectStderr(s.kubectl("annotate", "--overwrite", "namespace", s.name, wellknown.AnnotationDefaultSince+"="+earlier))
	s.expectStderr(s.kubectl("label", "--overwrite", "namespace", s.name, wellknown.LabelInUse+"-", wellknown.LabelPodsInUse+"-"))
	if again, inUse, podsInUse := read(); again != since || inUse != "true" || podsInUse != "true" {
		t.Errorf("they became %q, %q and %q", again, inUse, podsInUse)
	}
	s.expectStderr(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"-"))
	if since, inUse, podsInUse := read(); since+inUse+podsInUse != "" {
		t.Errorf("without defaults they are %q, %q and %q", since, inUse, podsInUse)
	}
}
