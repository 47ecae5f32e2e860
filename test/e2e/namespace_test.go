package e2e

import (
	"strings"
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

// Each value that cannot be read is refused where it is written, with the field, the value and the
// fix.
func TestNamespaceValues(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	const fix = "use seconds (90) or units s, m, h, d, w (1h30m, 7d)"
	refused := func(key, value, why string) row {
		return row{namespace("refused", key, value), denied("namespaces.curfew.dev", "metadata.annotations["+key+"]: "+why)}
	}
	s.wouldCreate(
		refused(wellknown.AnnotationDefaultTTL, "-5m", `"-5m" is negative: a duration is 0 or more, or never`),
		refused(wellknown.AnnotationDefaultTTL, "1.5s", `"1.5s" is not a whole number of seconds: `+fix+`, or never`),
		refused(wellknown.AnnotationDefaultTTLSucceeded, "1y", `"1y" is not a duration: unit "y" is unknown; `+fix+`, or never`),
		refused(wellknown.AnnotationDefaultTTLFailed, "", `is empty: `+fix+`, or never`),
		refused(wellknown.AnnotationDefaultPodTTL, "2147483648", `"2147483648" is too long: at most 2147483647s (68 years), or never`),
		refused(wellknown.AnnotationDefaultDeadline, "0", `"0" is below 1: a deadline is 1s or more`),
		refused(wellknown.AnnotationDefaultDeadline, "never", `"never" is not a duration: `+fix),
		refused(wellknown.AnnotationMinTTL, "never", `"never" is not a duration: `+fix),
		refused(wellknown.AnnotationMaxTTL, "one day", `"one day" is not a duration: `+fix),
		refused(wellknown.AnnotationMinDeadline, "0s", `"0s" is below 1: a deadline is 1s or more`),
		refused(wellknown.AnnotationMaxDeadline, "-1", `"-1" is negative: a duration is 0 or more`),
		refused(wellknown.AnnotationMode, "warm", `"warm" is not a mode: use enforce, warn or dry-run`),
		refused(wellknown.AnnotationBackfill, "yes", `"yes" is neither "true" nor "false": use one of them`),
		row{namespace("crossed", wellknown.AnnotationMinTTL, "8d", wellknown.AnnotationMaxTTL, "1w"), denied("namespaces.curfew.dev",
			`metadata.annotations[curfew.dev/min-ttl]: 8d is above curfew.dev/max-ttl 7d: lower it, or raise the other`)},
		row{namespace("crossed", wellknown.AnnotationMinDeadline, "2h", wellknown.AnnotationMaxDeadline, "1h"), denied("namespaces.curfew.dev",
			`metadata.annotations[curfew.dev/min-deadline]: 2h is above curfew.dev/max-deadline 1h: lower it, or raise the other`)},
		// All of them in one namespace, as they may be written.
		row{namespace("fine", wellknown.AnnotationDefaultTTL, "never", wellknown.AnnotationDefaultTTLSucceeded, "90", wellknown.AnnotationDefaultTTLFailed, "2w",
			wellknown.AnnotationDefaultPodTTL, "1.5h", wellknown.AnnotationDefaultDeadline, "1h30m", wellknown.AnnotationMinTTL, "60s", wellknown.AnnotationMaxTTL, "30d",
			wellknown.AnnotationMinDeadline, "1", wellknown.AnnotationMaxDeadline, "1d12h", wellknown.AnnotationMode, "warn", wellknown.AnnotationBackfill, "true"), ""},
	)
}

// A default that leaves no time to read the logs gives a warning when it is written.
func TestShortDefaultsAreWarned(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	short := func(key, value string) row {
		return row{namespace("short", key, value), warned("metadata.annotations[" + key + "]: " + value +
			" is under 60s: a Job or Pod may be deleted before anyone reads its logs; use 60s or more")}
	}
	s.wouldCreate(
		short(wellknown.AnnotationDefaultTTL, "0s"), short(wellknown.AnnotationDefaultTTLSucceeded, "30s"),
		short(wellknown.AnnotationDefaultTTLFailed, "59s"), short(wellknown.AnnotationDefaultPodTTL, "5s"),
		row{namespace("long", wellknown.AnnotationDefaultTTL, "1m"), ""})
}

// default-pod-ttl speaks for Pods before default-ttl does. What cannot finish, and CronJobs, are
// left as they are.
func TestDefaultPodTTL(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultPodTTL, "2h")
	s.creates(
		row{pod("single", corev1.RestartPolicyNever), warned(`curfew.dev/ttl-after-finished defaulted to 2h from namespace "` + s.name + `"`)},
		row{pod("own", corev1.RestartPolicyOnFailure, wellknown.AnnotationTTL, "3h"), ""},
		row{pod("server", corev1.RestartPolicyAlways), ""},
		row{cronJob("nightly"), ""},
	)
	for name, want := range map[string]string{"single": "2h namespace/" + s.name, "own": "3h object", "server": " "} {
		got := s.getPod(name).Annotations
		if got := got[wellknown.AnnotationTTL] + " " + got[wellknown.AnnotationTTLSource]; got != want {
			t.Errorf("TTL and source of %s are %q, want %q", name, got, want)
		}
	}
	// Without one, Pods get what all get.
	plain := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	plain.creates(row{pod("single", corev1.RestartPolicyNever), warned(`curfew.dev/ttl-after-finished defaulted to 1d from namespace "` + plain.name + `"`)})
}

func limited(deadline time.Duration) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		seconds := int64(deadline / time.Second)
		j.Spec.ActiveDeadlineSeconds = &seconds
	}
}

