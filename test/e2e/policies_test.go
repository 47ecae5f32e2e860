package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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

// The levels of precedence from the object down, each pair of neighbours both ways round: the
// longer and the shorter value in the upper one. The level decides first and the outcome within it;
// between policies the priority, and then the name.
func TestPrecedence(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	longer := newSpace(t, wellknown.AnnotationDefaultTTL, "9h")
	shorter := newSpace(t, wellknown.AnnotationDefaultTTL, "30m")
	outcome := newSpace(t, wellknown.AnnotationDefaultTTLFailed, "3d")
	jobs := func(tier string) string {
		return "kinds: [{group: batch, kind: Job}], objectSelector: {matchLabels: {tier: " + tier + "}}"
	}
	s.policy("plain", "", `defaults: {ttl: {value: 2h}}`, longer, shorter, outcome)
	s.policy("gold", jobs("gold"), `priority: 10, defaults: {ttl: {value: 3h}}`)
	s.policy("iron", jobs("iron"), `priority: 10, defaults: {ttl: {value: 1h}}`)
	s.policy("tie-b", jobs("tie"), `priority: 20, defaults: {ttl: {value: 5h}}`)
	s.policy("tie-a", jobs("tie"), `priority: 20, defaults: {ttl: {value: 4h}}`)
	s.policy("silent", jobs("silent"), `priority: 30, warnBelow: 1m`)
	filled := func(s *space, value, from string) string {
		return warned("ttlSecondsAfterFinished defaulted to " + value + " from " + strings.ReplaceAll(from, "%", s.name))
	}
	for _, row := range []row{
		{job("plain"), filled(s, "7200 (2h)", `policy "%-plain"`)},
		{job("gold", tier("gold")), filled(s, "10800 (3h)", `policy "%-gold"`)},
		{job("iron", tier("iron")), filled(s, "3600 (1h)", `policy "%-iron"`)},
		{job("tie", tier("tie")), filled(s, "14400 (4h)", `policy "%-tie-a"`)},
		{job("silent", tier("silent")), filled(s, "7200 (2h)", `policy "%-plain"`)},
	} {
		s.eventually(row)
		s.expectStderr(s.create(row.object), row.said)
	}
	s.creates(
		row{job("longer", native(24*time.Hour)), ""}, row{job("shorter", native(10*time.Minute)), ""},
		row{job("never", annotated(wellknown.AnnotationTTL, "never")), ""}, row{job("failed", annotated(wellknown.AnnotationTTLFailed, "10m")), ""})
	for name, want := range map[string]string{"plain": "7200 policy/%-plain", "gold": "10800 policy/%-gold", "iron": "3600 policy/%-iron",
		"tie": "14400 policy/%-tie-a", "longer": "86400 object", "shorter": "600 object", "never": " object", "failed": " object"} {
		got := s.jsonpath("job", name, ".spec.ttlSecondsAfterFinished") + " " + s.getJob(name).Annotations[wellknown.AnnotationTTLSource]
		if want = strings.ReplaceAll(want, "%", s.name); got != want {
			t.Errorf("TTL and source of %s are %q, want %q", name, got, want)
		}
	}
	longer.expectStderr(longer.create(job("job")), filled(longer, "32400 (9h)", `namespace "%"`))
	shorter.expectStderr(shorter.create(job("job")), filled(shorter, "1800 (30m)", `namespace "%"`))
	outcome.expectStderr(outcome.create(job("job")), warned(`curfew.dev/ttl-after-failed defaulted to 3d from namespace "`+outcome.name+`"`))
	if got := outcome.getJob("job"); got.Spec.TTLSecondsAfterFinished != nil || got.Annotations[wellknown.AnnotationTTLSucceeded] != "" {
		t.Errorf("a policy spoke where the namespace had spoken of the other outcome: %v", got.Annotations)
	}
	// Between the object and its namespace.
	longer.expectStderr(longer.create(job("own", native(10*time.Minute))))
	shorter.expectStderr(shorter.create(job("own", native(24*time.Hour))))
	if got := *longer.getJob("own").Spec.TTLSecondsAfterFinished + *shorter.getJob("own").Spec.TTLSecondsAfterFinished; got != 600+86400 {
		t.Errorf("they became %d seconds together", got)
	}
}

