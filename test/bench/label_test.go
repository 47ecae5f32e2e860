package main

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
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
	all := []labelCreateRun{
		{Way: wayPlain, PerSecond: 2000}, {Way: wayLabelled, PerSecond: 1900}, {Way: wayDate, PerSecond: 1000},
		{Way: wayPlain, PerSecond: 1000}, {Way: wayLabelled, PerSecond: 970}, {Way: wayDate, PerSecond: 700},
	}
	got := map[string]float64{}
	for _, r := range summarizeLabelCreate(all) {
		got[r.Name] = r.Ratio
	}
	if want := map[string]float64{"label.create.vs_unlabelled": 0.96, "label.create.date.vs_unlabelled": 0.6}; !reflect.DeepEqual(got, want) {
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
		"nobody is called": {way: wayLabelled}, "one in a thousand": {way: wayPlain, calls: 1}, "all are": {way: wayBounded, calls: 1000},
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
	for _, value := range []string{policy.TTLLabel{At: due}.String(), ways[1].label, ways[2].label} {
		object := configMap("a", value)
		if _, err := policy.ParseTTLLabel(object.Labels[policy.LabelTTL]); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	var _ watched = &corev1.ConfigMap{}
	if _, there := configMap("a", "").Labels[policy.LabelTTL]; there {
		t.Error("an unlabelled one has the label")
	}
}
