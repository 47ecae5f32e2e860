package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"curfew.dev/curfew/test/world"
)

var (
	seeds  = flag.Int("seeds", 200, "how many random sequences of requests are compared")
	only   = flag.Int("seed", -1, "the only sequence that is compared")
	length = flag.Int("length", 40, "how many requests a sequence has")
)

// The same requests, in the same order, get the same answers from package world and from a real API
// server, and watches show the same events.
func TestWorldAnswersAsTheAPIServer(t *testing.T) {
	requests := 0
	from, to := 0, *seeds
	if *only >= 0 {
		from, to = *only, *only+1
	}
	for seed := from; seed < to; seed++ {
		steps := script(uint64(seed), *length)
		requests += len(steps)
		if fault := compare(t, steps); fault != "" {
			steps = world.Shrink(steps, func(some []*step) bool { return compare(t, some) != "" })
			text := ""
			for _, s := range steps {
				text += s.String() + "\n"
			}
			t.Errorf("seed %d:\n%s%s", seed, text, compare(t, steps))
			if strings.Count(fault, "\n") > 200 {
				t.FailNow()
			}
		}
	}
	t.Logf("note: %d sequences, %d requests", to-from, requests)
}

// runs counts the sequences that were played, so that each has names of its own.
var runs int

// compare plays steps on both sides and describes the first difference.
func compare(t *testing.T, steps []*step) string {
	t.Helper()
	runs++
	model := world.New(t)
	if suite.minor < 34 {
		model.MissingConflicts()
	}
	model.Define(world.Runs())
	both := []*side{
		{client: &http.Client{Transport: model.Client("test", "test")}, base: "http://world"},
		{client: suite.client, base: strings.TrimSuffix(suite.cluster.Config.Host, "/")},
	}
	for _, s := range both {
		s.run, s.objects, s.stale, s.began = fmt.Sprint(runs), map[string]map[string]any{}, map[string]string{}, map[string]string{}
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
	}
	for i, each := range steps {
		if fault := same(t, both, each); fault != "" {
			return fmt.Sprintf("request %d, %s: %s", i, each, fault)
		}
		if look := (&step{verb: "get", kind: each.kind, name: each.name, grace: -1}); each.verb != "get" && each.verb != "list" {
			if fault := same(t, both, look); fault != "" {
				return fmt.Sprintf("the object after request %d, %s: %s", i, each, fault)
			}
		}
	}
	return sameEvents(t, both)
}

// same sends a request to both sides and describes how the answers differ.
func same(t *testing.T, both []*side, entry *step) string {
	t.Helper()
	var got []*result
	for _, s := range both {
		answer, err := s.do(entry)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, answer)
	}
	ours, theirs := got[0], got[1]
	switch {
	case ours.Code != theirs.Code || ours.Reason != theirs.Reason:
	case !reflect.DeepEqual(ours.Details, theirs.Details):
	case !covers(theirs.Object, ours.Object, entry.kind.loose, ""):
	default:
		return ""
	}
	return fmt.Sprintf("\n  world      %s\n  API server %s", ours, theirs)
}

func (r *result) String() string {
	text, _ := json.Marshal(r)
	return string(text)
}

// covers reports whether two answers are the same. Where the kind is loose, the API server may say
// more than package world, but not in the metadata.
func covers(theirs, ours any, loose bool, path string) bool {
	a, isMap := theirs.(map[string]any)
	b, both := ours.(map[string]any)
	if !isMap || !both {
		list, isList := theirs.([]any)
		other, also := ours.([]any)
		if !loose || !isList || !also || len(list) != len(other) {
			return reflect.DeepEqual(theirs, ours)
		}
		for i := range list {
			if !covers(list[i], other[i], loose, path+"[]") {
				return false
			}
		}
		return true
	}
	strict := !loose || strings.HasSuffix(path, ".metadata")
	if strict && len(a) != len(b) {
		return false
	}
	for key, value := range b {
		if !covers(a[key], value, loose, path+"."+key) {
			return false
		}
	}
	return true
}

// begin notes where the watches of each kind begin.
func (s *side) begin() error {
	for _, kind := range kinds {
		_, list, err := s.send(http.MethodGet, kind.path, url.Values{"limit": {"1"}}, nil, nil)
		if err != nil {
			return err
		}
		s.began[kind.resource], _ = at(list, "metadata")["resourceVersion"].(string)
	}
	return nil
}

// sameEvents compares what watches from before the first request show.
func sameEvents(t *testing.T, both []*side) string {
	t.Helper()
	for _, kind := range kinds {
		var shown [][]map[string]any
		for _, s := range both {
			events, err := s.events(kind)
			if err != nil {
				t.Fatal(err)
			}
			shown = append(shown, events)
		}
		for i := range max(len(shown[0]), len(shown[1])) {
			var ours, theirs map[string]any
			if i < len(shown[0]) {
				ours = shown[0][i]
			}
			if i < len(shown[1]) {
				theirs = shown[1][i]
			}
			if !covers(theirs, ours, kind.loose, "") {
				return fmt.Sprintf("event %d of a watch of %s:\n  world      %v\n  API server %v", i, kind.resource, ours, theirs)
			}
		}
	}
	return ""
}

// events are what a watch shows, up to an object that is created last.
func (s *side) events(info *kind) ([]map[string]any, error) {
	last := &step{verb: "create", kind: info, name: "end", content: map[string]any{}, grace: -1}
	if info.loose {
		last.content = info.content(fixed)
	}
	if answer, err := s.do(last); err != nil || answer.Code != http.StatusCreated {
		return nil, fmt.Errorf("creating the last object: %v: %w", answer, err)
	}
	query := url.Values{"watch": {"true"}, "resourceVersion": {s.began[info.resource]}, "labelSelector": {"run=" + s.run}, "timeoutSeconds": {"60"}}
	response, err := s.client.Get(s.base + info.path + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var out []map[string]any
	for decoder := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object map[string]any
		}
		if err := decoder.Decode(&event); err == io.EOF {
			return out, fmt.Errorf("the watch of %s ended before the last object", info.resource)
		} else if err != nil {
			return nil, err
		}
		object := s.normal(info, event.Object)
		if at(object, "metadata")["name"] == "end" {
			return out, nil
		}
		out = append(out, map[string]any{"type": event.Type, "object": object})
	}
}
