package engine

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/servertime"
)

// drainServer answers DELETEs over TLS and HTTP/2 on loopback, after spinning for about as long as
// an API server works on one.
func drainServer(b *testing.B, work time.Duration) (*rest.Config, *atomic.Int64) {
	var n atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			_, _ = io.Copy(io.Discard, r.Body)
			for end := time.Now().Add(work); time.Now().Before(end); {
			}
			n.Add(1)
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"batch","kind":"jobs","uid":"u"}}`)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	b.Cleanup(srv.Close)
	return &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}}, QPS: -1}, &n
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDrain against a bare loop of parallel DELETEs by client-go. CURFEW_BENCH_WORK sets what
// the server burns.
func BenchmarkDrain(b *testing.B) {
	work := 300 * time.Microsecond
	if s := os.Getenv("CURFEW_BENCH_WORK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			b.Fatal(err)
		}
		work = d
	}
	report := func(b *testing.B, start time.Time, used time.Duration) {
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "deletes/s")
		b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/delete")
	}
	for _, parallel := range []int{8, 32} {
		b.Run(fmt.Sprintf("bare-%d", parallel), func(b *testing.B) {
			config, _ := drainServer(b, work)
			config.GroupVersion = &metav1.SchemeGroupVersion
			config.APIPath, config.NegotiatedSerializer = "/apis", scheme.Codecs.WithoutConversion()
			rc, err := rest.RESTClientFor(config)
			if err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			start, used := time.Now(), cpu()
			b.ResetTimer()
			for range parallel {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						policy := metav1.DeletePropagationBackground
						err := rc.Delete().AbsPath("/apis/batch/v1/namespaces/ci/jobs", fmt.Sprintf("j%d", i)).
							Body(&metav1.DeleteOptions{PropagationPolicy: &policy}).Do(context.Background()).Error()
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			report(b, start, used)
		})
	}
	for name, favour := range map[string]bool{"engine": false, "engine-favour-drain": true} {
		b.Run(name, func(b *testing.B) {
			config, n := drainServer(b, work)
			skew := servertime.NewSkew(clock.RealClock{})
			config.Wrap(skew.Wrap)
			client, err := deletion.NewClient(config)
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan struct{})
			var left atomic.Int64
			left.Store(int64(b.N))
			e, err := New(Options{Triggers: deletes(client), Skew: skew, Ping: client.Ping, FavourDrain: favour, observe: func(Outcome) {
				if left.Add(-1) == 0 {
					close(done)
				}
			}})
			if err != nil {
				b.Fatal(err)
			}
			k := KindOptions{Type: jobs, Trigger: "ttl"}
			k.Judge = func(context.Context, Entry) (Judgement, error) { return Judgement{Verdict: Gone}, nil }
			kind, err := e.RegisterKind(k)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for i := range b.N {
				e.Upsert(Entry{Kind: kind, Namespace: "ci", Name: fmt.Sprintf("j%d", i), UID: types.UID(randomUID(rng)), ResourceVersion: "12345", Expiry: time.Now(), Source: "namespace/ci"})
			}
			ctx, cancel := context.WithCancel(context.Background())
			start, used := time.Now(), cpu()
			b.ResetTimer()
			stopped := make(chan error, 1)
			go func() { stopped <- e.Run(ctx) }()
			<-done
			report(b, start, used)
			b.ReportMetric(float64(e.conc.Limit()), "limit")
			if n.Load() != int64(b.N) {
				b.Errorf("%d DELETEs for %d objects", n.Load(), b.N)
			}
			cancel()
			<-stopped
		})
	}
}