// A default deadline is for Jobs that have none, one of a CronJob included; never for Pods.
func TestDefaultDeadline(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "2h")
	s.creates(
		row{job("long"), warned(`activeDeadlineSeconds defaulted to 7200 (2h) from namespace "` + s.name + `"`)},
		row{job("own", limited(3*time.Hour), annotated(wellknown.AnnotationDeadlineSource, "namespace/forged")), ""},
		row{pod("single", corev1.RestartPolicyNever), ""},
		row{cronJob("nightly"), ""},
	)
	s.expectSuccess(s.kubectl("create", "job", "tonight", "--from=cronjob/nightly"))
	for name, want := range map[string]string{"long": "7200 namespace/" + s.name, "own": "10800 ", "tonight": "7200 namespace/" + s.name} {
		got := s.jsonpath("job", name, ".spec.activeDeadlineSeconds") + " " + s.getJob(name).Annotations[wellknown.AnnotationDeadlineSource]
		if got != want {
			t.Errorf("deadline and source of %s are %q, want %q", name, got, want)
		}
	}
	if got := s.getPod("single"); got.Spec.ActiveDeadlineSeconds != nil || len(got.Annotations) > 0 {
		t.Errorf("the Pod was changed: %v %v", got.Spec.ActiveDeadlineSeconds, got.Annotations)
	}
}

// Bounds of deadlines: a default is moved inside, what its author wrote is refused, that of a Pod
// too.
func TestDeadlineBounds(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultDeadline, "1m", wellknown.AnnotationMinDeadline, "10m", wellknown.AnnotationMaxDeadline, "1d")
	bound := func(which, value string) string {
		return "curfew.dev/" + which + "-deadline " + value + ` of namespace "` + s.name + `"`
	}
	endless := pod("endless", corev1.RestartPolicyAlways)
	endless.Spec.ActiveDeadlineSeconds = new(int64)
	*endless.Spec.ActiveDeadlineSeconds = 90000
	late := cronJob("late")
	late.Spec.JobTemplate.Spec.ActiveDeadlineSeconds = endless.Spec.ActiveDeadlineSeconds
	const field = "spec.activeDeadlineSeconds: "
	s.creates(
		row{job("default"), warned(`activeDeadlineSeconds defaulted to 600 (10m) from namespace "` + s.name + `"`)},
		row{job("fits", limited(24*time.Hour)), ""},
		row{job("long", limited(25*time.Hour)), denied("validate.curfew.dev", field+"90000 (1d1h) is above "+bound("max", "1d")+": use 1d or less")},
		row{job("short", limited(time.Minute)), denied("validate.curfew.dev", field+"60 (1m) is below "+bound("min", "10m")+": use 10m or more")},
		row{late, denied("validate.curfew.dev", "spec.jobTemplate."+field+"90000 (1d1h) is above "+bound("max", "1d")+": use 1d or less")},
		row{endless, denied("validate-pods.curfew.dev", field+"90000 (1d1h) is above "+bound("max", "1d")+": use 1d or less")},
	)
}

// TTL bounds hold for labels too: for the life that they grant.
func TestBoundsHoldForLabels(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMinTTL, "10m", wellknown.AnnotationMaxTTL, "7d")
	of := ` of namespace "` + s.name + `": use `
	const field = "metadata.labels[curfew.dev/ttl]: "
	s.creates(
		row{job("fits", labelled("6d23h")), ""},
		row{job("long", labelled("8d")), denied("validate.curfew.dev", field+"8d is above curfew.dev/max-ttl 7d"+of+"7d or less")},
		row{job("short", labelled("5m")), denied("validate.curfew.dev", field+"5m is below curfew.dev/min-ttl 10m"+of+"10m or more")},
	)
	out := s.create(job("far", labelled("2099-12-24")))
	if want := "is above curfew.dev/max-ttl 7d" + of + "7d or less"; !out.failed || !strings.Contains(out.stderr, field) || !strings.Contains(out.stderr, want) {
		t.Errorf("kubectl said %q, want %q", out.stderr, want)
	}
}

func labelled(ttl string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Labels = map[string]string{wellknown.LabelTTL: ttl} }
}

// Taking a TTL away while a max-ttl holds is refused, and so is never; without bounds it means that
// there is none.
func TestRemovingADefault(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	s.expectSuccess(s.create(job("build", inTemplate(hold, "true"))))
	s.expectStderr(s.kubectl("patch", "job", "build", "--type=merge", "-p", `{"spec":{"ttlSecondsAfterFinished":null}}`))
	if got := s.getJob("build"); got.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("the default came back: %d", *got.Spec.TTLSecondsAfterFinished)
	}
	bounded := newSpace(t, wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationMaxTTL, "7d")
	bounded.expectSuccess(bounded.create(job("build", inTemplate(hold, "true"))))
	refusal := `Error from server (Forbidden): admission webhook "validate.curfew.dev" denied the request: `
	bounded.expectRefusal(bounded.kubectl("patch", "job", "build", "--type=merge", "-p", `{"spec":{"ttlSecondsAfterFinished":null}}`),
		refusal+`spec.ttlSecondsAfterFinished: cannot be removed while curfew.dev/max-ttl 7d of namespace "`+bounded.name+`" applies: set it to 7d or less`)
	bounded.expectRefusal(bounded.kubectl("patch", "job", "build", "--type=merge", "-p",
		`{"spec":{"ttlSecondsAfterFinished":null},"metadata":{"annotations":{"curfew.dev/ttl-after-finished":"never"}}}`),
		refusal+`metadata.annotations[curfew.dev/ttl-after-finished]: never is above curfew.dev/max-ttl 7d of namespace "`+bounded.name+`": use 7d or less`)
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
	if at, hash, ok := resolution.ParseSince(since); !ok || inUse != "true" || podsInUse != "true" ||
		hash != resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}) || time.Since(at) > time.Hour {
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
