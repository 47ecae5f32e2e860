package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// advised has the fields of -o json that these tests read.
type advised struct {
	Summary   string
	Expiry    *time.Time
	Deadline  *time.Time
	Advice    []string
	Obstacles []struct{ Kind string }
}

func explainFor(t *testing.T, cluster *fakeCluster, args ...string) advised {
	t.Helper()
	code, stdout, stderr, _ := executeIn(t, cluster, scene{}, slices.Concat([]string{"explain"}, args, []string{"-o", "json"})...)
	var out struct{ Items []advised }
	if err := json.Unmarshal([]byte(stdout), &out); code != console.ExitOK || err != nil || len(out.Items) != 1 {
		t.Fatalf("explain %v: exit status %d, %v: %s%s", args, code, err, stdout, stderr)
	}
	return out.Items[0]
}

// advice are objects with the commands that explain advises. No such command expires an object at
// once.
var advice = map[string]struct {
	// args is KIND/NAME of the object, and its namespace.
	args, object string
	// namespace are annotations of the namespace.
	namespace map[string]string
	want      []string
}{
	"it lives long enough by a day": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 5d}", "2026-12-20T12:00:00Z"), nil,
		[]string{"kubectl curfew extend job.batch/a -n foo --by 1d", "kubectl curfew keep job.batch/a -n foo"}},
	"it is overdue by more than a day": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 1h}", "2026-12-20T12:00:00Z"), nil,
		[]string{"kubectl curfew extend job.batch/a -n foo --until 1d", "kubectl curfew keep job.batch/a -n foo"}},
	"it has all that its namespace allows": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 5d}", "2026-12-20T12:00:00Z"),
		map[string]string{"curfew.dev/max-ttl": "5d"},
		[]string{"kubectl annotate namespace foo curfew.dev/max-ttl=6d --overwrite   # it has all that this allows"}},
	"so does one that is overdue": {"job/a -n foo", job("creationTimestamp: 2026-12-10T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: 5d}", "2026-12-10T12:30:00Z"),
		map[string]string{"curfew.dev/max-ttl": "5d"},
		[]string{"kubectl annotate namespace foo curfew.dev/max-ttl=15d --overwrite   # it has all that this allows"}},
	"it stays, and has finished long ago":        {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z", "2026-12-20T12:00:00Z"), nil, []string{"kubectl curfew extend job.batch/a -n foo --to 5d"}},
	"it stays, and another day ends in a moment": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z", "2026-12-20T12:00:30Z"), nil, []string{"kubectl curfew extend job.batch/a -n foo --to 5d"}},
	"it stays, and may not live for a day": {"job/a -n foo", job("creationTimestamp: 2026-12-24T11:00:00Z", "2026-12-24T11:30:00Z"), map[string]string{"curfew.dev/max-ttl": "6h"},
		[]string{"kubectl curfew extend job.batch/a -n foo --to 6h"}},
	"its TTL is never": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-succeeded: never}", "2026-12-20T12:00:00Z"), nil,
		[]string{"kubectl annotate job.batch/a -n foo curfew.dev/ttl-after-succeeded=5d --overwrite"}},
	"its TTL cannot be read": {"job/a -n foo", job("creationTimestamp: 2026-12-20T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: soon}", "2026-12-20T12:00:00Z"), nil,
		[]string{"kubectl curfew extend job.batch/a -n foo --to 5d"}},
	"it has no label":          {"secret/a -n foo", secret("creationTimestamp: 2026-12-01T12:00:00Z"), nil, []string{"kubectl label secret/a -n foo curfew.dev/ttl=24d"}},
	"its label cannot be read": {"secret/a -n foo", secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: soon}"), nil, []string{"kubectl label secret/a -n foo curfew.dev/ttl=1d --overwrite"}},
	"it has no label, and has lived for all that it may": {"secret/a -n foo", secret("creationTimestamp: 2026-12-01T12:00:00Z"), map[string]string{"curfew.dev/max-ttl": "20d"},
		[]string{"kubectl annotate namespace foo curfew.dev/max-ttl=24d --overwrite   # it has all that this allows"}},
	"its label says all that it may": {"secret/a -n foo", secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 3d}"), map[string]string{"curfew.dev/max-ttl": "3d"},
		[]string{"kubectl annotate namespace foo curfew.dev/max-ttl=4d --overwrite   # it has all that this allows", "kubectl curfew keep secret/a -n foo"}},
	"it has a deadline, in its field": {"job/a -n foo", job("creationTimestamp: 2026-12-24T11:00:00Z}, spec: {activeDeadlineSeconds: 7200", ""), nil,
		[]string{"kubectl curfew extend job.batch/a -n foo --to 1d", `kubectl patch job.batch/a -n foo --type=merge -p '{"spec":{"activeDeadlineSeconds":10800}}'`}},
	"it has a deadline that is over": {"job/a -n foo", job("creationTimestamp: 2026-12-24T07:00:00Z}, spec: {activeDeadlineSeconds: 7200", ""), nil,
		[]string{"kubectl curfew extend job.batch/a -n foo --to 1d", `kubectl patch job.batch/a -n foo --type=merge -p '{"spec":{"activeDeadlineSeconds":21600}}'`}},
	"it has the longest deadline that it may": {"job/a -n foo", job("creationTimestamp: 2026-12-24T11:00:00Z}, spec: {activeDeadlineSeconds: 7200", ""), map[string]string{"curfew.dev/max-deadline": "2h"},
		[]string{"kubectl curfew extend job.batch/a -n foo --to 1d", "kubectl annotate namespace foo curfew.dev/max-deadline=3h --overwrite   # it has all that this allows"}},
	"its deadline is its namespace's": {"job/a -n foo", job("creationTimestamp: 2026-12-24T11:00:00Z", ""), map[string]string{"curfew.dev/default-deadline": "2h", "curfew.dev/backfill": "true"},
		[]string{"kubectl curfew extend job.batch/a -n foo --to 1d", `kubectl patch job.batch/a -n foo --type=merge -p '{"spec":{"activeDeadlineSeconds":10800}}'`}},
	"the deadline of a TrainJob is fixed": {"trainjob/a -n foo", strings.Replace(trainJob, "spec: {}", "spec: {activeDeadlineSeconds: 7200}", 1), nil,
		[]string{"kubectl curfew extend trainjob.trainer.kubeflow.org/a -n foo --to 1d"}},
	"a deadline of its runtime does not reach it": {"trainjob/a -n foo", strings.Replace(trainJob, "spec: {}", "spec: {runtimeRef: {name: jax}}", 1), nil,
		[]string{"kubectl curfew extend trainjob.trainer.kubeflow.org/a -n foo --to 1d"}},
	"nor what its runtime gave it": {"trainjob/a -n foo", strings.NewReplacer("spec: {}", "spec: {runtimeRef: {name: jax}, activeDeadlineSeconds: 7200}",
		"metadata: {", "metadata: {annotations: {curfew.dev/deadline-source: runtime/jax}, ").Replace(trainJob), nil,
		[]string{"kubectl curfew extend trainjob.trainer.kubeflow.org/a -n foo --to 1d"}},
	"the deadline of a Pod can be lowered alone": {"pod/a -n foo", "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: \"2026-12-24T11:00:00Z\"}, " +
		"spec: {restartPolicy: Never, activeDeadlineSeconds: 7200}, status: {phase: Running, startTime: \"2026-12-24T11:00:00Z\"}}", nil,
		[]string{"kubectl curfew extend pod/a -n foo --to 1d"}},
	"it may not live beyond a date": {"secret/a -n dated", strings.ReplaceAll(secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 2026-12-31}"), "namespace: foo", "namespace: dated"), nil,
		[]string{"kubectl edit lifecyclepolicy dated   # its latest date is in the way", "kubectl curfew keep secret/a -n dated"}},
	"a policy does not let it live longer": {"secret/a -n bounded", strings.ReplaceAll(secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 3d}"), "namespace: foo", "namespace: bounded"), nil,
		[]string{"kubectl edit lifecyclepolicy bounded   # it has all that this allows: maxTTLLabel 3d", "kubectl curfew keep secret/a -n bounded"}},
	"its namespace is protected": {"secret/a -n kube-system", strings.ReplaceAll(secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 3d}"), "foo", "kube-system"), nil,
		[]string{"kubectl edit deployment/curfew-controller -n curfew-system   # take kube-system out of --protect"}},
	"it is Curfew's": {"deployment/curfew-controller -n curfew-system", "", nil, nil},
}

