package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// apiServer is the process ID of the API server.
func (s *space) apiServer() int {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(suite.cluster.Dir, "cluster.json"))
	s.ok(err)
	var state struct {
		Components map[string]struct{ PID int }
	}
	s.ok(json.Unmarshal(data, &state))
	pid := state.Components["kube-apiserver"].PID
	if pid == 0 {
		s.Fatal("the cluster's state names no kube-apiserver")
	}
	return pid
}

// What each hostile request costs, beside a harmless one of its size.
// A hostile one may cost the API server not much more, and Curfew only so much.
func TestHostileCost(t *testing.T) {
	heavy(t)
	s, plain := newSpace(t, wellknown.AnnotationMaxTTL, "7d"), newSpace(t)
	apiServer := s.apiServer()
	const times = 5
	note := func(size int) func(*batchv1.Job) { return annotated("example.com/note", strings.Repeat("x", size)) }
	plainArgs := func(size int) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("x", size)} }
	}
	dry := func(s *space, changes ...func(*batchv1.Job)) hostile {
		request := s.creation(s.jobsPath(), job("measured", changes...))
		request.path += "?dryRun=All"
		return request
	}
	bomb := hostile{method: http.MethodPost, path: "/apis/curfew.dev/v1alpha1/lifecyclepolicies?dryRun=All", body: []byte(fmt.Sprintf(
		`{"apiVersion":"curfew.dev/v1alpha1","kind":"LifecyclePolicy","metadata":{"name":"measured"},"spec":{"match":{"matchConditions":[{"name":"a","expression":%q}]},"defaults":{"ttl":{"value":"1h"}}}}`,
		bombs()["nested macros"]))}
	requests := []struct {
		what    string
		request hostile
	}{
		{"a small Job", dry(s)},
		{"harmless: an annotation of 60 kB", dry(s, note(60_000))},
		{"a duration of 60 kB", dry(s, annotated(wellknown.AnnotationTTLFailed, strings.Repeat("1s", 30_000)))},
		{"harmless: an annotation of 200 kB", dry(s, note(200_000))},
		{"40,000 annotations", dry(s, crowded(40_000))},
		{"80,000 annotations", dry(s, crowded(80_000))},
		{"40,000 annotations, namespace without Curfew", dry(plain, crowded(40_000))},
		{"80,000 annotations, namespace without Curfew", dry(plain, crowded(80_000))},
		{"harmless: arguments of 1.2 MB", dry(s, plainArgs(1_200_000))},
		{"arguments of 1.2 MB, escaped sixfold", dry(s, filled(1_200_000))},
		{"harmless: arguments of 2.9 MB", dry(s, plainArgs(2_900_000))},
		{"arguments of 2.9 MB, escaped sixfold", dry(s, filled(2_900_000))},
		{"a CEL bomb in a LifecyclePolicy", bomb},
	}
	type cost struct {
		code              int
		took              time.Duration
		apiServer, curfew usage
	}
	measure := func(request hostile) cost {
		s.send(request) // warm
		before, webhook := s.measured(apiServer), s.measured(suite.webhook.PID)
		from := time.Now()
		var got reply
		for range times {
			got = s.send(request)
		}
		out := cost{got.code, time.Since(from) / times, s.measured(apiServer), s.measured(suite.webhook.PID)}
		out.apiServer.cpu, out.curfew.cpu = (out.apiServer.cpu-before.cpu)/times, (out.curfew.cpu-webhook.cpu)/times
		return out
	}
	var with, without []cost
	for _, one := range requests {
		with = append(with, measure(one.request))
	}
	func() {
		defer s.withoutWebhooks()()
		for _, one := range requests {
			without = append(without, measure(one.request))
		}
	}()
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintf(table, "| request\t| size\t| answer\t| time\t| API server CPU\t| without Curfew\t| Curfew CPU\t| Curfew memory, peak\t|\n|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|\n")
	for i, one := range requests {
		fmt.Fprintf(table, "| %s\t| %.1f kB\t| %d\t| %s\t| %d ms\t| %d ms\t| %d ms\t| %d MiB\t|\n", one.what, float64(len(one.request.body))/1e3, with[i].code,
			with[i].took.Round(time.Millisecond), with[i].apiServer.cpu.Milliseconds(), without[i].apiServer.cpu.Milliseconds(), with[i].curfew.cpu.Milliseconds(), with[i].curfew.peak>>20)
	}
	s.ok(table.Flush())
	t.Logf("\n%s", &text)
	if path := os.Getenv("HOSTILE_TABLE"); path != "" {
		s.ok(os.WriteFile(path, text.Bytes(), 0o644))
	}
}

// withoutWebhooks takes Curfew's webhook configurations away, and answers with what brings them
// back.
func (s *space) withoutWebhooks() (restore func()) {
	s.Helper()
	s.ok(suite.controller.Stop(s.ctx)) // it would write its own again
	registered := suite.cluster.Client.AdmissionregistrationV1()
	mutating, err := registered.MutatingWebhookConfigurations().List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	for i := range mutating.Items {
		s.ok(registered.MutatingWebhookConfigurations().Delete(s.ctx, mutating.Items[i].Name, metav1.DeleteOptions{}))
	}
	validating, err := registered.ValidatingWebhookConfigurations().List(s.ctx, metav1.ListOptions{})
	s.ok(err)
	for i := range validating.Items {
		s.ok(registered.ValidatingWebhookConfigurations().Delete(s.ctx, validating.Items[i].Name, metav1.DeleteOptions{}))
	}
	probe := s.creation(s.jobsPath()+"?dryRun=All", job("probe", native(tooLong)))
	s.poll("no webhook to be called", func(context.Context) (bool, error) { return !s.send(probe).refused(), nil })
	return func() {
		s.Helper()
		s.ok(suite.webhook.Stop(s.ctx))
		s.ok(startWebhook(s.ctx, suite.webhook.WebhookPort))
		s.ok(startController(s.ctx))
	}
}
