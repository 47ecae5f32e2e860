package main

import (
	"maps"
	"os"
	"testing"
)

// The page has a row for each part, and what render writes results reads.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	last := results(string(text))
	if got := render(string(text), last); got != string(text) {
		t.Errorf("%s does not have the rows of parts.go; it should be\n%s", page, got)
	}
	last["soak"] = result{passed, "1 January 2026", "abcdef12", "3m0s"}
	delete(last, "race")
	changed := render(string(text), last)
	if got := results(changed); !maps.Equal(got, last) {
		t.Errorf("read %v, want %v", got, last)
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(parts) {
		t.Errorf("%d parts, %v", len(all), err)
	}
	if some, err := choose([]string{"race", "soak"}); err != nil || len(some) != 2 || some[0].name != "race" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose([]string{"sook"}); err == nil {
		t.Error("an unknown part is no error")
	}
}