func job(metadata, finished string) string {
	out := "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: foo, uid: a, " + metadata + "}, status: {startTime: \"2026-12-24T11:00:00Z\"}}"
	if strings.Contains(metadata, "T07:00") {
		out = strings.ReplaceAll(out, "2026-12-24T11", "2026-12-24T07")
	}
	if finished != "" {
		out = strings.Replace(out, "status: {", fmt.Sprintf("status: {conditions: [{type: Complete, status: \"True\", lastTransitionTime: %q}], ", finished), 1)
	}
	return out
}

func secret(metadata string) string {
	return "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: foo, uid: a, " + metadata + "}}"
}

const trainJob = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: foo, uid: a, " +
	"creationTimestamp: \"2026-12-24T11:00:00Z\"}, spec: {}}"

// withObject is the cluster of testdata with one more object, and annotations on namespace foo. In
// namespaces dated and bounded there is a policy with a bound.
func withObject(t *testing.T, text string, namespace map[string]string) *fakeCluster {
	t.Helper()
	all := objects(t)
	for _, object := range all {
		if u, _ := object.(*unstructured.Unstructured); namespace != nil && u.GetKind() == "Namespace" && u.GetName() == "foo" {
			u.SetAnnotations(namespace)
		}
	}
	for name, bound := range map[string]string{"dated": "latestDate: 2026-12-31", "bounded": "maxTTLLabel: 3d"} {
		if !strings.Contains(text, "namespace: "+name) {
			continue
		}
		all = append(all, manifests(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", uid: "+name+"}}", "{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, "+
			"metadata: {name: "+name+", uid: "+name+"}, spec: {match: {kinds: [{kind: Secret}]}, bounds: {"+bound+"}}}")...)
	}
	if text != "" {
		all = append(all, manifests(t, text)...)
	}
	return newFakeCluster(t, all)
}

