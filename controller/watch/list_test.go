package watch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func streamed(o *Options) { o.Stream, o.Relist = true, 30*time.Minute }

// A list is streamed, and the watch goes on behind it. An API server that cannot stream is asked for
// pages.
func TestStream(t *testing.T) {
	for name, noStream := range map[string]error{
		"": nil, "it cannot": apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil), "it does not know that": apierrors.NewBadRequest("unknown"),
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a", "b")
			a.noStream = noStream
			c := follow(t, a, streamed)
			want := "stream"
			if noStream != nil {
				want = "stream, list, watch 12"
			}
			c.expect(t, a, "at first", "a b", want)
			a.put("c")
			a.write("a", watch.Deleted, false)
			c.expect(t, a, "after an event", "a b c", "")
			after(31 * time.Minute)
			c.expect(t, a, "after the next list", "b c", strings.Replace(want, "12", "14", 1))
		})
	}
}

// S3: a stream that never comes to the end of its list, be it silent or busy, and streams that are
// cut before that, are given up for pages, for an hour. Until then no list has ended.
func TestStreamThatDoesNotEnd(t *testing.T) {
	for name, test := range map[string]struct {
		busy, cut bool
		most      time.Duration
	}{
		"silent": {most: maxStream + time.Second}, "busy": {busy: true, most: maxStream + time.Second}, "cut": {cut: true, most: time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a")
			a.endless, a.cut = !test.cut, test.cut
			began := time.Now()
			c := follow(t, a, streamed)
			for !c.Following() && time.Since(began) < time.Hour {
				if test.busy {
					a.put("a")
				}
				after(time.Second)
			}
			if took := time.Since(began); took > test.most {
				t.Fatalf("all is known after %s, want %s at most", took, test.most)
			}
			if _, lists, _, _ := c.state(); lists != 1 || strings.Count(a.asked(), "stream") != 1 {
				t.Errorf("%d lists have ended", lists)
			}
			after(pagedFor - time.Minute)
			if requests := a.asked(); strings.Contains(requests, "stream") {
				t.Errorf("within the hour: %s", requests)
			}
			a.locked(func() { a.endless, a.cut = false, false })
			after(pagedFor)
			if requests := a.asked(); !strings.Contains(requests, "stream") {
				t.Errorf("pages for ever: %s", requests)
			}
		})
	}
}

// A list on schedule is no gap until it takes long, from when the watch ended. A failure is one at
// once.
func TestIncompleteSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI("a")
		c := follow(t, a, streamed)
		after(time.Second)
		check := func(when string, want time.Duration) {
			t.Helper()
			var missing time.Duration
			if since := c.IncompleteSince(); !since.IsZero() {
				missing = time.Since(since)
			}
			if missing != want {
				t.Errorf("%s: incomplete for %s, want %s", when, missing, want)
			}
		}
		check("all is known", 0)
		a.locked(func() { a.endless = true })
		after(30 * time.Minute)
		check("within a minute", 0)
		after(time.Minute)
		check("a minute later", time.Minute+time.Second)
		after(maxStream)
		check("in pages", 0)
		a.locked(func() { a.noWatch = errors.New("no route") })
		a.end()
		after(time.Second)
		check("without a watch", time.Second)
	})
}
