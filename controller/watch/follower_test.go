package watch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

func every(d time.Duration) func(*Options) { return func(o *Options) { o.Relist = d } }

// A watch goes on where the last one ended, by its events and bookmarks. Small kinds are listed
// again instead.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI("a", "b")
		c := follow(t, a, every(time.Hour))
		c.expect(t, a, "at first", "a b", "list, watch 12")
		a.locked(func() { a.listed = c.Wake })
		c.Again()
		c.expect(t, a, "woken up during a list", "a b", "list, watch 12")
		a.put("c")
		a.write("a", watch.Deleted, true)
		a.end(watch.Event{Type: watch.Bookmark, Object: &object{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "14"}}})
		c.expect(t, a, "after events", "b c", "watch 14")
		a.locked(func() { a.version = 19 })
		a.end()
		c.expect(t, a, "after a bookmark", "b c", "watch 20")
		if _, lists, changes, marked := c.state(); marked != "20" || !c.Following() || changes != 1 || lists != 2 {
			t.Errorf("bookmark %q, following %t, %d changes, %d lists; want 20, one change and two lists", marked, c.Following(), changes, lists)
		}

		b := newAPI("a")
		small := follow(t, b, nil)
		small.expect(t, b, "at first", "a", "list, watch 11")
		b.put("b")
		b.end()
		synctest.Wait()
		if small.Following() {
			t.Error("following without a watch")
		}
		after(time.Second)
		small.expect(t, b, "a small kind", "a b", "list, watch 13")
	})
}

// S3: what a watch did not show is found by the list on schedule, which waits for no watch.
func TestListsOnSchedule(t *testing.T) {
	for name, broken := range map[string]error{
		"open watch": nil, "watch that fails": apierrors.NewInternalError(errors.New("broken")), "no answer": errors.New("connection reset"),
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a", "b")
			c := follow(t, a, every(5*time.Minute))
			synctest.Wait()
			if a.locked(func() { a.noWatch = broken }); broken != nil {
				a.end()
			}
			a.write("a", watch.Deleted, false)
			a.write("c", watch.Added, false)
			after(4 * time.Minute)
			if requests := a.asked(); strings.Count(requests, "list") != 1 || c.Following() != (broken == nil) || (c.Err() != nil) != (broken != nil) {
				t.Errorf("after four minutes: %s, following %t, %v", requests, c.Following(), c.Err())
			}
			a.locked(func() { a.noWatch = nil })
			after(2 * time.Minute)
			a.asked()
			c.expect(t, a, "after six minutes", "b c", "")
		})
	}
}

// S3: a watch that cannot go on begins again with a list, and so does one that shows an error, or an
// object that cannot be handled. A missing permission keeps the place: an API server that has just
// started may not have read its roles.
func TestWatchThatCannotGoOn(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	for name, test := range map[string]struct {
		noWatch error
		last    []watch.Event
		fails   error
		lists   bool
	}{
		"it is too old when it is opened": {noWatch: expired, lists: true},
		"it is too old":                   {last: []watch.Event{{Type: watch.Error, Object: &expired.ErrStatus}}, lists: true},
		"an unknown event":                {last: []watch.Event{{Type: "PAUSED", Object: &object{}}}, lists: true},
		"an object that cannot be judged": {fails: errors.New("the namespace cannot be read"), lists: true},
		"a missing permission":            {noWatch: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))},
		"an overloaded API server":        {noWatch: apierrors.NewTooManyRequests("busy", 1)},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a", "b")
			c := follow(t, a, every(time.Hour))
			after(time.Minute)
			a.asked()
			a.write("a", watch.Deleted, false)
			a.locked(func() { a.noWatch = test.noWatch })
			c.locked(func() { c.fails = test.fails })
			if test.fails != nil {
				a.put("c")
			}
			a.end(test.last...)
			synctest.Wait()
			if c.Following() {
				t.Error("following without a watch")
			}
			a.locked(func() { a.noWatch = nil })
			after(time.Second)
			if requests := a.asked(); strings.Contains(requests, "list") != test.lists || !c.Following() || c.Err() != nil {
				t.Errorf("%s, following %t, %v; want a list: %t", requests, c.Following(), c.Err(), test.lists)
			}
			if known, _, _, _ := c.state(); (known["a"] != "") == test.lists {
				t.Errorf("known is %v", known)
			}
		})
	}
}