// TestAdvice: a user can follow the advice, and it does not delete the object at once.
func TestAdvice(t *testing.T) {
	for name, test := range advice {
		t.Run(name, func(t *testing.T) {
			cluster := withObject(t, test.object, test.namespace)
			have := explainFor(t, cluster, words(test.args)...).Advice
			if !slices.Equal(have, test.want) {
				t.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(test.want, "\n"))
			}
			for _, line := range have {
				try(t, withObject(t, test.object, test.namespace), line, test.args)
			}
		})
	}
}

// TestFate: an unusable value does not stop the deletion by another value of the object;
// without another, it blocks the object.
func TestFate(t *testing.T) {
	// A stamp counts only where its policy gives the label.
	const scratch = `{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: scratch, uid: scratch},
		spec: {match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttlLabel: {value: 9h}}}}`
	trains := func(metadata, spec string) string {
		return strings.NewReplacer("spec: {}", "spec: {"+spec+"}", "metadata: {", "metadata: {"+metadata).Replace(trainJob)
	}
	jobSet := func(status string) string {
		return `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, namespace: foo, uid: a, creationTimestamp: "2026-12-24T11:00:00Z"}, ` +
			"spec: {activeDeadlineSeconds: 14400}, status: {" + status + "}}"
	}
	outcomes(t, map[string]outcome{
		"a TTL that cannot be used, and a label": {objects: []string{job("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 9h}, annotations: {curfew.dev/ttl-after-finished: soon}", "2026-12-24T10:00:00Z")},
			summary: "expires 2026-12-24 19:00:00 CET, in 6h, by its label curfew.dev/ttl=9h", row: "job.batch/a 2026-12-24 19:00:00 CET 6h label object -"},
		"a label that a policy gave": {objects: []string{scratch, job(`creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 9h}, annotations: {curfew.dev/ttl-label-source: "policy/scratch 9h"}`, "")},
			summary: `expires 2026-12-24 19:00:00 CET, in 6h, by its label curfew.dev/ttl=9h from policy "scratch"`, row: "job.batch/a 2026-12-24 19:00:00 CET 6h label policy/scratch -"},
		"a label that was changed since": {objects: []string{scratch, job(`creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 9h}, annotations: {curfew.dev/ttl-label-source: "policy/scratch 8h"}`, "")},
			summary: "expires 2026-12-24 19:00:00 CET, in 6h, by its label curfew.dev/ttl=9h", row: "job.batch/a 2026-12-24 19:00:00 CET 6h label object -"},
		"a label that cannot be used, and a TTL": {objects: []string{job("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: soon}, annotations: {curfew.dev/ttl-after-finished: 9h}", "2026-12-24T10:00:00Z")},
			summary: "expires 2026-12-24 20:00:00 CET, in 7h, by its own TTL of 9h", row: "job.batch/a 2026-12-24 20:00:00 CET 7h ttl object -"},
		"a TTL that cannot be used, and a deadline": {objects: []string{job("creationTimestamp: 2026-12-24T11:00:00Z, annotations: {curfew.dev/ttl-after-finished: soon}}, spec: {activeDeadlineSeconds: 7200", "")},
			summary: "stays: see what blocks it", row: "job.batch/a 2026-12-24 14:00:00 CET 1h deadline object -"},
		"a label, and a TTL whose time has not begun": {objects: []string{job("creationTimestamp: 2026-12-24T11:00:00Z, labels: {curfew.dev/ttl: 30d}, annotations: {curfew.dev/ttl-after-finished: 1h}", "")},
			summary: "expires 2027-01-23 12:00:00 CET, in 29d23h, by its label curfew.dev/ttl=30d, or 1h after it has finished, whichever is sooner", row: "job.batch/a 2027-01-23 12:00:00 CET 29d23h label object -"},
		"a label, and a TTL of failures alone": {objects: []string{job("creationTimestamp: 2026-12-24T11:00:00Z, labels: {curfew.dev/ttl: 30d}, annotations: {curfew.dev/ttl-after-failed: 1h}", "")},
			summary: "expires 2027-01-23 12:00:00 CET, in 29d23h, by its label curfew.dev/ttl=30d, or sooner where it finishes: how long after depends on how it ends, see below", row: "2027-01-23 12:00:00 CET 29d23h label object -"},
		"a label, and a TTL of never": {objects: []string{job("creationTimestamp: 2026-12-24T11:00:00Z, labels: {curfew.dev/ttl: 30d}, annotations: {curfew.dev/ttl-after-finished: never}", "")},
			summary: "expires 2027-01-23 12:00:00 CET, in 29d23h, by its label curfew.dev/ttl=30d", row: "2027-01-23 12:00:00 CET 29d23h label object -"},
		"a Pod that is restarted for ever": {args: "pod/server -n foo", summary: "stays: see what blocks it"},
		// Curfew keeps such a Job, and the Job controller deletes it.
		"a value outside its bounds": {objects: []string{`{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, uid: a, creationTimestamp: "2026-12-24T10:00:00Z"},
			spec: {ttlSecondsAfterFinished: 864000}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-24T11:00:00Z"}]}}`},
			row: " value", says: []string{"above curfew.dev/max-ttl 7d"}},
		// The kind's own controller stops it. Curfew does if that controller does not know the
		// deadline, or does not show that it acts.
		"a TrainJob with a deadline":    {objects: []string{trains("", "activeDeadlineSeconds: 14400")}, says: []string{"; its own controller stops it\n"}},
		"a TrainJob with an annotation": {objects: []string{trains("annotations: {curfew.dev/active-deadline: 4h}, ", "")}, says: []string{"; Curfew stops it\n"}},
		"a JobSet without the gate":     {objects: []string{jobSet("")}, says: []string{"; Curfew stops it\n"}},
		"a JobSet with the gate":        {objects: []string{jobSet(`startTime: "2026-12-24T11:00:00Z"`)}, says: []string{"; its own controller stops it\n"}},
		// No flag protects objects in Curfew's namespace, so that taking one away is no advice.
		"Curfew's own": {objects: []string{strings.Replace(secret("creationTimestamp: 2026-12-24T09:00:00Z, labels: {curfew.dev/ttl: 3d}"), "namespace: foo", "namespace: curfew-system", 1)},
			says: []string{"\n   protection   "}, lacks: []string{"# take"}},
	})
}

