package builders

import "testing"

// Must ends a test that cannot go on after an error.
func Must(t testing.TB, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}