// A policy's bounds are outer ones, which a namespace may narrow and not widen. They refuse what
// authors write, labels too, and move defaults inside.
func TestPolicyBounds(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	wider := newSpace(t, wellknown.AnnotationMaxTTL, "30d")
	narrower := newSpace(t, wellknown.AnnotationMaxTTL, "3d")
	name := s.policy("bounds", "", `defaults: {ttl: {value: 20d}}, bounds: {minTTL: 10m, maxTTL: 7d, maxTTLLabel: 9d, minDeadline: 1m, maxDeadline: 1d, latestDate: "2099-06-30"}, warnBelow: 15m`,
		wider, narrower)
	of := ` of policy "` + name + `": use `
	s.eventually(row{job("default"), warned(`ttlSecondsAfterFinished defaulted to 604800 (7d) from policy "` + name + `"`)})
	const long, never, field = "691200 (8d) is above maxTTL 7d", "never is above maxTTL 7d", "spec.ttlSecondsAfterFinished: "
	// Where nothing else has them sent, what carries a key or a native TTL is by validate-marked, and
	// a deadline by the policy.
	s.creates(
		row{job("long", native(8*24*time.Hour)), denied("validate-marked.curfew.dev", field+long+of+"7d or less")},
		row{job("short", native(5*time.Minute)), both(denied("validate-marked.curfew.dev", field+"300 (5m) is below minTTL 10m"+of+"10m or more"),
			warned(field+"300 (5m) is under 900s: the Job may be deleted before anyone reads its logs; use 900s or more"))},
		row{job("never", annotated(wellknown.AnnotationTTL, "never")), denied("validate-marked.curfew.dev",
			"metadata.annotations[curfew.dev/ttl-after-finished]: "+never+of+"7d or less")},
		row{job("label", native(time.Hour), labelled("10d")), denied("validate-marked.curfew.dev", "metadata.labels[curfew.dev/ttl]: 10d is above maxTTLLabel 9d"+of+"9d or less")},
		row{job("deadline", native(time.Hour), limited(25*time.Hour)), denied("validate-marked.curfew.dev",
			"spec.activeDeadlineSeconds: 90000 (1d1h) is above maxDeadline 1d"+of+"1d or less")},
		row{job("fits", native(time.Hour), limited(time.Hour), labelled("8d")), ""},
	)
	wider.expectStderr(wider.create(job("default")), warned(`ttlSecondsAfterFinished defaulted to 604800 (7d) from policy "`+name+`"`))
	wider.expectRefusal(wider.create(job("long", native(8*24*time.Hour))), denied("validate.curfew.dev", field+long+of+"7d or less"))
	narrower.expectStderr(narrower.create(job("default")), warned(`ttlSecondsAfterFinished defaulted to 259200 (3d) from policy "`+name+`"`))
	narrower.expectRefusal(narrower.create(job("long", native(4*24*time.Hour))), denied("validate.curfew.dev",
		field+`345600 (4d) is above curfew.dev/max-ttl 3d of namespace "`+narrower.name+`": use 3d or less`))
	// Bounds that leave nothing are refused, whichever of the two comes last.
	refusal := `Error from server (Forbidden): admission webhook "namespaces.curfew.dev" denied the request: `
	wider.expectRefusal(wider.kubectl("annotate", "namespace", wider.name, wellknown.AnnotationMinTTL+"=8d"), refusal+
		`metadata.annotations[curfew.dev/min-ttl]: 8d is above maxTTL 7d of policy "`+name+`": lower it, or raise the other`)
	s.expectRefusal(s.kubectlInput(`{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: never}, spec: {bounds: {minTTL: 4d}, match: {namespaceSelector:
		{matchLabels: {kubernetes.io/metadata.name: `+narrower.name+`}}}}}`, "create", "-f", "-"), denied("policies.curfew.dev",
		`spec.bounds.minTTL: 4d is above curfew.dev/max-ttl 3d of namespace "`+narrower.name+`": lower it, or raise the other`))
}

