package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// large is a Job that breaks a rule, with so many characters that the API server writes in six.
func large(t *testing.T, characters int) []byte {
	t.Helper()
	object := map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a", "namespace": "bounded"},
		"spec": map[string]any{"ttlSecondsAfterFinished": 864000, "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "a", "args": []any{strings.Repeat("<", characters)}}}}}}}
	raw, err := json.Marshal(object)
	must(t, err)
	// The uid comes first, as the API server writes it.
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: "bounded",
			Kind: metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, Object: kruntime.RawExtension{Raw: raw}}})
	must(t, err)
	return body
}

// S9: what controller-runtime reads is reviewed, and what is larger is denied.
func TestLargeObjectsAreReviewed(t *testing.T) {
	w := newWorld(t)
	for _, characters := range []int{10, 1 << 20, 1_220_000} {
		status, review := w.post(t, PathValidate, large(t, characters))
		if result := review.Response.Result; status != http.StatusOK || review.Response.Allowed || !strings.Contains(result.Message, "864000 (10d) is above curfew.dev/max-ttl 7d") {
			t.Errorf("%d characters: HTTP %d, %+v", characters, status, result)
		}
	}
	if w.webhooks.Busy() {
		t.Error("still busy")
	}
}

// What could not be reviewed is denied: an HTTP error would be left to the failure policy, which
// lets it pass. A denial without the UID would be ignored.
func TestUnreviewedObjectsAreDenied(t *testing.T) {
	stalled := func() io.Reader {
		return io.MultiReader(strings.NewReader(string(large(t, 10)[:300])), iotest.ErrReader(os.ErrDeadlineExceeded))
	}
	for name, test := range map[string]struct {
		memory, taken int64
		body          io.Reader
		length        int64
		code          int32
		says          string
	}{
		"no memory":      {memory: 1 << 30, taken: 1 << 29, body: bytes.NewReader(large(t, 10)), code: 429, says: "try again in a second"},
		"too large":      {memory: 1 << 30, body: bytes.NewReader(large(t, 6_000_000)), code: 413, says: "more than 7340031 bytes"},
		"by one byte":    {memory: 1 << 30, body: io.MultiReader(bytes.NewReader(large(t, 10)), strings.NewReader(strings.Repeat(" ", 7<<20))), length: 7 << 20, code: 413, says: "more than 7340031 bytes"},
		"unannounced":    {memory: 1 << 30, body: io.MultiReader(bytes.NewReader(large(t, 10)), strings.NewReader(strings.Repeat(" ", 7<<20))), length: -1, code: 400, says: "is not a complete"},
		"a small limit":  {memory: 8 << 20, body: bytes.NewReader(large(t, 1<<16)), code: 413, says: "larger than curfew has memory to review"},
		"no whole body":  {memory: 1 << 30, body: stalled(), length: 1000, code: 400, says: "is not a complete"},
		"of no UID, 429": {memory: 1 << 30, taken: 1 << 29, body: strings.NewReader("{}")},
	} {
		for _, path := range []string{PathValidate, PathMutate} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := serving(t, func(o *Options) { o.Memory = test.memory })
					if !w.webhooks.load.memory.TryAcquire(test.taken) {
						t.Fatal("not as much memory")
					}
					body := test.body
					if again, ok := body.(io.Seeker); ok {
						_, _ = again.Seek(0, io.SeekStart)
					} else if path == PathMutate {
						return // read to its end before
					}
					request := httptest.NewRequest(http.MethodPost, path, body)
					request.Header.Set("Content-Type", "application/json")
					if test.length != 0 {
						request.ContentLength = test.length
					}
					recorder, began := httptest.NewRecorder(), time.Now()
					w.mux.ServeHTTP(recorder, request)
					var review admissionv1.AdmissionReview
					if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
						t.Fatalf("answered with %s", recorder.Body)
					}
					out, outcome := review.Response, "throttled"
					if test.code == 0 {
						if recorder.Code != http.StatusTooManyRequests || out.UID != "" {
							t.Errorf("HTTP %d, UID %q; want a failed call", recorder.Code, out.UID)
						}
						return
					}
					if recorder.Code != http.StatusOK || out.Allowed || out.UID != "u" || out.Result.Code != test.code || !strings.Contains(out.Result.Message, test.says) {
						t.Fatalf("HTTP %d, uid %q, allowed %v, %+v", recorder.Code, out.UID, out.Allowed, out.Result)
					}
					if test.code == 429 && (out.Result.Details.RetryAfterSeconds != 1 || out.Result.Reason != "TooManyRequests" || time.Since(began) != reviewTimeout) {
						t.Errorf("details %+v, reason %s, after %s", out.Result.Details, out.Result.Reason, time.Since(began))
					}
					if test.code == 400 {
						outcome = "invalid"
					}
					if got := w.reviews(t, path[1:], "other", "other", outcome); got != 1 {
						t.Errorf("%v %s reviews counted, want 1", got, outcome)
					}
				})
			})
		}
	}
}

// However many large reviews wait, small ones are answered meanwhile.
func TestLargeReviewsLeaveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t)
		l := w.webhooks.load
		if !l.take(t.Context(), l.reach) {
			t.Fatal("no memory")
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			go l.take(ctx, l.reach)
		}
		synctest.Wait()
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodPost, PathValidate, bytes.NewReader(large(t, 10)))
		request.Header.Set("Content-Type", "application/json")
		began := time.Now()
		w.mux.ServeHTTP(recorder, request)
		if text := recorder.Body.String(); !strings.Contains(text, "is above curfew.dev/max-ttl") || time.Since(began) > 0 {
			t.Errorf("answered after %s with %s", time.Since(began), text)
		}
		cancel()
		synctest.Wait()
		if l.give(l.reach); !l.memory.TryAcquire(l.room) || !l.large.TryAcquire(l.reach) {
			t.Error("memory is held that nobody has")
		}
	})
}