// TestMultiKueueLabel: the label of MultiKueue's copies keeps an object only where Kueue is installed.
func TestMultiKueueLabel(t *testing.T) {
	cluster := clusterOf(t, job("creationTimestamp: 2026-12-24T09:00:00Z, labels: {kueue.x-k8s.io/multikueue-origin: hub}, annotations: {curfew.dev/ttl-after-finished: 9h}", "2026-12-24T10:00:00Z"))
	if got := explainFor(t, cluster, "job/a", "-n", "foo"); got.Expiry == nil || len(got.Obstacles) != 0 {
		t.Errorf("without Kueue: %+v", got)
	}
	cluster.discovery.Resources = append(cluster.discovery.Resources,
		&metav1.APIResourceList{GroupVersion: "kueue.x-k8s.io/v1beta1", APIResources: []metav1.APIResource{resource("workloads", "Workload", "wl", true)}})
	if got := explainFor(t, cluster, "job/a", "-n", "foo"); got.Expiry != nil || len(got.Obstacles) != 1 || got.Obstacles[0].Kind != "protection" {
		t.Errorf("with Kueue: %+v", got)
	}
}

// TestFixedDeadline: explain says so if no command can extend a deadline.
func TestFixedDeadline(t *testing.T) {
	for name, want := range map[string]string{
		"the deadline of a TrainJob is fixed":        "   its deadline cannot be put off any more\n",
		"the deadline of a Pod can be lowered alone": "   its deadline cannot be put off any more\n",
		"nor what its runtime gave it":               "   its deadline cannot be put off any more\n",
		"it has a deadline, in its field":            "",
	} {
		test := advice[name]
		_, stdout, stderr, _ := executeIn(t, withObject(t, test.object, test.namespace), scene{}, append([]string{"explain"}, words(test.args)...)...)
		expectEnd(t, name+": stdout", stdout, want)
		expectPart(t, name+": stdout", stdout, "put off", want != "")
		expectSame(t, name+": stderr", stderr, "")
	}
}

