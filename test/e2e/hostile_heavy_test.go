package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// heavy skips a test that only make test-full runs, since it takes minutes or gigabytes.
func heavy(t *testing.T) {
	t.Helper()
	if os.Getenv("HOSTILE") != "full" {
		t.Skip("set HOSTILE=full, as make test-full does")
	}
}

// crowded has so many annotations beside its own.
func crowded(count int) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations = crowd(j.Annotations, count) }
}

// usage is what a process has taken so far.
type usage struct {
	cpu  time.Duration
	peak int64 // bytes, since it was last reset
}

// measured reads a process's usage, and starts its peak again.
func (s *space) measured(pid int) usage {
	s.Helper()
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	s.ok(err)
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	var ticks int64
	for _, i := range []int{11, 12} { // utime and stime
		n, err := strconv.ParseInt(fields[i], 10, 64)
		s.ok(err)
		ticks += n
	}
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	s.ok(err)
	out := usage{cpu: time.Duration(ticks) * 10 * time.Millisecond}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			s.ok(err)
			out.peak = n << 10
		}
	}
	s.ok(os.WriteFile(filepath.Join(folder, "clear_refs"), []byte("5"), 0))
	return out
}

// What hostile requests cost Curfew is bounded, with much to spare: a quarter of the memory that its
// Deployment allows, and a second of processor time each. docs/sizing.md has the numbers.
func TestHostileCost(t *testing.T) {
	heavy(t)
	s := bounded(t)
	const times, mostCPU, mostMemory = 5, time.Second, 256 << 20
	dry := func(changes ...func(*batchv1.Job)) hostile {
		request := s.creation(s.jobsPath(), job("measured", changes...))
		request.path += "?dryRun=All"
		return request
	}
	bomb := hostile{method: http.MethodPost, path: "/apis/curfew.dev/v1alpha1/lifecyclepolicies?dryRun=All", body: fmt.Appendf(nil,
		`{"apiVersion":"curfew.dev/v1alpha1","kind":"LifecyclePolicy","metadata":{"name":"measured"},"spec":{"match":{"matchConditions":[{"name":"a","expression":%q}]},"defaults":{"ttl":{"value":"1h"}}}}`,
		bombs()["nested macros"])}
	for _, row := range []struct {
		what    string
		request hostile
		code    int
	}{
		{"a small Job", dry(), http.StatusCreated},
		{"a duration of 60 kB", dry(annotated(wellknown.AnnotationTTLFailed, strings.Repeat("1s", 30_000))), http.StatusForbidden},
		{"40,000 annotations", dry(crowded(40_000)), http.StatusCreated},
		{"80,000 annotations", dry(crowded(80_000)), http.StatusCreated},
		{"arguments of 1.2 MB, escaped sixfold", dry(filled(1_200_000)), http.StatusCreated},
		{"a CEL bomb in a LifecyclePolicy", bomb, http.StatusForbidden},
	} {
		s.send(row.request) // warm
		before := s.measured(suite.webhook.PID)
		for range times {
			if got := s.send(row.request); got.code != row.code {
				t.Errorf("%s: %s, want %d", row.what, got, row.code)
			}
		}
		after := s.measured(suite.webhook.PID)
		cpu := (after.cpu - before.cpu) / times
		t.Logf("note: %s: %d ms of CPU, a peak of %d MiB", row.what, cpu.Milliseconds(), after.peak>>20)
		if cpu > mostCPU || after.peak > mostMemory {
			t.Errorf("%s costs more than %s or %d MiB", row.what, mostCPU, mostMemory>>20)
		}
	}
}