// S3: a list that fails ends nothing. It is tried again, less and less often.
func TestListThatFails(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	for name, test := range map[string]struct {
		noList, begin, object error
		least, most           int // requests in two minutes
	}{
		"an answer":             {noList: apierrors.NewInternalError(errors.New("broken")), least: 10, most: 25},
		"no answer":             {noList: errors.New("connection refused"), least: 25, most: 75},
		"a permission":          {noList: forbidden, least: 8, most: 14},
		"not found, by a proxy": {noList: notFound, least: 8, most: 14},
		"it cannot begin":       {begin: errors.New("no")},
		"an object":             {object: errors.New("no")},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a")
			c := follow(t, a, every(time.Hour))
			after(time.Minute)
			a.asked()
			a.locked(func() { a.noList = test.noList })
			c.locked(func() { c.failsToBegin, c.fails = test.begin, test.object })
			a.write("a", watch.Deleted, false)
			a.write("b", watch.Added, false)
			c.Again()
			synctest.Wait()
			if known, lists, _, _ := c.state(); known["a"] == "" || lists != 1 || c.Following() {
				t.Errorf("known is %v after %d lists, following %t", known, lists, c.Following())
			}
			after(2 * time.Minute)
			requests := strings.Count(a.asked(), "list")
			if test.noList != nil && (requests < test.least || requests > test.most) {
				t.Errorf("%d requests in two minutes, want %d to %d", requests, test.least, test.most)
			}
			a.locked(func() { a.noList = nil })
			c.Wake()
			after(3 * time.Second) // A page may be on its way.
			a.asked()
			c.expect(t, a, "in the end", "b", "")
			if c.Wake(); !c.Following() {
				t.Error("not following")
			}
			c.expect(t, a, "woken up while nothing is missing", "b", "")
		})
	}
}

// Only a kind that is surely not served has no objects.
func TestKindThatIsNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		unserved bool
		err      error
		known    string
	}{
		"not served":        {unserved: true},
		"served":            {known: "a"},
		"that is not known": {unserved: true, err: errors.New("CRDs cannot be listed"), known: "a"},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a")
			c := follow(t, a, func(o *Options) { o.Unserved = func(context.Context) (bool, error) { return test.unserved, test.err } })
			synctest.Wait()
			a.locked(func() { a.noList = notFound })
			a.end()
			after(time.Minute)
			a.asked()
			c.expect(t, a, "after 404s", test.known, "")
			a.locked(func() { a.noList = nil })
			c.Wake()
			synctest.Wait()
			if a.asked(); !c.Following() {
				t.Error("not following in the end")
			}
			c.expect(t, a, "in the end", "a", "")
		})
	}
}

// Calls of Again are gathered, whatever becomes of the watch meanwhile.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, gather := newAPI("a"), 10*time.Second
		c := follow(t, a, func(o *Options) { o.Relist, o.Gather = time.Hour, func() time.Duration { return gather } })
		synctest.Wait()
		a.asked()
		for range 5 {
			c.Again()
			after(time.Second)
		}
		a.end()
		c.expect(t, a, "so far", "a", "watch 12")
		after(6 * time.Second)
		c.expect(t, a, "ten seconds after the first call", "a", "list, watch 12")
		after(time.Minute)
		c.expect(t, a, "later", "a", "")
		a.locked(func() { a.noList = apierrors.NewInternalError(errors.New("broken")) })
		c.Again()
		after(11 * time.Second)
		a.asked()
		for range 1000 {
			c.Again()
			after(10 * time.Millisecond)
		}
		if requests := strings.Count(a.asked(), "list"); requests > 5 {
			t.Errorf("%d lists in ten seconds, while they fail", requests)
		}
	})
}

// Watches that end at once are opened, and lists that cannot be watched from are read, less and less
// often.
func TestWatchesThatEndAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		relist  time.Duration
		noWatch error
		most    int // requests a minute
	}{
		"a watch without events": {relist: time.Hour, most: 15},
		"a small kind":           {most: 30},
		"a list that is too old": {relist: time.Hour, noWatch: apierrors.NewResourceExpired("too old"), most: 30},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newAPI("a")
			a.closed, a.noWatch = true, test.noWatch
			follow(t, a, every(test.relist))
			after(time.Minute)
			if requests := strings.Count(a.asked(), ",") + 1; requests < 5 || requests > test.most {
				t.Errorf("%d requests in a minute", requests)
			}
		})
	}
}
