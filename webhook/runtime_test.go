package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// builtin has the profiles that come with Curfew.
func builtin(t testing.TB) func(*Options) {
	t.Helper()
	store, err := platform.New(builtinProfiles(t))
	must(t, err)
	return func(o *Options) { o.Platform = store }
}

func trainingRuntime(spec, annotations string) string {
	return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: torch, namespace: plain, annotations: {" + annotations + "}}, spec: {" + spec + "}}"
}

// S6: since when a runtime has its TTL is Curfew's to say. With an earlier time, the TTL would
// delete what finished before.
func TestStampRuntime(t *testing.T) {
	stamp := func(value, since string) string {
		return "curfew.dev/ttl-after-finished: " + value + ", curfew.dev/default-since: '" + since + "'"
	}
	hash1d := resolution.RuntimeHash(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "1d"}}}, nil)
	hash2d := resolution.RuntimeHash(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "2d"}}}, nil)
	field := func(path string, seconds int64) string {
		parsed := fieldpath.MustFieldPath(path)
		object := map[string]any{"spec": map[string]any{parsed[1]: seconds}}
		if len(parsed) > 2 {
			object = map[string]any{"spec": map[string]any{parsed[1]: map[string]any{parsed[2]: seconds}}}
		}
		return resolution.RuntimeHash(object, []fieldpath.FieldPath{parsed})
	}
	const path = `"path":"/metadata/annotations/curfew.dev~1default-since"`
	set := func(op, value string) string { return `[{"op":"` + op + `",` + path + `,"value":"` + value + `"}]` }
	ahead := func(context.Context) (time.Time, error) { return t0.Add(time.Hour), nil }
	unknown := func(context.Context) (time.Time, error) { return time.Time{}, errors.New("not known") }
	for name, test := range map[string]struct {
		object, old, patch string
		time               func(context.Context) (time.Time, error)
	}{
		"no TTL":                     {object: trainingRuntime("", "x: y")},
		"created":                    {object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), patch: set("add", now(hash1d))},
		"created, with the field":    {object: trainingRuntime("ttlSecondsAfterFinished: 60", "x: y"), patch: set("add", now(field("spec.ttlSecondsAfterFinished", 60)))},
		"created, the later field":   {object: trainingRuntime("runPolicy: {ttlSecondsAfterFinished: 60}", "x: y"), patch: set("add", now(field("spec.runPolicy.ttlSecondsAfterFinished", 60)))},
		"created, by the server":     {object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), time: ahead, patch: set("add", resolution.FormatSince(t0.Add(time.Hour), hash1d))},
		"created, the time unknown":  {object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), time: unknown},
		"created, brought along":     {object: trainingRuntime("", stamp("1d", since(hash1d))), patch: set("replace", now(hash1d))},
		"added":                      {old: trainingRuntime("", "x: y"), object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), patch: set("add", now(hash1d))},
		"unchanged":                  {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("mlPolicy: {numNodes: 2}", stamp("1d", since(hash1d)))},
		"backfill":                   {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", "curfew.dev/backfill: 'true', "+stamp("1d", since(hash1d)))},
		"changed":                    {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", stamp("2d", since(hash1d))), patch: set("replace", now(hash2d))},
		"changed, the time unknown":  {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", stamp("2d", since(hash1d))), time: unknown, patch: `[{"op":"remove",` + path + `}]`},
		"changed, and foreseen":      {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", stamp("2d", since(hash2d))), patch: set("replace", now(hash2d))},
		"moved back":                 {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", stamp("1d", "2001-01-01T00:00:00Z/"+hash1d)), patch: set("replace", since(hash1d))},
		"taken":                      {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), patch: set("add", since(hash1d))},
		"the TTL removed":            {old: trainingRuntime("", stamp("1d", since(hash1d))), object: trainingRuntime("", "curfew.dev/default-since: '"+since(hash1d)+"'"), patch: `[{"op":"remove",` + path + `}]`},
		"without the stamp, changed": {old: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d"), object: trainingRuntime("x: y", "curfew.dev/ttl-after-finished: 1d"), patch: set("add", now(hash1d))},
		"being deleted":              {old: trainingRuntime("", stamp("1d", since(hash1d))), object: strings.Replace(trainingRuntime("", stamp("2d", since(hash1d))), "name: torch", "name: torch, deletionTimestamp: '2026-08-01T00:00:00Z'", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builtin(t), func(o *Options) { o.ServerTime = test.time })
			response := w.ask(t, ask{path: PathMutate, namespace: "plain", object: test.object, old: test.old})
			if !response.Allowed || string(response.Patch) != test.patch {
				t.Errorf("allowed %v, patch\n%s\nwant\n%s", response.Allowed, response.Patch, test.patch)
			}
			became := patchedObject(t, test.object, response)
			if again := w.ask(t, ask{path: PathMutate, namespace: "plain", object: became, old: became}); len(again.Patch) > 0 && test.time == nil {
				t.Errorf("not idempotent: %s", again.Patch)
			}
		})
	}
}

// listed are the objects that an [ObjectLister] has.
type listed struct {
	objects []map[string]any
	more    bool
	err     error
	block   chan struct{}
	asked   []string
}

func (l *listed) Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(map[string]any)) (bool, error) {
	l.asked = append(l.asked, resource.Resource+" "+namespace)
	if l.block != nil {
		<-ctx.Done()
		return false, ctx.Err()
	}
	for _, object := range l.objects {
		f(object)
	}
	return l.more, l.err
}

// Setting backfill says how many objects that reaches: those that use the runtime, finished before
// it had its TTL, and would be deleted by it.
func TestCountOfBackfill(t *testing.T) {
	trainJob := func(name, kind, annotations, finished string) map[string]any {
		status := ""
		if finished != "" {
			status = ", status: {conditions: [{type: Complete, status: 'True', lastTransitionTime: '" + finished + "'}]}"
		}
		return *parsed[map[string]any](t, "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: plain, creationTimestamp: '2026-01-01T00:00:00Z', annotations: {"+annotations+"}}, "+
			"spec: {runtimeRef: {name: "+name+", kind: "+kind+"}}"+status+"}")
	}
	const before, after = "2026-07-01T00:00:00Z", "2026-07-31T00:00:00Z"
	jobs := []map[string]any{
		trainJob("torch", "TrainingRuntime", "", before), trainJob("torch", "TrainingRuntime", "curfew.dev/ttl-after-finished: never", before),
		trainJob("torch", "TrainingRuntime", "curfew.dev/protect: 'true'", before), trainJob("torch", "TrainingRuntime", "", ""),
		trainJob("torch", "TrainingRuntime", "", after), trainJob("torch", "ClusterTrainingRuntime", "", before), trainJob("jax", "TrainingRuntime", "", before),
	}
	hash := resolution.RuntimeHash(map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "1d"}}}, nil)
	stamp := "curfew.dev/ttl-after-finished: 1d, curfew.dev/default-since: '2026-07-15T00:00:00Z/" + hash + "'"
	const unknown = "TrainJobs that finished before the runtime had it, at most 1000 a minute; how many is not known"
	for name, test := range map[string]struct {
		objects ObjectLister
		want    string
	}{
		"all were read":        {&listed{objects: jobs}, "2 TrainJobs that finished before the runtime had it, at most 1000 a minute"},
		"there are more":       {&listed{objects: jobs, more: true}, "at least 2 TrainJobs that finished before the runtime had it, at most 1000 a minute"},
		"none, and more":       {&listed{more: true}, unknown},
		"an error in between":  {&listed{objects: jobs, err: errors.New("cut off")}, "at least 2 TrainJobs that finished before the runtime had it, at most 1000 a minute"},
		"an error":             {&listed{err: errors.New("forbidden")}, unknown},
		"no answer":            {&listed{block: make(chan struct{})}, unknown},
		"no count is possible": {nil, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builtin(t), func(o *Options) { o.Objects = test.objects })
			response := w.ask(t, ask{path: PathValidate, namespace: "plain", old: trainingRuntime("", stamp), object: trainingRuntime("", "curfew.dev/backfill: 'true', "+stamp)})
			want := "curfew: metadata.annotations[curfew.dev/backfill]: lets the TTL delete " + test.want
			if len(response.Warnings) != 1 || response.Warnings[0] != want {
				t.Errorf("warnings %q, want %q", response.Warnings, want)
			}
			if l, ok := test.objects.(*listed); ok && (len(l.asked) != 1 || l.asked[0] != "trainjobs plain") {
				t.Errorf("it listed %q", l.asked)
			}
		})
	}
	other := &listed{objects: jobs}
	w := newWorld(t, builtin(t), func(o *Options) { o.Objects = other })
	for _, object := range []string{trainingRuntime("", stamp), trainingRuntime("mlPolicy: {numNodes: 2}", stamp)} {
		w.ask(t, ask{path: PathValidate, namespace: "plain", old: trainingRuntime("", stamp), object: object})
	}
	if len(other.asked) > 0 {
		t.Errorf("requests that set no backfill listed %q", other.asked)
	}
}

// S9: one list at a time. Whoever comes meanwhile is answered without a number.
func TestCountOfBackfillIsOneAtATime(t *testing.T) {
	objects := &listed{}
	w := newWorld(t, builtin(t), func(o *Options) { o.Objects = objects })
	w.webhooks.counting.Lock()
	response := w.ask(t, ask{path: PathValidate, namespace: "plain", object: trainingRuntime("", "curfew.dev/ttl-after-finished: 1d, curfew.dev/backfill: 'true'")})
	if len(objects.asked) > 0 || len(response.Warnings) != 1 || !strings.HasSuffix(response.Warnings[0], "how many is not known") {
		t.Errorf("it listed %q and warned %q", objects.asked, response.Warnings)
	}
}
