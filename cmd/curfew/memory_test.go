package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTrim(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	garbage := make([]byte, 64<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	runtime.KeepAlive(garbage)
	var full, trimmed runtime.MemStats
	runtime.ReadMemStats(&full)
	trim("100")
	runtime.ReadMemStats(&trimmed)
	if held, was := trimmed.HeapSys-trimmed.HeapReleased, full.HeapSys-full.HeapReleased; held+60<<20 > was {
		t.Errorf("%d MB are held, and %d MB were with 64 MB of garbage", held>>20, was>>20)
	}
	if percent := debug.SetGCPercent(100); percent != 100 {
		t.Errorf("GOGC=100 became %d", percent)
	}
	trim("")
	if percent := debug.SetGCPercent(100); percent != gcPercent {
		t.Errorf("without GOGC it is %d, want %d", percent, gcPercent)
	}
}

// Feeds call it while they stream.
func TestGiveBackDoesNotBlock(t *testing.T) {
	give := giveBack(t.Context())
	for range 1000 {
		give(worthwhile)
	}
}
