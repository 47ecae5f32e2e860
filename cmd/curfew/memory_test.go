package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// gogc reads what is set.
func gogc() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}

// restoreGOGC sets at the end what was set before.
func restoreGOGC(t *testing.T) {
	before := gogc()
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

func TestTrim(t *testing.T) {
	restoreGOGC(t)
	debug.SetGCPercent(100)
	garbage := make([]byte, 64<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	runtime.KeepAlive(garbage)
	var full, trimmed runtime.MemStats
	runtime.ReadMemStats(&full)
	(&pacer{percent: gcAtFirst}).trim()
	runtime.ReadMemStats(&trimmed)
	if held, was := trimmed.HeapSys-trimmed.HeapReleased, full.HeapSys-full.HeapReleased; held+60<<20 > was {
		t.Errorf("%d MB are held, and %d MB were with 64 MB of garbage", held>>20, was>>20)
	}
	if percent := gogc(); percent != 100 {
		t.Errorf("it became %d where nobody follows", percent)
	}
}

// The more is in use, the less garbage there may be beside it, and after a long list less than
// before.
func TestPace(t *testing.T) {
	restoreGOGC(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := &pacer{percent: gcAtFirst}
	p.follow(ctx)
	kept := make([]byte, 200<<20)
	await := func(what string, holds func(percent int) bool) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); !holds(gogc()); {
			if time.Now().After(until) {
				t.Fatalf("%s it is %d", what, gogc())
			}
			runtime.GC() // finalizers run soon after it
		}
	}
	await("before any list, with 200 MB in use,", func(percent int) bool { return percent == gcAtFirst })
	p.trim()
	await("after one", func(percent int) bool { return percent == gcPercent })
	runtime.KeepAlive(kept)
	await("with hardly anything in use", func(percent int) bool { return percent > gcAtFirst })
	cancel()
	runtime.GC()
	runtime.GC()
}

func TestGrowth(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 8 << 20: 200, 16 << 20: 100, 32 << 20: gcPercent, 1 << 40: gcPercent} {
		if got := growth(live, gcPercent); got != want {
			t.Errorf("%d MiB in use: %d%%, want %d%%", live>>20, got, want)
		}
	}
	if got := growth(64<<20, gcAtFirst); got != gcAtFirst {
		t.Errorf("before a long list: %d%%, want %d%%", got, gcAtFirst)
	}
}

func TestGOGCIsLeftAlone(t *testing.T) {
	restoreGOGC(t)
	t.Setenv("GOGC", "7")
	debug.SetGCPercent(7)
	ctx, cancel := context.WithCancel(t.Context())
	giveBack(ctx)
	cancel()
	runtime.GC()
	if percent := gogc(); percent != 7 {
		t.Errorf("GOGC=7 became %d", percent)
	}
}

func TestGOGCIsSetFromTheStart(t *testing.T) {
	restoreGOGC(t)
	t.Setenv("GOGC", "")
	debug.SetGCPercent(7)
	ctx, cancel := context.WithCancel(t.Context())
	giveBack(ctx)
	cancel()
	if percent := gogc(); percent < gcAtFirst {
		t.Errorf("without GOGC it is %d", percent)
	}
}

// Feeds call it while they stream.
func TestGiveBackDoesNotBlock(t *testing.T) {
	t.Setenv("GOGC", "100")
	give := giveBack(t.Context())
	for range 1000 {
		give(worthwhile)
	}
}

func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "memory")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, test := range map[string]struct {
		environment string
		files       []string
		want        int64
	}{
		"v2":                  {files: []string{file("1073741824\n")}, want: 1073741820 / 10 * 9},
		"v1":                  {files: []string{"/none", file("536870912\n")}, want: 536870910 / 10 * 9},
		"none":                {files: []string{file("max\n")}},
		"none, v1":            {files: []string{file("9223372036854771712\n")}},
		"no container":        {files: []string{"/none"}},
		"GOMEMLIMIT is known": {environment: "1GiB", files: []string{file("1073741824\n")}},
	} {
		t.Setenv("GOMEMLIMIT", test.environment)
		debug.SetMemoryLimit(math.MaxInt64)
		limitMemory(test.files)
		if got := memoryLimit(); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
