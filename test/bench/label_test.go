package main

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

func TestSummarizeLabelDrain(t *testing.T) {
	all := []measurement{
		{Contestant: theLimit, PerSecond: 2000}, {Contestant: theCurfew, PerSecond: 1900}, {Contestant: theDrainer, PerSecond: 1980},
		{Contestant: theLimit, PerSecond: 1000}, {Contestant: theCurfew, PerSecond: 930}, {Contestant: theDrainer, PerSecond: 1010},
	}
	got := map[string]float64{}
	for _, r := range summarizeLabelDrain(all, 20000) {
		got[r.Name] = r.Ratio
	}
	want := map[string]float64{"label.drain.20k.vs_limit": 0.94, "label.drain.20k.favour_drain.vs_limit": 1, "label.drain.20k.limit": 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got := summarizeLabelDrain([]measurement{{Contestant: theCurfew, PerSecond: 1}}, 20000); len(got) != 0 {
		t.Errorf("got %v without the limit", got)
	}
}

func TestSummarizeLabelCreate(t *testing.T) {
	cpu := func(apiserver float64) map[string]float64 {
		return map[string]float64{"kube-apiserver": apiserver, "etcd": 200}
	}
	all := []labelCreateRun{
		{Way: wayPlain, PerSecond: 2000, CPU: cpu(800)}, {Way: wayLabelled, PerSecond: 1900, CPU: cpu(900)}, {Way: wayDate, PerSecond: 1000, CPU: cpu(1800)},
		{Way: wayPlain, PerSecond: 1000, CPU: cpu(1800)}, {Way: wayLabelled, PerSecond: 970, CPU: cpu(1800)}, {Way: wayDate, PerSecond: 700, CPU: cpu(1800)},
	}
	got := map[string]float64{}
	for _, r := range summarizeLabelCreate(all) {
		got[r.Name] = r.Ratio
	}
	if want := map[string]float64{"label.create.vs_unlabelled": 0.96, "label.create.date.vs_unlabelled": 0.6,
		"label.create.cpu.vs_unlabelled": 1.05, "label.create.cpu.date.vs_unlabelled": 1.5}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// A round that did not do what it is called measures something else.
func TestWaysAreChecked(t *testing.T) {
	for name, row := range map[string]struct {
		way   string
		calls float64
		fails bool
	}{
		"no call": {way: wayLabelled}, "one in a thousand": {way: wayPlain, calls: 1}, "all are": {way: wayBounded, calls: 1000},
		"a label that is sent after all": {way: wayLabelled, calls: 1000, fails: true}, "a webhook that is not there": {way: wayDate, calls: 10, fails: true},
	} {
		if err := (way{name: row.way}).check(labelCreateRun{Objects: 1000, Calls: row.calls}); (err != nil) != row.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the bench labels with is what the controller reads.
func TestLabelOfTheBench(t *testing.T) {
	due := time.Date(2026, 12, 24, 0, 30, 0, 0, time.UTC)
	for _, value := range []string{lifetime.TTLLabel{At: due}.String(), ways[1].label, ways[2].label} {
		object := configMap("a", value)
		if _, err := lifetime.ParseTTLLabel(object.Labels[wellknown.LabelTTL]); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	var _ watched = &corev1.ConfigMap{}
	if _, there := configMap("a", "").Labels[wellknown.LabelTTL]; there {
		t.Error("an unlabelled one has the label")
	}
}

func TestUnlabelledOnesAreNoSmaller(t *testing.T) {
	plain, labelled := ways[0].object("a"), ways[1].object("a")
	if plain.Size() != labelled.Size() {
		t.Errorf("%d bytes without the label, %d with it", plain.Size(), labelled.Size())
	}
	if _, there := plain.Labels[wellknown.LabelTTL]; there || labelled.Labels[wellknown.LabelTTL] == "" {
		t.Errorf("labels %v and %v", plain.Labels, labelled.Labels)
	}
}

func TestChooseWays(t *testing.T) {
	if got, err := chooseWays("labelled,unlabelled"); err != nil {
		t.Error(err)
	} else if len(got) != 2 || got[0].name != wayLabelled || got[1].name != wayPlain {
		t.Errorf("got %v, want %s and %s", got, wayLabelled, wayPlain)
	}
	if got, err := chooseWays(""); err != nil || len(got) != len(ways) {
		t.Errorf("got %d ways, %v; want all", len(got), err)
	}
	want := `-label_create-ways "labelled,other": there is no "other", take some of unlabelled,labelled,date,bounded`
	if _, err := chooseWays("labelled,other"); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// A process that has ended meanwhile tells nothing.
func TestCPUPerObject(t *testing.T) {
	from := map[string]time.Duration{"etcd": time.Second, "client": 2 * time.Second, "webhook": time.Second}
	to := map[string]time.Duration{"etcd": 3 * time.Second, "client": 2 * time.Second}
	if got, want := perObject(from, to, 4000), map[string]float64{"etcd": 500, "client": 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	run := labelCreateRun{CPU: perObject(from, to, 1000)}
	if got, want := showCPU(run.CPU), "client 0, etcd 2000"; got != want || run.cpu() != 2000 {
		t.Errorf("got %s and %.0f, want %s and 2000", got, run.cpu(), want)
	}
}

func TestParts(t *testing.T) {
	all := jobSet{prefix: "a", first: 5, count: 7}
	if got, want := all.parts(3), []jobSet{{prefix: "a", first: 5, count: 3}, {prefix: "a", first: 8, count: 3}, {prefix: "a", first: 11, count: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := all.parts(0); !reflect.DeepEqual(got, []jobSet{all}) {
		t.Errorf("got %v, want it whole", got)
	}
}
