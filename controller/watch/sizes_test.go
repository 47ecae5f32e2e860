package watch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// An API server with small objects, then large ones, then small ones again: all are listed, no page
// is held that has more than some megabytes, and pages grow where objects are small.
func TestPagesAreBoundedByBytes(t *testing.T) {
	const total = 3000
	texts := map[bool]string{false: strings.Repeat("x", 100), true: strings.Repeat("x", 1<<20)}
	requests, largest := 0, int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		next := ""
		if from+limit < total {
			next = strconv.Itoa(from + limit)
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":%q},"items":[`, next)
		for i := from; i < min(total, from+limit); i++ {
			if i > from {
				_, _ = fmt.Fprint(w, ",")
			}
			if _, err := fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c%d"},"data":{"a":"%s"}}`, i, texts[i >= 1000 && i < 1008]); err != nil {
				return
			}
		}
		_, _ = fmt.Fprint(w, "]}")
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(Cap)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	sizes, seen, options, most := NewSizes(50, 500), 0, metav1.ListOptions{}, int64(0)
	for {
		options.Limit = sizes.Next()
		most = max(most, options.Limit)
		ctx, size := Measure(t.Context())
		page, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("ci").List(ctx, options)
		if sizes.TooLarge(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, *size)
		for i := range page.Items {
			if want := fmt.Sprintf("c%d", seen+i); page.Items[i].GetName() != want {
				t.Fatalf("%s, want %s", page.Items[i].GetName(), want)
			}
		}
		seen += len(page.Items)
		sizes.Took(len(page.Items), *size, 0)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if seen != total || largest > maxBytes || most != 500 || requests > 150 {
		t.Errorf("%d objects in %d requests, the largest page has %d bytes, the longest %d objects", seen, requests, largest, most)
	}
}

func TestSizes(t *testing.T) {
	s := NewSizes(50, 500)
	for i, c := range []struct {
		objects int
		bytes   int64
		spent   time.Duration
		next    int64
	}{
		{50, 5_000, 0, 100},
		{100, 10_000, time.Millisecond, 200},
		{200, 2 * goodBytes, 0, 100},
		{100, 1000, 10 * time.Second, 10},
		{10, 1000, time.Minute, 1},
		{0, 1000, 0, 1},
		{1, 10 * goodBytes, 0, 1},
		{1, 100, 0, 2},
	} {
		if s.Took(c.objects, c.bytes, c.spent); s.Next() != c.next {
			t.Errorf("%d: %d, want %d", i, s.Next(), c.next)
		}
	}
}
