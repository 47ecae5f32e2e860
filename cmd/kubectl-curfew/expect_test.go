package main

import (
	"reflect"
	"strings"
	"testing"

	"curfew.dev/curfew/test/builders"
)

// These functions fail a test unless a value is as wanted. what names the value.

func expectExit(t *testing.T, what string, have, want int, output string) {
	t.Helper()
	if have != want {
		t.Errorf("%s: exit status is %d, want %d\n%s", what, have, want, output)
	}
}

func expectSame[T any](t *testing.T, what string, have, want T) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s is\n%+v\nwant\n%+v", what, have, want)
	}
}

func expectCount[T any](t *testing.T, what string, have []T, want int) {
	t.Helper()
	if len(have) != want {
		t.Errorf("%s: there are %d, want %d: %+v", what, len(have), want, have)
	}
}

// expectPart wants a part in a text, or wants that it is not there.
func expectPart(t *testing.T, what, text, part string, want bool) {
	t.Helper()
	if have := strings.Contains(text, part); have != want {
		t.Errorf("%s contains %q: %t, want %t\n%s", what, part, have, want, text)
	}
}

func expectStart(t *testing.T, what, text, start string) {
	t.Helper()
	if !strings.HasPrefix(text, start) {
		t.Errorf("%s is %q, want that it begins with %q", what, text, start)
	}
}

func expectEnd(t *testing.T, what, text, end string) {
	t.Helper()
	if !strings.HasSuffix(text, end) {
		t.Errorf("%s is %q, want that it ends with %q", what, text, end)
	}
}

var must = builders.Must
