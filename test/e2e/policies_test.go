package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// policy creates a LifecyclePolicy for Jobs of some namespaces and returns its name, which begins
// with the first namespace's. It is deleted with the test, since policies apply to the whole
// cluster.
func (s *space) policy(name, match, rest string, others ...*space) string {
	s.Helper()
	names := []string{s.name}
	for _, other := range others {
		names = append(names, other.name)
	}
	name = s.name + "-" + name
	if match == "" {
		match = "kinds: [{group: batch, kind: Job}]"
	}
	s.apply(fmt.Sprintf(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: %s}, spec: {match: {%s, namespaceSelector:
		{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%s]}]}}, %s}}`, name, match, strings.Join(names, ", "), rest))
	s.Cleanup(func() {
		if out := s.afterwards("delete", "lifecyclepolicy", name, "--ignore-not-found"); out.failed {
			s.Errorf("policy %s stays behind: %s", name, out.stderr)
		}
	})
	return name
}

func tier(name string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Labels = map[string]string{"tier": name} }
}

// A policy in mode DryRun changes, rejects and deletes nothing: admission warns, and the controller
// reports. Once it enforces, its default does not apply to what was created before.
func TestPolicyModeDryRun(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.policy("trial", "", `mode: DryRun, priority: 10, defaults: {ttl: {value: 1s}}, bounds: {maxTTL: 7d}`)
	would := warned(`ttlSecondsAfterFinished would be defaulted to 1 (1s) from policy "` + name + `" (dry-run)`)
	s.eventually(row{job("due"), would})
	s.outlast(now()) // An object created in the same second as the policy counts as older.
	due := s.newJob(job("due"))
	if due.Spec.TTLSecondsAfterFinished != nil || len(due.Annotations) > 0 {
		t.Errorf("it became %v", due)
	}
	s.creates(row{job("long", native(8*24*time.Hour)),
		warned(`spec.ttlSecondsAfterFinished: would be refused (mode DryRun): 691200 (8d) is above maxTTL 7d of policy "` + name + `": use 7d or less`)})
	finish := s.awaitJobFinish(due)
	s.awaitLog(suite.controller.Log, s.name+"/due", "dry")
	s.eventAbout("LifecyclePolicy", name, "WouldDelete", s.name+"/due")

	// A policy of lower priority gives its own default, and a label expires.
	low := s.policy("low", "", `priority: 1, defaults: {ttl: {value: 2s}}`)
	s.eventually(row{job("low"), warned(`ttlSecondsAfterFinished defaulted to 2 (2s) from policy "`+low+`"`) + "\n" + would})
	other := s.newJob(job("low"))
	s.notEarly(s.awaitDeletion(other), s.awaitJobFinish(other).Add(2*second))
	s.expectSuccess(s.kubectl("delete", "lifecyclepolicy", low))

	s.expectSuccess(s.kubectl("patch", "lifecyclepolicy", name, "--type=merge", "-p", `{"spec":{"mode":"Enforce"}}`))
	s.eventually(row{job("young"), warned(`ttlSecondsAfterFinished defaulted to 1 (1s) from policy "` + name + `"`)})
	young := s.newJob(job("young"))
	s.notEarly(s.awaitDeletion(young), s.awaitJobFinish(young).Add(second))
	s.outlast(finish.Add(second))
	s.stillThere(due)
	s.onlyDryRuns("due")
}

// A policy whose mode becomes DryRun deletes nothing that its defaults stamped before, by TTL or by
// label. A stamp that it does not produce again gains nothing. Once it enforces again, what it held
// is deleted.
func TestPolicyDryRunHoldsWhatIsStamped(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	name := s.policy("brake", "kinds: [{group: batch, kind: Job}, {kind: ConfigMap}]", `priority: 10, defaults: {ttlSucceeded: {value: 2s}, ttlLabel: {value: 3s}}`)
	s.eventually(row{job("probe"), warned(`curfew.dev/ttl-after-succeeded defaulted to 2s from policy "`+name+`"`) + "\n" + warned(`curfew.dev/ttl defaulted to 3s from policy "`+name+`"`)})
	// Nothing is deleted before the mode has changed, however long that takes.
	s.pause("")
	stamped := s.newJob(job("stamped"))
	configMap := s.newConfigMap("stamped")
	forged := s.newJob(job("forged", func(j *batchv1.Job) {
		j.Annotations = map[string]string{wellknown.AnnotationTTLSucceeded: "1s", wellknown.AnnotationTTLSource: "policy/" + name}
	}))
	mode := func(mode string) string {
		return s.kubectl("patch", "lifecyclepolicy", name, "--type=merge", "-p", `{"spec":{"mode":"`+mode+`"}}`).stderr
	}
	if output := mode("DryRun"); !strings.Contains(output, "spec.mode: Curfew deletes and stops nothing more by the defaults of this policy") {
		t.Errorf("the warning is %q", output)
	}
	s.poll("the mode to be known", func(context.Context) (bool, error) {
		const path = `.metadata.generation} {.status.conditions[?(@.type=="Ready")].observedGeneration`
		generation, observed, _ := strings.Cut(s.jsonpath("lifecyclepolicy", name, path), " ")
		return generation == observed, nil
	})
	s.awaitJobFinish(stamped)
	s.resume()
	s.awaitGone(forged)
	s.awaitLog(suite.controller.Log, s.name+"/stamped", "dry")
	s.outlast(now())
	s.outlastLabel(configMap.GetCreationTimestamp().Add(3 * second))
	s.stillThere(stamped)
	s.stillThere(configMap)
	s.eventAbout("LifecyclePolicy", name, "WouldDelete", s.name+"/stamped")
	s.onlyDryRuns("stamped")
	mode("Enforce")
	s.awaitGone(stamped)
	s.awaitGone(configMap)
}

// A policy's propagation comes before the profile's and the flag's, for each trigger that deletes,
// and a change takes effect for the next DELETE. A policy of higher priority decides.
func TestPolicyPropagation(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	kinds := "kinds: [{group: batch, kind: Job}]"
	name := s.policy("orphan", kinds, `propagationPolicy: Orphan`)
	sent := func(object string) (last metav1.DeletionPropagation) {
		for _, each := range suite.proxy.Deletes(s.name, object) {
			if each.Options.PropagationPolicy != nil {
				last = *each.Options.PropagationPolicy
			}
		}
		return last
	}
	s.poll("the policy to be known", func(context.Context) (bool, error) {
		return s.jsonpath("lifecyclepolicy", name, `.status.conditions[?(@.type=="Ready")].status`) == "True", nil
	})
	s.awaitGone(s.finishJob("first", now(), ttl(second)))
	s.awaitGone(s.newJob(job("labelled", labelled("2s"))))
	for _, object := range []string{"first", "labelled"} {
		if got := sent(object); got != metav1.DeletePropagationOrphan {
			t.Errorf("%s was deleted with propagation %q, want Orphan", object, got)
		}
	}
	waiting := s.finishJob("waiting", now(), ttl(s.slack(6*second)))
	s.policy("foreground", kinds, `priority: 1, propagationPolicy: Foreground`)
	s.awaitGone(waiting)
	if got := sent("waiting"); got != metav1.DeletePropagationForeground {
		t.Errorf("after a change it was deleted with propagation %q, want Foreground", got)
	}
}

// S6: the default of a policy does not apply to objects that are older than it, unless backfill
// says so.
func TestPolicyDoesNotReachWhatIsOlder(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	old := s.newJob(job("old"))
	finish := s.awaitJobFinish(old)
	name := s.policy("late", "", `defaults: {ttl: {value: 2s}}`)
	s.eventually(row{job("young"), warned(`ttlSecondsAfterFinished defaulted to 2 (2s) from policy "` + name + `"`)})
	young := s.newJob(job("young"))
	s.notEarly(s.awaitDeletion(young), s.awaitJobFinish(young).Add(2*second))
	s.outlast(finish.Add(2 * second))
	s.stillThere(old)
	s.expectSuccess(s.kubectl("patch", "lifecyclepolicy", name, "--type=merge", "-p", `{"spec":{"backfill":true}}`))
	s.awaitGone(old)
}

// The columns that kubectl prints of Curfew's own kinds, and the condition Ready.
func TestPrinterColumns(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.policy("columns", "", `priority: 7, defaults: {ttl: {value: 1d}, deadline: {value: 12h}}, bounds: {maxTTL: 2w}, mode: Warn`)
	s.expectSuccess(s.kubectl("wait", "lifecyclepolicy/"+name, "--for=condition=Ready", "--timeout=10m"))
	columns := func(args ...string) string {
		var out []string
		for line := range strings.Lines(s.expectSuccess(s.kubectl(append([]string{"get"}, args...)...)).stdout) {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(out, "\n")
	}
	if got, want := columns("lcp", name), "NAME PRIORITY TTL DEADLINE MAX TTL MODE READY AGE\n"+name+" 7 1d 12h 2w Warn True "; !strings.HasPrefix(got, want) {
		t.Errorf("kubectl get lcp prints\n%s\nwant\n%s", got, want)
	}
	if got, want := columns("lcp", name, "-o", "wide"), name+" 7 1d 12h 2w Warn True Accepted "; !strings.Contains(got, want) {
		t.Errorf("kubectl get lcp -o wide prints\n%s\nwant\n%s", got, want)
	}
	profile := s.name + "-profile"
	s.apply(`{apiVersion: curfew.dev/v1alpha1, kind: KindProfile, metadata: {name: ` + profile + `}, spec: {kind: {group: absent.example.com, version: v1, kind: Ghost, resource: ghosts},
		state: {finished: "true", finishTime: "null", outcome: "'Failed'"}, fields: {ttl: spec.ttl}}}`)
	s.Cleanup(func() { s.afterwards("delete", "kindprofile", profile) })
	s.expectSuccess(s.kubectl("wait", "kindprofile/"+profile, "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=KindNotServed", "--timeout=10m"))
	if got, want := columns("kprof", profile), "NAME GROUP VERSION KIND TTL FIELD READY AGE\n"+profile+" absent.example.com v1 Ghost spec.ttl False "; !strings.HasPrefix(got, want) {
		t.Errorf("kubectl get kprof prints\n%s\nwant\n%s", got, want)
	}
}