// In mode Warn a value outside the bounds passes with a warning. A deadline alone is seen as well,
// and the last date of a label.
func TestPolicyModeWarn(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.policy("warn", "", `mode: Warn, bounds: {maxTTL: 7d, maxDeadline: 1d}`)
	strict := newSpace(t)
	date := strict.policy("strict", "", `bounds: {latestDate: "2099-06-30", maxDeadline: 1d}`)
	s.eventually(row{job("deadline", limited(25*time.Hour)), warned(`spec.activeDeadlineSeconds: 90000 (1d1h) is above maxDeadline 1d of policy "` + name + `": use 1d or less`)})
	s.creates(row{job("long", native(8*24*time.Hour)), warned(`spec.ttlSecondsAfterFinished: 691200 (8d) is above maxTTL 7d of policy "` + name + `": use 7d or less`)})
	strict.eventually(row{job("deadline", limited(25*time.Hour)), denied("validate-policies.jobs.batch.curfew.dev",
		`spec.activeDeadlineSeconds: 90000 (1d1h) is above maxDeadline 1d of policy "`+date+`": use 1d or less`)})
	strict.creates(
		row{job("late", labelled("2099-07-01")), denied("validate-marked.curfew.dev",
			`metadata.labels[curfew.dev/ttl]: 2099-07-01 is after latestDate 2099-06-30 of policy "`+date+`": use a date up to then`)},
		row{job("last", labelled("2099-06-30")), ""},
	)
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
	if said := mode("DryRun"); !strings.Contains(said, "spec.mode: Curfew deletes and stops nothing more by the defaults of this policy") {
		t.Errorf("the warning is %q", said)
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

// What a policy gives: TTLs by outcome, a deadline and a TTL label, constant or by CEL, to the
// kinds and objects that it matches and to nothing else.
func TestPolicyDefaults(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	dry := newSpace(t, wellknown.AnnotationMode, "dry-run")
	name := s.policy("all", "kinds: [{group: batch, kind: Job}], matchConditions: [{name: no-system, expression: '!object.metadata.name.startsWith(\"system-\")'}]",
		`defaults: {ttlSucceeded: {expression: 'namespaceObject.metadata.name == "`+s.name+`" ? "10m" : "20m"'}, ttlFailed: {value: never},
		deadline: {expression: 'object.?spec.?parallelism.orValue(1) > 1 ? dyn(duration("4h")) : dyn(7200)'}, ttlLabel: {value: 30d}}`, dry)
	from := ` from policy "` + name + `"`
	all := strings.Join([]string{warned("curfew.dev/ttl-after-succeeded defaulted to 10m" + from), warned("curfew.dev/ttl-after-failed defaulted to never" + from),
		warned("activeDeadlineSeconds defaulted to 7200 (2h)" + from), warned("curfew.dev/ttl defaulted to 30d" + from)}, "\n")
	s.eventually(row{job("one"), all})
	parallel := job("parallel")
	parallel.Spec.Parallelism = new(int32)
	*parallel.Spec.Parallelism = 2
	s.creates(row{job("one"), all}, row{job("system-x"), ""}, row{pod("pod", corev1.RestartPolicyNever), ""}, row{cronJob("cron"), ""})
	s.expectStderr(s.create(parallel), strings.Split(strings.Replace(all, "7200 (2h)", "14400 (4h)", 1), "\n")...)
	created := s.getJob("one")
	if got := created.Annotations; got[wellknown.AnnotationTTLSucceeded] != "10m" || got[wellknown.AnnotationTTLFailed] != "never" ||
		got[wellknown.AnnotationTTLSource] != "policy/"+name || got[wellknown.AnnotationDeadlineSource] != "policy/"+name || created.Labels[wellknown.LabelTTL] != "30d" ||
		created.Spec.TTLSecondsAfterFinished != nil || *created.Spec.ActiveDeadlineSeconds != 7200 {
		t.Errorf("it became %v %v %v", got, created.Labels, created.Spec)
	}
	if got := s.getJob("system-x"); len(got.Annotations)+len(got.Labels[wellknown.LabelTTL]) > 0 {
		t.Errorf("what the policy does not match became %v %v", got.Annotations, got.Labels)
	}
	would := strings.NewReplacer("defaulted to 10m", "would be defaulted to 20m", "defaulted to", "would be defaulted to", from, from+" (dry-run)").Replace(all)
	dry.expectStderr(dry.create(job("one")), strings.Split(would, "\n")...)
	if got := dry.getJob("one"); len(got.Annotations)+len(got.Labels[wellknown.LabelTTL]) > 0 {
		t.Errorf("in dry-run it became %v %v", got.Annotations, got.Labels)
	}
}

// An expression that fails gives no value, refuses no request, and is reported to the author.
func TestPolicyThatFails(t *testing.T) {
	parallel(t)
	s := newSpace(t, wellknown.AnnotationMaxDeadline, "1d")
	name := s.policy("fails", "", `defaults: {ttl: {expression: 'object.metadata.labels["keep-for"]'}}`)
	s.eventually(row{job("labelled", func(j *batchv1.Job) { j.Labels = map[string]string{"keep-for": "3h"} }),
		warned(`ttlSecondsAfterFinished defaulted to 10800 (3h) from policy "` + name + `"`)})
	s.expectStderr(s.create(job("bare")), warned(`no default from spec.defaults.ttl.expression of policy "`+name+`": evaluating: no such key: labels`))
	s.expectStderr(s.create(job("unreadable", func(j *batchv1.Job) { j.Labels = map[string]string{"keep-for": "soon"} })),
		warned(`no default from spec.defaults.ttl.expression of policy "`+name+`": the result "soon" is not a duration: `+readable+`, or never`))
	for _, name := range []string{"bare", "unreadable"} {
		if got := s.getJob(name); got.Spec.TTLSecondsAfterFinished != nil || len(got.Annotations) > 0 {
			t.Errorf("%s became %v", name, got.Annotations)
		}
	}
	// The controller meets them again when they have finished.
	s.expectSuccess(s.kubectl("wait", "lifecyclepolicy/"+name, "--for=jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=EvaluationFailed", "--timeout=10m"))
	message := s.jsonpath("lifecyclepolicy", name, `.status.conditions[?(@.type=="Ready")].message`)
	if want := "spec.defaults.ttl.expression: "; !strings.HasPrefix(message, want) || !strings.Contains(message, " (Job "+s.name+"/") {
		t.Errorf("its condition Ready says %q, want %q and a Job", message, want)
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

// An expression reads an annotation of the namespace that means nothing to Curfew: when it changes,
// the objects of the namespace are judged again.
func TestPolicyThatAsksTheNamespace(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.policy("asks", `kinds: [{group: batch, kind: Job}], matchConditions: [{name: brief,
		expression: "namespaceObject.metadata.?annotations['example.com/life'].orValue('') == 'brief'"}]`, `backfill: true, defaults: {ttl: {value: 2s}}`)
	old := s.newJob(job("old"))
	s.outlast(s.awaitJobFinish(old).Add(2 * second))
	s.stillThere(old)
	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, "example.com/life=brief"))
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