// A review that gets its memory late is no failed call, which would let the object pass.
func TestLateReviewsAreDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &namespaces{cached: map[string]map[string]string{"bounded": nil}, takes: 200 * time.Millisecond}
		w := serving(t, func(o *Options) { o.Namespaces = slow })
		l := w.webhooks.load
		if !l.memory.TryAcquire(l.room) {
			t.Fatal("no memory")
		}
		time.AfterFunc(reviewTimeout-100*time.Millisecond, func() { l.memory.Release(l.room) })
		request, recorder := httptest.NewRequest(http.MethodPost, PathValidate, bytes.NewReader(large(t, 10))), httptest.NewRecorder()
		request.Header.Set("Content-Type", "application/json")
		w.mux.ServeHTTP(recorder, request)
		if text := recorder.Body.String(); recorder.Code != http.StatusOK || !strings.Contains(text, `"code":429`) || !strings.Contains(text, `"uid":"u"`) {
			t.Errorf("HTTP %d, %s; want a denial to be tried again", recorder.Code, text)
		}
	})
}

// A review waits for memory that becomes free in time, and is decided whether or not its caller
// or the server stops.
func TestReviewsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t)
		l := w.webhooks.load
		if !l.memory.TryAcquire(l.room) || !w.webhooks.Busy() {
			t.Fatal("not busy")
		}
		ctx, cancel := context.WithCancel(t.Context())
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, PathValidate, bytes.NewReader(large(t, 10)))
		request.Header.Set("Content-Type", "application/json")
		go w.mux.ServeHTTP(recorder, request)
		synctest.Wait()
		cancel()
		l.memory.Release(l.room)
		synctest.Wait()
		if text := recorder.Body.String(); !strings.Contains(text, "is above curfew.dev/max-ttl") {
			t.Errorf("answered with %s", text)
		}
	})
}

// A body that is announced and does not come holds its memory for 3.5 seconds, also behind what
// controller-runtime's server puts around a handler.
func TestSilentCallersAreDenied(t *testing.T) {
	t.Parallel()
	w := serving(t)
	around := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	w.webhooks.Register(around.Register)
	server := httptest.NewTLSServer(around.WebhookMux())
	defer server.Close()
	body, writer := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+PathValidate, body)
	must(t, err)
	request.ContentLength = 1 << 20
	request.Header.Set("Content-Type", "application/json")
	go func() { _, _ = writer.Write(large(t, 10)[:300]) }()
	defer time.AfterFunc(3*reviewTimeout, func() { writer.CloseWithError(errors.New("no answer to half a body")) }).Stop()
	defer writer.Close()
	response, err := server.Client().Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), `"code":429`) || !strings.Contains(string(text), `"uid":"u"`) {
		t.Errorf("HTTP %d, %s, %v; want a denial to be tried again", response.StatusCode, text, err)
	}
	if !w.webhooks.load.memory.TryAcquire(w.webhooks.load.room) {
		t.Error("the memory is still held")
	}
}

// dense are objects that take much more memory than text.
func dense(size int) map[string]string {
	repeat := func(part string) string { return strings.TrimSuffix(strings.Repeat(part, size/len(part)), ",") }
	var names strings.Builder
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, `"%x":0,`, i)
	}
	return map[string]string{
		"empty objects":   `{"a":[` + repeat(`{},`) + `]}`,
		"empty lists":     `{"a":[` + repeat(`[],`) + `]}`,
		"numbers":         `{"a":[` + repeat(`0,`) + `]}`,
		"large numbers":   `{"a":[` + repeat(`1234567,`) + `]}`,
		"strings":         `{"a":[` + repeat(`"",`) + `]}`,
		"small objects":   `{"a":[` + repeat(`{"":0},`) + `]}`,
		"small lists":     `{"a":[` + repeat(`[0],`) + `]}`,
		"nested":          `{"a":[` + repeat(`[[[{"":{"":{}}}]]],`) + `]}`,
		"nine members":    `{"a":[` + repeat(`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0},`) + `]}`,
		"names":           `{` + strings.TrimSuffix(names.String(), ",") + `}`,
		"a thousand deep": `{"a":[` + repeat(strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+",") + `]}`,
		"long text":       `{"a":"` + strings.Repeat("x", size) + `"}`,
	}
}

// TestGrowth: no review takes more memory than it waits for, from its body to its facts.
func TestGrowth(t *testing.T) {
	for name, object := range dense(1 << 20) {
		body := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","namespace":"plain","object":` + object + `}}`
		var before, after runtime.MemStats
		w := serving(t)
		hook := &admission.Webhook{Handler: admission.HandlerFunc(func(ctx context.Context, review admission.Request) admission.Response {
			decoded, err := w.webhooks.decode(ctx, &review)
			if err != nil {
				t.Error(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(decoded)
			return untouched()
		})}
		request := httptest.NewRequest(http.MethodPost, PathValidate, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		runtime.GC()
		runtime.GC() // what finalizers of other tests free
		runtime.ReadMemStats(&before)
		hook.ServeHTTP(httptest.NewRecorder(), request)
		took := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / float64(len(body))
		t.Logf("%s: %.1f times", name, took)
		if took > growth {
			t.Errorf("%s: takes %.1f times its text, more than %d", name, took, growth)
		}
	}
	if review := int64(maxReview) * growth; review > newLoad(1<<30/10*9, nil, logr.Discard()).reach {
		t.Errorf("one review of 7 MiB waits for %d MiB, more than the shipped limit of 1Gi has for reviews", review>>20)
	}
}
