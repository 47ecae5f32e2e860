package watch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/json"
)

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// through is the status and the body of an answer that has come through a Cap.
func through(t *testing.T, ctx context.Context, url string, body io.Reader, status int) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := Cap(trip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(body)}, nil
	})).RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if int64(len(text)) != response.ContentLength {
		t.Errorf("%d bytes, and the length is %d", len(text), response.ContentLength)
	}
	return response.StatusCode, string(text), err
}

func keeping(paths ...string) func([]string) bool {
	return func(path []string) bool {
		return slices.ContainsFunc(paths, func(want string) bool {
			return strings.Count(want, ".") == len(path)-1 && strings.Join(path, ".") == want
		})
	}
}

func TestFields(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
		keep       []string
		status     int
		limit      string
	}{
		"scalars":             {text: `{"a":1,"b":"<","c":true,"d":null,"e":1.5}`, keep: []string{"a", "b", "d", "e"}, want: `{"a":1,"b":"<","d":null,"e":1.5}`},
		"large numbers":       {text: `{"a":9007199254740993}`, keep: []string{"a"}, want: `{"a":9007199254740993}`},
		"below":               {text: `{"a":{"b":{"c":1,"d":2}},"e":{"c":1}}`, keep: []string{"a.b.c"}, want: `{"a":{"b":{"c":1}}}`},
		"through lists":       {text: `{"a":[{"b":1},{"c":1},[{"b":2}],{"b":3}]}`, keep: []string{"a.*.b"}, want: `{"a":[{"b":1},{"b":3}]}`},
		"not what is in it":   {text: `{"a":{"b":1},"c":[1,{"d":2}],"e":{}}`, keep: []string{"a", "c", "e"}, want: `{"a":{},"c":[],"e":{}}`},
		"nothing":             {text: `{"a":1}`, want: `{}`},
		"a list":              {text: `{"kind":"L","items":[{"a":1,"b":2},{"b":1}]}`, keep: []string{"kind", "a"}, want: `{"kind":"L","items":[{"a":1},{}]}`},
		"an empty list":       {text: `{"kind":"L","items":[]}`, want: `{"items":[]}`},
		"an error":            {text: `{"reason":"NotFound"}`, status: http.StatusNotFound, want: `{"reason":"NotFound"}`},
		"more than is kept":   {text: `{"a":"` + strings.Repeat("x", maxKept) + `"}`, keep: []string{"a"}, status: http.StatusRequestEntityTooLarge},
		"too many":            {text: `{"a":[` + strings.Repeat(`1,`, maxKept/valueBytes) + `1]}`, keep: []string{"a.*"}, status: http.StatusRequestEntityTooLarge},
		"too deep":            {text: strings.Repeat(`{"a":`, maxDepth+1) + `1` + strings.Repeat(`}`, maxDepth+1), status: http.StatusRequestEntityTooLarge},
		"more than may be":    {text: `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, status: http.StatusRequestEntityTooLarge},
		"a page of one":       {text: `{"items":[{"a":"` + strings.Repeat("x", 1<<20) + `"}]}`, limit: "?limit=1", want: `{"items":[{}]}`},
		"a page that is kept": {text: `{"items":[{"a":"` + strings.Repeat("x", maxKept) + `"}]}`, keep: []string{"a"}, limit: "?limit=1", want: `{"items":[{"a":"` + strings.Repeat("x", maxKept) + `"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := Bound(Fields(t.Context(), keeping(test.keep...)), 1<<20)
			if test.limit != "" {
				ctx, _ = Measure(ctx)
			}
			answered := http.StatusOK
			if test.status == http.StatusNotFound {
				answered = test.status
			}
			status, text, err := through(t, ctx, "http://api/"+test.limit, strings.NewReader(test.text), answered)
			if err != nil || status != max(test.status, http.StatusOK) {
				t.Fatalf("status %d, %v: %.200s", status, err, text)
			}
			var got, want any
			if test.want != "" && (json.UnmarshalCaseSensitivePreserveInts([]byte(text), &got) != nil || json.UnmarshalCaseSensitivePreserveInts([]byte(test.want), &want) != nil || !equality.Semantic.DeepEqual(got, want)) {
				t.Errorf("got %.200s, want %.200s", text, test.want)
			}
		})
	}
	for _, text := range []string{"", "{", `{"a"}`, `{"a":[1`, "no"} {
		if _, body, err := through(t, Bound(Fields(t.Context(), keeping("a")), 1<<20), "http://api/", strings.NewReader(text), http.StatusOK); err == nil {
			t.Errorf("%q is answered with %q", text, body)
		}
	}
}

// What is left out takes no memory while it is read, beside its text.
func TestFieldsTakeLittleMemory(t *testing.T) {
	body := []byte(`{"a":[{}` + strings.Repeat(`,{}`, 600_000) + `],"b":1}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := prune(body, keeping("b"), maxKept)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 5*uint64(len(body)) || string(text) != `{"b":1}` || err != nil {
		t.Errorf("%s, %v with %d MB for %d MB of text", text, err, took>>20, len(body)>>20)
	}
}

// slowBody is an answer of which the first part is there, and the rest after a second.
type slowBody struct {
	left int
	open *atomic.Int64
	most *atomic.Int64
}

func (b *slowBody) Read(data []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	if b.left < 1<<20 { // The budget has a part for it.
		now := b.open.Add(1)
		for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
		}
		<-time.After(time.Second)
		b.open.Add(-1)
		b.left = 0
		return 0, io.EOF
	}
	n := min(len(data), b.left-1<<20+1)
	b.left -= n
	return n, nil
}

// Large answers take turns; small ones do not wait for them. One that waits ends with its context.
func TestLargeAnswersShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int64
		ctx := Bound(t.Context(), 8<<20)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if status, _, err := through(t, ctx, "http://api/", &slowBody{1<<20 + small, &open, &most}, http.StatusOK); err != nil || status != http.StatusOK {
					t.Errorf("status %d, %v", status, err)
				}
			})
		}
		synctest.Wait()
		if got := open.Load(); got != budgetBytes/(8<<20) {
			t.Errorf("%d large answers are read at the same time, want %d", got, budgetBytes/(8<<20))
		}
		began := time.Now()
		if status, text, err := through(t, ctx, "http://api/", strings.NewReader("small"), http.StatusOK); err != nil || status != http.StatusOK || text != "small" || time.Since(began) > 0 {
			t.Errorf("status %d, %q, %v after %v; want a small answer at once", status, text, err, time.Since(began))
		}
		measured, _ := Measure(ctx)
		if _, _, err := through(t, measured, "http://api/", strings.NewReader(strings.Repeat("x", 1<<20)), http.StatusOK); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v; want a page at once: who lists holds it longer than the budget could", err, time.Since(began))
		}
		ended, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, _, err := through(t, ended, "http://api/", strings.NewReader(strings.Repeat("x", 1<<20)), http.StatusOK); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that of the context", err)
		}
		group.Wait()
		if most.Load() != budgetBytes/(8<<20) {
			t.Errorf("up to %d at the same time", most.Load())
		}
	})
}
