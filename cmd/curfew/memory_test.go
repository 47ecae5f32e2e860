package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/synctest"
)

// gogc reads the runtime's GOGC.
func gogc() int {
	read := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(read)
	return int(read[0].Value.Uint64())
}

// restoreGOGC sets at the end what was set before.
func restoreGOGC(t *testing.T) {
	before := gogc()
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

func TestTrim(t *testing.T) {
	for environment, want := range map[string]int{"": gcPercent, "7": 7} {
		restoreGOGC(t)
		t.Setenv("GOGC", environment)
		debug.SetGCPercent(7)
		garbage := make([]byte, 64<<20)
		for i := range garbage {
			garbage[i] = 1
		}
		runtime.KeepAlive(garbage)
		var full, trimmed runtime.MemStats
		runtime.ReadMemStats(&full)
		trim()
		runtime.ReadMemStats(&trimmed)
		if held, was := trimmed.HeapSys-trimmed.HeapReleased, full.HeapSys-full.HeapReleased; held+60<<20 > was {
			t.Errorf("%d MB are held, and %d MB were with 64 MB of garbage", held>>20, was>>20)
		}
		if percent := gogc(); percent != want {
			t.Errorf("with GOGC=%s in the environment it became %d, want %d", environment, percent, want)
		}
	}
}

// A short list is not worth a collection. Feeds call it while they stream, so it never blocks.
func TestOnlyLongListsTrim(t *testing.T) {
	restoreGOGC(t)
	t.Setenv("GOGC", "")
	debug.SetGCPercent(7)
	synctest.Test(t, func(t *testing.T) {
		give := giveBack(t.Context())
		give(worthwhile - 1)
		synctest.Wait()
		if percent := gogc(); percent != 7 {
			t.Errorf("after a short list it became %d", percent)
		}
		for range 1000 {
			give(worthwhile)
		}
		synctest.Wait()
		if percent := gogc(); percent != gcPercent {
			t.Errorf("after long lists it is %d, want %d", percent, gcPercent)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "memory")
		must(t, os.WriteFile(name, []byte(text), 0o600))
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