// try runs an advised command, and explains the object afterwards.
func try(t *testing.T, cluster *fakeCluster, line, args string) {
	t.Helper()
	before := explainFor(t, cluster, words(args)...)
	line, _, _ = strings.Cut(line, "   # ")
	typed := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "kubectl curfew "):
		code, _, stderr, _ := executeIn(t, cluster, scene{}, typed[2:]...)
		expectExit(t, line, code, console.ExitOK, stderr)
	case typed[1] == "label", typed[1] == "annotate":
		cluster.edit(t, typed[1:])
	default:
		return
	}
	after := explainFor(t, cluster, words(args)...)
	if after.Expiry != nil && !after.Expiry.After(noon) && (before.Expiry == nil || before.Expiry.After(noon)) {
		t.Errorf("%s: it then %s", line, after.Summary)
	}
}

// edit imitates kubectl label and kubectl annotate: KIND/NAME or KIND NAME, -n, and one KEY=VALUE
// or KEY-.
func (c *fakeCluster) edit(t *testing.T, args []string) {
	t.Helper()
	var namespace, changed string
	var object []string
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-n":
			i++
			namespace = args[i]
		case strings.HasPrefix(arg, "curfew.dev/"):
			changed = arg
		case arg != "--overwrite":
			object = append(object, strings.Split(arg, "/")...)
		}
	}
	kind, group, _ := strings.Cut(object[0], ".")
	for version, resources := range served {
		groupVersion, err := schema.ParseGroupVersion(version)
		must(t, err)
		for _, apiResource := range resources {
			if groupVersion.Group != group || strings.ToLower(apiResource.Kind) != kind {
				continue
			}
			c.changeContext(t, groupVersion.WithResource(apiResource.Name), namespace, object[1], func(u *unstructured.Unstructured) {
				values, set := u.GetAnnotations(), u.SetAnnotations
				if args[0] == "label" {
					values, set = u.GetLabels(), u.SetLabels
				}
				values = maps.Clone(values)
				if values == nil {
					values = map[string]string{}
				}
				if key, value, ok := strings.Cut(changed, "="); ok {
					if _, there := values[key]; there && !slices.Contains(args, "--overwrite") {
						t.Errorf("%v: it is there already", args)
					}
					values[key] = value
				} else {
					delete(values, strings.TrimSuffix(changed, "-"))
				}
				set(values)
			})
			return
		}
	}
	t.Errorf("%v: no such kind", args)
}
