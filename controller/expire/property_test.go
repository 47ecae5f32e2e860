package expire

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/controller/expire/index"
)

// TestMain keeps an ordinary run short, and the same each time. -rapid.checks asks for more
// histories, and -rapid.seed for others.
func TestMain(m *testing.M) {
	flag.Parse()
	ordinary := map[string]string{"rapid.checks": "2000", "rapid.seed": "1"}
	flag.Visit(func(f *flag.Flag) {
		if _, ok := ordinary[f.Name]; ok {
			clear(ordinary)
		}
	})
	for name, value := range ordinary {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// Whatever happens to objects, watch, API server, clock and process: nothing goes before its expiry
// as judged on the resourceVersion that is deleted (S1), nothing that was re-created under the same
// name goes with its predecessor (S2), and once the trouble is over everything that is due goes
// (S3). S1 and S2 are held in world.Delete.
func TestSafety(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Fatalf)
		lost := false
		w.told = rapid.Bool().Draw(t, "told of changed defaults")
		// In calm runs the watch never breaks and nothing is lost, so that no list helps the engine
		// out.
		calm := rapid.Bool().Draw(t, "calm")
		names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})
		all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
		ttls := rapid.SampledFrom([]time.Duration{-1, 0, time.Second, 10 * time.Second, time.Minute, time.Hour, 100 * time.Hour})
		pick := func(t *rapid.T) *thing { return w.things[names.Draw(t, "name")] }
		set := func(x *thing, ttl time.Duration) {
			if x != nil && x.deleting.IsZero() {
				x.ttl = ttl
				w.changed(x)
			}
		}
		actions := map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				if name := names.Draw(t, "name"); w.things[name] == nil {
					x := w.create(name, ttls.Draw(t, "ttl"), rapid.IntRange(0, 3).Draw(t, "finalizer") == 0)
					if rapid.Bool().Draw(t, "finished") {
						w.finish(x)
					}
				}
			},
			"a crowd finishes": func(t *rapid.T) {
				ttl := ttls.Draw(t, "ttl")
				for _, name := range all {
					if w.things[name] == nil {
						w.finish(w.create(name, ttl, false))
					}
				}
			},
			"watch keeps up": func(*rapid.T) { w.deliverAll() },
			"label": func(t *rapid.T) {
				after := rapid.SampledFrom([]time.Duration{-1, 0, time.Second, 10 * time.Second, time.Minute, time.Hour, 100 * time.Hour})
				if x := pick(t); x != nil && x.deleting.IsZero() {
					if d := after.Draw(t, "after"); d < 0 {
						w.setLabel(x, time.Time{})
					} else {
						w.setLabel(x, w.server.Add(d).Truncate(time.Second))
					}
				}
			},
			"deliver by label": func(t *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(t, "events") {
					w.deliverLabel()
				}
			},
			"watch by label drops":   unless(calm, func(*rapid.T) { w.labels.events, w.labels.broken = nil, true }),
			"list by label answered": unless(calm, func(*rapid.T) { w.answerLabelList() }),
			"list by label handed":   func(*rapid.T) { w.handOverLabelList() },
			"the kind is forgotten": unless(calm, func(*rapid.T) {
				w.engine.ForgetKind(w.labels.kind)
				w.registerLabels()
				w.labels.broken, w.labels.events = true, nil
			}),
			"the label races": func(t *rapid.T) {
				after := rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "after")
				w.racing = func(x *thing) {
					if x.deleting.IsZero() {
						w.setLabel(x, w.server.Add(after).Truncate(time.Second).Add(time.Second))
					}
				}
			},
			"finish": func(t *rapid.T) {
				if x := pick(t); x != nil && x.finished.IsZero() && x.deleting.IsZero() {
					w.finish(x)
				}
			},
			"change ttl": func(t *rapid.T) { set(pick(t), ttls.Draw(t, "ttl")) },
			"change default": func(t *rapid.T) {
				w.defaultTTL = rapid.SampledFrom([]time.Duration{5 * time.Second, time.Minute, time.Hour}).Draw(t, "default")
				if w.told {
					w.engine.RecheckNamespace("ns")
				}
			},
			"deleted by another client": func(t *rapid.T) {
				if x := pick(t); x != nil {
					w.erase(x)
				}
			},
			"finalizer goes": func(t *rapid.T) {
				if x := pick(t); x != nil && !x.deleting.IsZero() {
					w.erase(x)
				}
			},
			"recreate": func(t *rapid.T) {
				if x := pick(t); x != nil {
					w.erase(x)
					w.create(x.name, ttls.Draw(t, "ttl"), false)
				}
			},
			"deliver": func(t *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(t, "events") {
					w.deliver()
				}
			},
			"watch drops":   unless(calm, func(*rapid.T) { w.events, w.broken = nil, true }),
			"list answered": unless(calm, func(*rapid.T) { w.answerList() }),
			"list handed":   func(*rapid.T) { w.handOverList() },
			"time passes": func(t *rapid.T) {
				w.advance(rapid.SampledFrom([]time.Duration{time.Millisecond, 999 * time.Millisecond, time.Second, 9 * time.Second, time.Minute, time.Hour}).Draw(t, "time"))
			},
			"engine works":  func(*rapid.T) { w.pump() },
			"and some more": func(*rapid.T) { w.pump() },
			"clock jumps": func(t *rapid.T) {
				w.jump(time.Duration(rapid.IntRange(-20_000, 20_000).Draw(t, "ms")) * time.Millisecond)
			},
			"clock is right":         func(*rapid.T) { w.jump(0) },
			"metrics are scraped":    func(*rapid.T) { w.engine.overdueNow() },
			"idle pauses end":        func(*rapid.T) { w.closeIdle() },
			"restart":                unless(calm, func(*rapid.T) { w.start() }),
			"a cache answers a list": func(*rapid.T) { w.side, w.sideRV = w.list(), w.rv },
			"that list comes in":     func(*rapid.T) { w.relist(w.side, w.sideRV) },
			// The object itself changes between judgement and DELETE.
			"race": func(t *rapid.T) {
				ttl, again := ttls.Draw(t, "ttl"), rapid.Bool().Draw(t, "recreate")
				w.racing = func(x *thing) {
					if again {
						w.erase(x)
						w.create(x.name, ttl, false)
					} else {
						set(x, ttl)
					}
				}
			},
			// The same, of an object whose DELETE comes next: actions drawn at random seldom
			// arrange that.
			"race at the expiry": func(t *rapid.T) {
				name, ttl, again := names.Draw(t, "name"), ttls.Draw(t, "ttl"), rapid.Bool().Draw(t, "recreate")
				x := w.things[name]
				if x == nil {
					x = w.create(name, time.Second, false)
				}
				set(x, time.Second)
				if x.finished.IsZero() && x.deleting.IsZero() {
					w.finish(x)
				}
				w.deliverAll()
				w.racing = func(x *thing) {
					if again {
						w.erase(x)
						w.create(x.name, ttl, false)
					} else {
						set(x, ttl)
					}
				}
				w.advance(2 * time.Second)
				w.pump()
			},
			// It changes once more after the fresh look that follows, and the watch is quick to say
			// so.
			"race after the fresh look": func(t *rapid.T) {
				ttl, list := ttls.Draw(t, "ttl"), rapid.Bool().Draw(t, "list")
				w.racingJudge = func(x *thing) {
					set(x, ttl)
					if list {
						w.answerList()
						w.handOverList()
					}
					for len(w.events) > 0 && w.listing == nil {
						w.deliver()
					}
				}
			},
			// What its expiry hangs on changes after the fresh look, and the feed is quick to judge
			// again.
			"the default races": func(t *rapid.T) {
				ttl := rapid.SampledFrom([]time.Duration{5 * time.Second, time.Minute, time.Hour}).Draw(t, "default")
				w.racingJudge = func(x *thing) {
					w.defaultTTL = ttl
					if w.told {
						w.engine.RecheckNamespace("ns")
					}
					if x == nil {
						return
					}
					if _, due := w.expiry(x); due && x.deleting.IsZero() {
						w.engine.Upsert(w.object(x))
					}
				}
			},
			"outage": func(t *rapid.T) {
				code := rapid.SampledFrom([]int{0, 403, 429, 500}).Draw(t, "code")
				for range rapid.IntRange(5, 40).Draw(t, "count") {
					w.faults = append(w.faults, fault{code: code})
				}
			},
			"outage ends": func(*rapid.T) { w.faults = nil },
			"a DELETE is accepted and lost": unless(calm, func(*rapid.T) {
				w.faults = append(w.faults, fault{code: 200})
				lost = true
			}),
			"etcd is backed up": func(*rapid.T) { w.backUp() },
			"etcd is restored": unless(calm, func(*rapid.T) {
				w.restore()
				lost = true
			}),
			"faults": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "count") {
					f := fault{code: rapid.SampledFrom([]int{0, 0, 403, 429, 500, 503, 401, 404, 422}).Draw(t, "code")}
					f.carriedOut = f.code == 0 && rapid.Bool().Draw(t, "carried out")
					if f.code == 429 {
						f.retryAfter = time.Duration(rapid.IntRange(0, 5).Draw(t, "retry after")) * time.Second
					}
					w.faults = append(w.faults, f)
				}
			},
			"a webhook denies": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "count") {
					w.faults = append(w.faults, fault{code: rapid.SampledFrom([]int{400, 401, 404, 409, 409, 429, 500}).Draw(t, "code"), webhook: true})
				}
			},
			"judge fails": func(t *rapid.T) { w.judgeErr = rapid.IntRange(1, 3).Draw(t, "times") },
			"": func(t *rapid.T) {
				checkBooks(t, w.engine)
			},
		}
		maps.Copy(actions, w.contextActions())
		t.Repeat(actions)

		// The trouble ends. The clock is right, the watch is up, the API server answers.
		w.faults, w.racing, w.racingJudge, w.judgeErr = nil, nil, nil, 0
		w.jump(0)
		w.advance(time.Second)
		w.date()
		w.calmSurroundings()
		if w.broken || w.listing != nil || lost {
			w.answerList()
			w.handOverList()
		} // else nothing may depend on another list
		if w.labels.broken || w.labels.listing != nil || lost {
			w.answerLabelList()
			w.handOverLabelList()
		}
		for i := range 400 {
			if i == 10 && lost {
				// What the API server accepted and lost is brought back by a later list, and by
				// nothing else.
				w.answerList()
				w.handOverList()
				w.answerLabelList()
				w.handOverLabelList()
			}
			w.pump()
			w.deliverAll()
			w.advance(time.Hour)
			if i >= 20 && i%20 == 0 { // Before that a backoff may last, or a default that was longer once.
				w.forgotten(2 * time.Hour)
			}
		}
		checkBooks(t, w.engine)
	})
}

func unless(no bool, f func(*rapid.T)) func(*rapid.T) {
	if no {
		return func(*rapid.T) {}
	}
	return f
}

// checkBooks compares what the engine counts as it goes with a count of what it holds.
func checkBooks(t *rapid.T, e *Engine) {
	var trackedNow, late, stuck, size int
	for c := 0; e.index.Each(c, func(slot uint32, en *index.Record) {
		size++
		if tracked(en.State) {
			trackedNow++
		}
		if en.Flags&index.FlagLate != 0 {
			late++
		}
		if en.Flags&index.FlagStuck != 0 {
			stuck++
		}
		if !en.Waits() && (en.State == index.Armed || en.State == index.Tombstone || en.State == index.InFlight) {
			t.Fatalf("entry %q in state %d is in no heap", en.Name, en.State)
		}
	}); c++ {
	}
	if got := e.Tracked(); got != trackedNow {
		t.Fatalf("Tracked() = %d, the index holds %d", got, trackedNow)
	}
	if underway := e.inFlight + e.apart + e.slow; e.late != late || e.stuck != stuck || e.index.Len() != size || underway != 0 {
		t.Fatalf("books: late %d/%d, stuck %d/%d, size %d/%d, in flight %d", e.late, late, e.stuck, stuck, e.index.Len(), size, underway)
	}
}
