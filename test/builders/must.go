package builders

import "testing"

// Must ends a test that cannot go on after an error.
func Must(t testing.TB, errs ...error) {
	for _, err := range errs {
		if t.Helper(); err != nil {
			t.Fatal(err)
		}
	}
}
