package engine

import (
	"testing"
)

// The number of triggers is not bounded by anything but the size of their number in an entry.
func TestManyTriggers(t *testing.T) {
	do := &scripted{}
	var list []Trigger
	for i := range 40 {
		list = append(list, Trigger{Name: string(rune('A' + i)), Action: do})
	}
	e, err := New(Options{Triggers: list})
	if err != nil {
		t.Fatal(err)
	}
	for _, t1 := range list {
		kind, err := e.RegisterKind(KindOptions{Type: jobs, Trigger: t1.Name, Judge: keep})
		if err != nil {
			t.Fatal(err)
		}
		e.Upsert(Entry{Kind: kind, Name: "j", UID: "u", ResourceVersion: "7", Expiry: epoch})
	}
	if got := e.Tracked(); got != 40 || len(e.index.All("u")) != 40 {
		t.Errorf("%d entries of one object, want one for each trigger", got)
	}
	for name, bad := range map[string][]Trigger{
		"none": nil, "no name": {{Action: do}}, "no action": {{Name: "a"}}, "twice": {{Name: "a", Action: do}, {Name: "a", Action: do}},
	} {
		if _, err := New(Options{Triggers: bad}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
