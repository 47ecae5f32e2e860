package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestStatistics(t *testing.T) {
	for name, c := range map[string]struct{ got, want float64 }{
		"median of none":            {median(nil), 0},
		"median of odd":             {median([]float64{9, 1, 5}), 5},
		"median of even":            {median([]float64{4, 1, 2, 9}), 3},
		"p99 of one":                {percentile([]float64{7}, 0.99), 7},
		"p99 of none":               {percentile(nil, 0.99), 0},
		"p50 is a value that stood": {percentile([]float64{4, 1, 2, 9}, 0.5), 2},
		"p100":                      {percentile([]float64{4, 1, 2, 9}, 1), 9},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}

// The ratio is taken pair by pair: when the machine halves its speed between rounds, the ratio of
// medians would tell of the machine and not of the contestants.
func TestCompareByPairs(t *testing.T) {
	got := compare("n", "u", []float64{100, 40, 300}, "b", []float64{200, 100, 400})
	want := result{Name: "n", Unit: "u", Value: 100, Baseline: "b", BaselineValue: 200, Ratio: 0.5, Low: 0.4, High: 0.75}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSummarize(t *testing.T) {
	all := []measurement{
		{Contestant: theLimit, PerSecond: 1000, DrainP99: 50}, {Contestant: theCurfew, PerSecond: 900, DrainP99: 10},
		{Contestant: theUnbound, PerSecond: 300, DrainP99: 20}, {Contestant: theDefault, PerSecond: 10, DrainP99: 5},
		{Contestant: theEqual, PerSecond: 950, DrainP99: 50},
	}
	got := map[string]float64{}
	for _, r := range summarize(all, contestants, 10000) {
		got[r.Name] = r.Ratio
	}
	want := map[string]float64{
		"drain.jobs.10k.vs_limit": 0.9, "drain.jobs.10k.vs_intree_unthrottled": 3, "drain.jobs.10k.vs_intree_default": 90,
		"drain.jobs.10k.vs_limit_as_curfew": 0.947, "drain.jobs.10k.limit_as_curfew": 0.95, "drain.jobs.10k.limit": 1, "drain.jobs.10k.intree_unthrottled": 0.3, "drain.jobs.10k.intree_default": 0.01,
		"drain.bystander_p99.vs_intree": 0.5, "drain.bystander_p99.limit.vs_intree": 2.5,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestSizeName(t *testing.T) {
	for n, want := range map[int]string{10000: "10k", 50000: "50k", 1500: "1500", 1000000: "1m", 250: "250"} {
		if got := sizeName(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestResultsFile(t *testing.T) {
	data, err := json.Marshal(result{Name: "a.b", Unit: "ms", Value: 1, Baseline: "c", BaselineValue: 2, Ratio: 0.5, Low: 0.4, High: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"name":"a.b","unit":"ms","value":1,"baseline":"c","baselineValue":2,"ratio":0.5,"low":0.4,"high":2}`; string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}

// A run of one bench leaves the results of the others, and takes the place of its own earlier ones.
func TestMergeResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), resultsFile)
	for _, results := range [][]result{
		{{Name: "drain.a", Value: 1}, {Name: "drain.b", Value: 2}},
		{{Name: "admission.a", Value: 3}},
		{{Name: "drain.b", Value: 4}, {Name: "drain.c", Value: 5}},
	} {
		if err := mergeResults(path, results); err != nil {
			t.Fatal(err)
		}
	}
	var got []result
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []result{{Name: "drain.a", Value: 1}, {Name: "drain.b", Value: 4}, {Name: "admission.a", Value: 3}, {Name: "drain.c", Value: 5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mergeResults(path, want); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v: what cannot be read is lost without a word", err)
	}
}

func TestRegister(t *testing.T) {
	defer func(all []bench) { benches = all }(slices.Clone(benches))
	benches = nil
	for _, b := range []bench{{name: "late", position: 30}, {name: "b", position: 10}, {name: "middle", position: 20}, {name: "a", position: 10}} {
		register(b)
	}
	if got := benchNames(); got != "a,b,middle,late" {
		t.Errorf("got %s", got)
	}
}

func benchNames() string {
	var names []string
	for _, b := range benches {
		names = append(names, b.name)
	}
	return strings.Join(names, ",")
}

func TestCount(t *testing.T) {
	due := time.Unix(1000, 0)
	at := func(ms ...int) (times []time.Time) {
		for _, m := range ms {
			times = append(times, due.Add(time.Duration(m)*time.Millisecond))
		}
		return times
	}
	var m measurement
	if err := m.count(at(500, 1000, 2500), due, 0, 3); err != nil || m.PerSecond != 1 || m.FirstAfter != 0.5 {
		t.Errorf("got %+v, %v: two deletions came in the 2 s after the first", m, err)
	}
	if err := m.count(at(500, 1000, 2500), due, 30*time.Second, 4); err != nil || m.PerSecond != 0.1 {
		t.Errorf("got %+v, %v: three deletions of four in a window of 30 s", m, err)
	}
	if err := m.count(at(500, 1000, 2500), due, 30*time.Second, 3); err != nil || m.PerSecond != 1 {
		t.Errorf("got %+v, %v: who is through before the window ends is as fast as it was", m, err)
	}
	for name, c := range map[string]struct {
		times []time.Time
		want  string
	}{
		"nothing was deleted":  {nil, "0 Jobs were deleted: no rate can be told"},
		"early (S1)":           {at(-1, 5), "a Job was deleted 1ms before it was due"},
		"all at the same time": {at(3, 3), "all deletions were seen at one instant: no rate can be told, let there be more Jobs"},
	} {
		if err := m.count(c.times, due, 0, 3); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// A result extrapolated from a part says so, and the names tell the sizes apart.
func TestDrainOfMany(t *testing.T) {
	field := contestantsOfMany()
	var all []measurement
	for i, c := range field {
		m := measurement{Contestant: c.name, PerSecond: float64(i + 1), DrainP99: 1, Deleted: 50000}
		if c.window > 0 {
			m.Deleted = 49999
		}
		all = append(all, m)
	}
	got := map[string]string{}
	for _, r := range summarize(all, field, 50000) {
		got[r.Name] = r.Baseline
	}
	for name, baseline := range map[string]string{
		"drain.jobs.50k.vs_limit":              "bare loop of parallel DELETE calls",
		"drain.jobs.50k.vs_intree_unthrottled": "in-tree TTL controller, unthrottled, over the first 60 s",
		"drain.jobs.50k.vs_intree_default":     "in-tree TTL controller, defaults, over the first 30 s",
		"drain.bystander_p99.50k.vs_intree":    "in-tree TTL controller, unthrottled, over the first 60 s",
	} {
		if got[name] != baseline {
			t.Errorf("%s: baseline %q, want %q", name, got[name], baseline)
		}
	}
	for _, c := range contestants {
		if c.name == theUnbound && c.window != 0 {
			t.Error("the smaller drain was given a window, too")
		}
	}
}

func TestOthers(t *testing.T) {
	from, err := parseMachine("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	if err != nil {
		t.Fatal(err)
	}
	to, err := parseMachine("cpu  160 10 60 890 50 5 5 20 0 0\n")
	if err != nil {
		t.Fatal(err)
	}
	from.ours = parseProcess("77 (a b) c) S 1 2 3 4 5 6 7 8 9 10 30 20 0 0 20")
	to.ours = parseProcess("77 (a b) c) S 1 2 3 4 5 6 7 8 9 10 70 40 0 0 20")
	// 200 ticks, 90 of them idle, 60 ours.
	if got := others(from, to); from.ours != 50 || got != 0.25 {
		t.Errorf("got %v of %+v to %+v, want 0.25", got, from, to)
	}
	if _, err := parseMachine("intr 5"); err == nil {
		t.Error("parseMachine accepts a line that does not count processor time, want an error")
	}
}

func TestWarnOfOthers(t *testing.T) {
	var out bytes.Buffer
	if warnOfOthers(&out, []measurement{{Others: 0.1}, {Others: 0.02}}); out.Len() > 0 {
		t.Errorf("got %s: the machine was quiet", &out)
	}
	warnOfOthers(&out, []measurement{{Others: 0.11}, {Others: 0.36}, {Others: 0.02}})
	want := "WARNING: other processes took more than 10% of the machine in 2 of 3 measurements, up to 36%: do not trust these numbers\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", &out, want)
	}
}

func TestReplaceFlags(t *testing.T) {
	got := replaceFlags([]string{"kcm", "--controllers=*", "--v=2", "--controllers=more", "--controllers-x=1"},
		map[string]string{"--controllers": "ttl", "--a": "b"})
	if want := []string{"kcm", "--v=2", "--controllers-x=1", "--a=b", "--controllers=ttl"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(benches) {
		t.Errorf("got %d of %d, %v", len(all), len(benches), err)
	}
	if _, err := choose("drain,nap"); err == nil || err.Error() != `-only "drain,nap": there is no bench "nap", take some of `+benchNames() {
		t.Errorf("an unknown bench gives %v, want an error that lists the known ones", err)
	}
	field, err := chooseContestants("curfew,limit", contestants)
	if err != nil {
		t.Error(err)
	}
	if len(field) != 2 || field[0].name != theCurfew || field[1].name != theLimit {
		t.Errorf("got %+v, want Curfew and the limit", field)
	}
	if _, err := chooseContestants("other", contestants); err == nil || !strings.Contains(err.Error(), `there is no "other", take some of limit,curfew,`) {
		t.Errorf("an unknown contestant gives %v, want an error that lists the known ones", err)
	}
}

func TestEach(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	set := jobSet{prefix: "h1", count: 100}
	if err := set.each(t.Context(), 7, func(_ context.Context, name string) error {
		mu.Lock()
		defer mu.Unlock()
		seen[name]++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 100 || seen["h1-000000"] != 1 || seen["h1-000099"] != 1 {
		t.Errorf("%d names of 100: %v", len(seen), seen)
	}
	bad := errors.New("no")
	if err := set.each(t.Context(), 3, func(context.Context, string) error { return bad }); !errors.Is(err, bad) {
		t.Errorf("got %v: the error is lost, and a contest with half its Jobs would count", err)
	}
}

// frame is an event as the API server writes it into a protobuf watch.
func frame(t *testing.T, event string, job *batchv1.Job) []byte {
	t.Helper()
	wrap := func(kind string, raw []byte) []byte {
		data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind}, Raw: raw}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), data...)
	}
	object, err := job.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	data, err := (&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: wrap("Job", object)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

func TestObserver(t *testing.T) {
	job := func(name string, deleting bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		if deleting {
			j.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return j
	}
	var stream bytes.Buffer
	for _, event := range []struct {
		kind string
		job  *batchv1.Job
	}{
		{"MODIFIED", job("h7-000000", false)}, // finished: no deletion
		{"DELETED", job("h7-000000", false)},  // in the background
		{"MODIFIED", job("h7-000001", true)},  // in the foreground: accepted now,
		{"DELETED", job("h7-000001", true)},   // gone later, and counted once
		{"DELETED", job("h70-000000", true)},  // another heat's
	} {
		stream.Write(frame(t, event.kind, event.job))
	}
	o := &observer{object: func() watched { return &batchv1.Job{} }, prefix: "h7-", want: 2, seen: map[types.UID]sighting{}, full: make(chan struct{}), done: make(chan struct{})}
	if err := o.read(&stream); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended, and it says %v", err)
	}
	select {
	case <-o.full:
	default:
		t.Error("it has not noticed that all are deleted")
	}
	if n := len(o.times()); n != 2 {
		t.Errorf("%d deletions were counted, want 2: %v", n, o.seen)
	}
}

// An ended watch is taken up where it ended, so that no deletion is missed; one that brings nothing
// again and again fails the heat.
func TestObserverTakesUpAnEndedWatch(t *testing.T) {
	deleted := func(name, version string) *bytes.Buffer {
		return bytes.NewBuffer(frame(t, "DELETED", &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version}}))
	}
	var from []string
	streams := []*bytes.Buffer{deleted("h7-0", "21"), deleted("h7-1", "34")}
	open := func(_ context.Context, version string) (io.ReadCloser, error) {
		from = append(from, version)
		if len(streams) == 0 {
			return nil, fmt.Errorf("open: %w", io.EOF)
		}
		next := streams[0]
		streams = streams[1:]
		return nopCloser{next}, nil
	}
	o, err := observeWith(t.Context(), open, "8", jobSet{prefix: "h7", count: 2}, func() watched { return &batchv1.Job{} })
	if err != nil {
		t.Fatal(err)
	}
	<-o.full
	<-o.done
	if want := []string{"8", "21", "34"}; !slices.Equal(from[:3], want) {
		t.Errorf("the watch was opened at %v, want %v first", from, want)
	}
	if want := 2 + futileMost; len(from) != want || o.failure() == nil {
		t.Errorf("opened %d times, failure %v: want an end after %d times", len(from), o.failure(), want)
	}
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }
