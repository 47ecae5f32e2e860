package feed

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Whatever is done to labels, and whenever the watch breaks: nothing goes before its label says so
// (S1), and everything goes that is due in the end (S3).
func TestLabelEdits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type edit struct {
			key, value string
			wait       time.Duration
			cut, lost  bool
		}
		values := rapid.SampledFrom([]string{"", "1m", "2m", "1h", "soon", "in 3s", "in 30s", "in -1h"})
		edits := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) edit {
			return edit{
				key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "key"), value: values.Draw(r, "value"),
				wait: rapid.SampledFrom([]time.Duration{0, time.Millisecond, 999 * time.Millisecond, 2 * time.Second, time.Minute}).Draw(r, "wait"),
				cut:  rapid.IntRange(0, 4).Draw(r, "cut") == 0, lost: rapid.IntRange(0, 4).Draw(r, "recreate") == 0,
			}
		}), 1, 25).Draw(r, "edits")
		failed := ""
		synctest.Test(t, func(t *testing.T) {
			s := newStore()
			checked := &honest{store: s, fail: func(text string) { failed = text }}
			engine, err := expire.New(expire.Options{Triggers: triggers(checked), Clock: clock.RealClock{}})
			must(t, err)
			feeds, _ := stock(t, s, none(), func(o *Options) { o.Engine = engine }, LabelledKind{})
			for i, e := range edits {
				value := e.value
				if offset, ok := strings.CutPrefix(value, "in "); ok {
					d, _ := time.ParseDuration(offset)
					value = in(d)
				}
				if key := "ci/" + e.key; e.lost || !s.has(key) {
					o := config(e.key, wellknown.LabelTTL, value)
					o.UID = types.UID(fmt.Sprintf("uid-%s-%d", e.key, i))
					if value == "" {
						o.Labels = nil
					}
					s.put(o)
				} else {
					s.label(key, value)
				}
				if e.cut {
					s.cut()
				}
				at(e.wait)
			}
			at(2 * time.Hour)
			for key, o := range s.objects {
				facts := policy.FactsOfMeta(feeds[0].kind.Profile, &o.ObjectMeta)
				if v := judging.JudgeLabel(&facts, wellknown.LabelTTL, &resolution.Scope{}, time.Now().Add(-time.Minute)); v.Action == policy.Delete {
					failed = fmt.Sprintf("S3: %s was due at %s and is still there", key, v.Expiry)
				}
			}
		})
		if failed != "" {
			r.Fatal(failed)
		}
	})
}

// honest holds every DELETE that is accepted to S1.
type honest struct {
	*store
	fail func(string)
}

func (h *honest) Delete(ctx context.Context, r deletion.Request) deletion.Response {
	h.mu.Lock()
	o := h.objects[name(r.Namespace, r.Name)]
	h.mu.Unlock()
	response := h.store.Delete(ctx, r)
	if response.Code == http.StatusOK {
		facts := policy.FactsOfMeta(&policy.Profile{}, &o.ObjectMeta)
		if v := judging.JudgeLabel(&facts, wellknown.LabelTTL, &resolution.Scope{}, time.Now()); v.Action != policy.Delete {
			h.fail(fmt.Sprintf("S1: %s was deleted, and is to %s: %s", o.Name, v.Action, v.Reason))
		}
	}
	return response
}
