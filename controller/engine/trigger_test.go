package engine

import (
	"testing"
	"time"
)

// A trigger that is switched off keeps nothing and does nothing, also where a worker has the object
// already; the others go on. Switched on again, it acts on what its feeds list.
func TestSwitchedOff(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	w.both("both", time.Second, 10*time.Second, false)
	x := w.create("ttl", time.Second, false)
	w.finish(x)
	w.deliverAll()
	w.advance(time.Second)
	r := w.engine.read()
	w.engine.mu.Lock()
	now, _ := w.engine.checkClock(r)
	j := w.engine.next(now, r) // has not sent anything yet
	w.engine.unlock()
	if j == nil {
		t.Fatal("nothing is due")
	}
	if err := w.engine.Switch("ttl", false); err != nil {
		t.Fatal(err)
	}
	res := w.engine.attempt(t.Context(), j)
	w.engine.mu.Lock()
	w.engine.finish(j, res, r, false)
	w.engine.unlock()
	w.answerList()
	w.handOverList()
	run := newLedger()
	w.engine.Submit(t.Context(), run, w.object(x))
	w.pump()
	if w.deletes != 0 || len(*outcomes) != 0 || w.engine.Tracked() != 1 || run.results[Held] != 1 {
		t.Fatalf("%d DELETEs, %v, %d tracked, %v: want nothing but what the label waits for", w.deletes, *outcomes, w.engine.Tracked(), run.results)
	}
	w.advance(10 * time.Second)
	w.pump()
	if n := count(*outcomes); n[Deleted] != 1 || (*outcomes)[0].Trigger != "label" {
		t.Fatalf("%v: want the label to have deleted one", *outcomes)
	}
	w.deliverAll()
	if err := w.engine.Switch("ttl", true); err != nil {
		t.Fatal(err)
	}
	w.pump()
	if w.deletes != 1 {
		t.Fatal("it acts before anything was listed")
	}
	w.answerList()
	w.handOverList()
	w.pump()
	if len(w.things) != 0 || w.deletes != 2 {
		t.Errorf("%d DELETEs, %d are left: want the other one gone by its TTL", w.deletes, len(w.things))
	}
	if w.engine.Switch("no such", false) == nil {
		t.Error("a trigger that does not exist can be switched")
	}
}

// A trigger that is registered as switched off tracks nothing.
func TestRegisteredOff(t *testing.T) {
	list := deletes(nil)
	list[0].Off = true
	e, err := New(Options{Triggers: list})
	if err != nil {
		t.Fatal(err)
	}
	kind, err := e.RegisterKind(KindOptions{Type: jobs, Trigger: "ttl", Judge: keep})
	if err != nil {
		t.Fatal(err)
	}
	e.Upsert(Object{Kind: kind, Name: "j", UID: "u", ResourceVersion: "7", Expiry: epoch})
	e.Terminating(Object{Kind: kind, Name: "j", UID: "u", ResourceVersion: "7"}, epoch)
	if _, known := e.Lookup("u"); known || e.Tracked() != 0 {
		t.Error("it is tracked")
	}
}

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
		e.Upsert(Object{Kind: kind, Name: "j", UID: "u", ResourceVersion: "7", Expiry: epoch})
	}
	if got := e.Tracked(); got != 40 || len(e.index.entriesOf("u")) != 40 {
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
