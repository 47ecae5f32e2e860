package stop

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/v1alpha1"
)

// The mark is written into just the state that was seen: in the place of the condition that is
// there, never beside it.
func TestPatch(t *testing.T) {
	mark := metav1.Condition{Type: "Failed", Status: "True", Reason: "DeadlineExceeded", Message: "m", LastTransitionTime: metav1.Unix(0, 0)}
	for name, c := range map[string]struct {
		seen, is, want string // status
		version        string
		refused        bool
		fields         map[string]string
	}{
		"no status":             {seen: ``, is: ``, want: `{"conditions":[MARK]}`},
		"a status without":      {seen: `{"active":2}`, is: `{"active":2}`, want: `{"active":2,"conditions":[MARK]}`},
		"null":                  {seen: `{"conditions":null}`, is: `{"conditions":null}`, want: `{"conditions":[MARK]}`},
		"empty":                 {seen: `{"conditions":[]}`, is: `{"conditions":[]}`, want: `{"conditions":[MARK]}`},
		"others":                {seen: `{"conditions":[{"type":"A"},{"type":"B"}]}`, is: `{"conditions":[{"type":"A"},{"type":"B"}]}`, want: `{"conditions":[{"type":"A"},{"type":"B"},MARK]}`},
		"Failed is False":       {seen: `{"conditions":[{"type":"Failed","status":"False"},{"type":"B"}]}`, is: `{"conditions":[{"type":"Failed","status":"False"},{"type":"B"}]}`, want: `{"conditions":[MARK,{"type":"B"}]}`},
		"with a phase":          {seen: `{"phase":"Running"}`, is: `{"phase":"Running"}`, want: `{"conditions":[MARK],"phase":"Failed","a/b":"c"}`, fields: map[string]string{"phase": "Failed", "a/b": "c"}},
		"a phase alone":         {seen: ``, is: ``, want: `{"conditions":[MARK],"phase":"Failed"}`, fields: map[string]string{"phase": "Failed"}},
		"it finished meanwhile": {seen: `{"conditions":[]}`, is: `{"conditions":[{"type":"Complete"}]}`, version: "8", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(status, version string) map[string]any {
				out := map[string]any{"metadata": map[string]any{"uid": "u", "resourceVersion": version}}
				if status != "" {
					var read any
					must(t, json.Unmarshal([]byte(status), &read))
					out["status"] = read
				}
				return out
			}
			data, err := conditionsOf(object(c.seen, "7")).patch("u", "7", mark, c.fields)
			must(t, err)
			patch, err := jsonpatch.DecodePatch(data)
			must(t, err)
			version := "7"
			if c.version != "" {
				version = c.version
			}
			before, _ := json.Marshal(object(c.is, version))
			after, err := patch.Apply(before)
			if c.refused {
				if err == nil {
					t.Fatalf("%s went through onto %s", data, before)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			var got map[string]any
			must(t, json.Unmarshal(after, &got))
			written, _ := json.Marshal(mark)
			var want any
			must(t, json.Unmarshal([]byte(strings.Replace(c.want, "MARK", string(written), 1)), &want))
			if !reflect.DeepEqual(got["status"], want) {
				t.Errorf("the status is %v\nwant %v", got["status"], want)
			}
		})
	}
}

// A marked object is looked at soon, then ever more rarely, and rests once the mark has settled and
// nothing runs on. While something does, it never rests.
func TestNext(t *testing.T) {
	start := time.Unix(1000, 0)
	clock := clocktesting.NewFakePassiveClock(start)
	s := &Action{options: Options{Clock: clock}}
	for name, c := range map[string]struct {
		seen            Payload
		marked, pending bool
		after           time.Duration
		want            deletion.Answer
	}{
		"just marked":           {Payload{}, true, false, 0, deletion.Answer{Outcome: deletion.Again, After: time.Second}},
		"marked, not seen yet":  {Payload{}, false, false, time.Hour, deletion.Answer{Outcome: deletion.Again, After: time.Second}},
		"a second later":        {Payload{exceeded: start}, false, false, time.Second, deletion.Answer{Outcome: deletion.Again, After: time.Second}},
		"8s later":              {Payload{exceeded: start}, false, false, 8 * time.Second, deletion.Answer{Outcome: deletion.Again, After: 8 * time.Second}},
		"50s later":             {Payload{exceeded: start}, false, false, 50 * time.Second, deletion.Answer{Outcome: deletion.Again, After: 20 * time.Second}},
		"settled":               {Payload{exceeded: start}, false, false, time.Minute, deletion.Answer{Outcome: deletion.Done}},
		"50s later, Pods run":   {Payload{exceeded: start}, false, true, 50 * time.Second, deletion.Answer{Outcome: deletion.Again, After: 5 * time.Second}},
		"an hour on, Pods run":  {Payload{exceeded: start}, false, true, time.Hour, deletion.Answer{Outcome: deletion.Again, After: 5 * time.Second}},
		"marked in the future":  {Payload{exceeded: start}, false, false, -time.Minute, deletion.Answer{Outcome: deletion.Again, After: time.Second}},
		"pending in the future": {Payload{exceeded: start}, false, true, -time.Minute, deletion.Answer{Outcome: deletion.Again, After: time.Second}},
	} {
		clock.SetTime(start.Add(c.after))
		if got := s.next(&c.seen, c.marked, c.pending); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// If this attempt has not marked the object, Suspend patches exactly the judged state (S1), or the
// object is judged again.
func TestSuspendGoesByTheJudgedState(t *testing.T) {
	mark, suspend := v1alpha1.StopStep{Action: v1alpha1.StopMarkFailed}, v1alpha1.StopStep{Action: v1alpha1.StopSuspend}
	for name, test := range map[string]struct {
		steps  []v1alpha1.StopStep
		refuse error
		patch  string
		code   int
	}{
		"alone":          {steps: []v1alpha1.StopStep{suspend}, patch: `{"metadata":{"resourceVersion":"7","uid":"run"},"spec":{"suspend":true}}`, code: 200},
		"after the mark": {steps: []v1alpha1.StopStep{mark, suspend}, patch: `{"metadata":{"uid":"run"},"spec":{"suspend":true}}`, code: 200},
		"it has changed": {
			steps: []v1alpha1.StopStep{suspend}, refuse: apierrors.NewConflict(runs.GroupResource(), "a", nil),
			patch: `{"metadata":{"resourceVersion":"7","uid":"run"},"spec":{"suspend":true}}`, code: 409,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, time.Time{}, test.steps...)
			s.plan.Suspend, s.plan.SuspendValue = fieldpath.FieldPath{"spec", "suspend"}, true
			var sent []string
			s.objects.PrependReactor("patch", "runs", func(action clienttesting.Action) (bool, runtime.Object, error) {
				sent = append(sent, string(action.(clienttesting.PatchAction).GetPatch()))
				return true, &unstructured.Unstructured{Object: map[string]any{}}, test.refuse
			})
			s.metadata.PrependReactor("patch", "runs", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &metav1.PartialObjectMetadata{}, nil
			})
			if got := s.attempt(t); got.Code != test.code {
				t.Errorf("answer %d %v, want %d", got.Code, got.Err, test.code)
			}
			if len(sent) != 1 || sent[0] != test.patch {
				t.Errorf("sent %q, want %s", sent, test.patch)
			}
		})
	}
}
