package expire

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"curfew.dev/curfew/controller/deletion"
)

// brake is what a namespace says that stops deletions, although no object in it changes.
type brake uint8

const (
	noBrake brake = iota
	keepBrake
	dryRunBrake
)

// surroundings are what the objects of a world are judged in. Live reads see brake, and feeds see
// seen, what their cache shows.
type surroundings struct {
	brake, seen brake
	unnoticed   bool // changed since, perhaps there and back
	unjudged    bool // the feeds have yet to judge everything again
	held        bool // the kind's profile changed, and no feed knows it yet
	stale       []Entry
	staleBrake  brake
}

// setBrake changes the namespace. Caches do not show it yet.
func (w *world) setBrake(to brake) { w.around.brake, w.around.unnoticed = to, true }

// noticeBrake has the caches show it and the engine hear of it.
func (w *world) noticeBrake() {
	if !w.around.unnoticed {
		return
	}
	w.around.seen, w.around.unjudged, w.around.unnoticed = w.around.brake, true, false
	w.engine.RecheckNamespace("ns")
}

// rejudge is what feeds do after a change: they list everything and judge it as an event.
func (w *world) rejudge() {
	w.around.unjudged = false
	for _, t := range w.list() {
		w.observe(t)
		if !t.label.IsZero() {
			w.observeLabel(t)
		}
	}
}

// judgeStale has a feed judge everything without telling the engine of it.
func (w *world) judgeStale() {
	w.around.stale, w.around.staleBrake = nil, w.around.seen
	for _, t := range w.list() {
		if _, due := w.expiry(&t); due && t.deleting.IsZero() {
			o := w.object(&t)
			o.Epoch, o.DryRun = w.engine.Epoch(), w.around.seen == dryRunBrake
			w.around.stale = append(w.around.stale, o)
		}
	}
}

// tellStale has it tell now what it judged then.
func (w *world) tellStale() {
	for _, o := range w.around.stale {
		if w.around.staleBrake == keepBrake {
			w.engine.Cancel(o.Kind, o.UID, o.ResourceVersion, o.Epoch)
		} else {
			w.engine.Upsert(o)
		}
	}
	if len(w.around.stale) > 0 && w.around.staleBrake != w.around.seen {
		w.around.unjudged = true // The list that follows the change comes after it.
	}
	w.around.stale = nil
}

// hold and newFeed are what the registry does when a profile changes.
func (w *world) hold() {
	w.around.held = true
	w.engine.Hold(w.kind, true)
}

func (w *world) newFeed() {
	if !w.around.held {
		return
	}
	if _, err := w.engine.RegisterKind(KindOptions{Type: deletion.Type{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Kind: "Job", Namespaced: true}, Trigger: "ttl", Judge: w.judge}); err != nil {
		w.fatal("RegisterKind: %v", err)
	}
	w.around.held = false
	w.engine.Hold(w.kind, false)
}

// braked is the judgement on an object that would be deleted but for its surroundings.
func (w *world) braked(seen brake, o Entry) Judgement {
	o.DryRun = seen == dryRunBrake
	if seen == keepBrake {
		return Judgement{Verdict: Keep}
	}
	return Judgement{Verdict: Track, Object: o}
}

// contextActions are what can happen around the objects.
func (w *world) contextActions() map[string]func(*rapid.T) {
	brakes := rapid.SampledFrom([]brake{noBrake, keepBrake, dryRunBrake})
	return map[string]func(*rapid.T){
		"the namespace changes": func(t *rapid.T) {
			w.setBrake(brakes.Draw(t, "brake"))
			if rapid.Bool().Draw(t, "caches show it") {
				w.noticeBrake()
			}
		},
		"feeds catch up": func(*rapid.T) { w.noticeBrake(); w.rejudge(); w.newFeed() },
		"a feed is slow to tell": func(*rapid.T) {
			if w.around.stale == nil {
				w.judgeStale()
			} else {
				w.tellStale()
			}
		},
		"the profile changes": func(*rapid.T) { w.hold() },
		"the namespace changes during the live read": func(t *rapid.T) {
			to, rejudge := brakes.Draw(t, "brake"), rapid.Bool().Draw(t, "rejudge")
			w.racingJudge = func(*thing) {
				w.setBrake(to)
				w.noticeBrake()
				if rejudge {
					w.rejudge()
				}
			}
		},
		"the profile changes during the live read": func(*rapid.T) { w.racingJudge = func(*thing) { w.hold() } },
	}
}

// calmSurroundings ends all of it.
func (w *world) calmSurroundings() {
	w.setBrake(noBrake)
	w.noticeBrake()
	w.newFeed()
	w.tellStale()
	if w.around.unjudged {
		w.rejudge()
	}
}
