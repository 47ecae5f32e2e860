package wire

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	kjson "sigs.k8s.io/json"
)

// dense are objects that take much more memory than text.
func dense(size int) map[string]string {
	repeat := func(part string) string { return strings.TrimSuffix(strings.Repeat(part, size/len(part)), ",") }
	names := func(format string) string {
		var out strings.Builder
		for i := 0; out.Len() < size; i++ {
			fmt.Fprintf(&out, format, i)
		}
		return strings.TrimSuffix(out.String(), ",")
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
		"names":           `{` + names(`"%x":0,`) + `}`,
		"annotations":     `{"metadata":{"annotations":{` + names(`"k%x":"v",`) + `}}}`,
		"long text":       `{"a":"` + strings.Repeat("x", size) + `"}`,
		"escaped text":    `{"a":"` + strings.Repeat(`\u003c`, size/6) + `"}`,
		"a thousand deep": `{"a":[` + repeat(strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+",") + `]}`,
	}
}

// Weigh is never below what decoding a review takes, and not far above what it takes at worst.
func TestWeigh(t *testing.T) {
	for name, object := range dense(1 << 20) {
		text := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":` + object + `}}`
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		review, err := Parse(text)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took := int64(after.HeapAlloc) - int64(before.HeapAlloc) + int64(len(text))
		runtime.KeepAlive(review)
		weight := Weigh(text)
		t.Logf("%s: %d MB of text take %d MB once decoded, weighed %d MB", name, len(text)>>20, took>>20, weight>>20)
		if weight < took || weight > 6*took+1<<20 {
			t.Errorf("%s: %d bytes once decoded, weighed %d", name, took, weight)
		}
	}
}

// S9: unknown members are skipped. A parser that compares each with all before it takes 64 times as
// long for eight times as many.
func TestManyUnknownMembers(t *testing.T) {
	took := func(members int) time.Duration {
		var text strings.Builder
		text.WriteString(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{`)
		for i := range members {
			fmt.Fprintf(&text, `"%06x":0,`, i)
		}
		text.WriteString(`"uid":"u"}}`)
		began := time.Now()
		if review, err := Parse(text.String()); err != nil || review.UID != "u" {
			t.Errorf("got %v, error %v; want the review with UID u", review, err)
		}
		return time.Since(began)
	}
	// The fastest of some: other processes on the machine only add to the time.
	few, many := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for try := 0; try < 2 || try < 10 && many > 30*few; try++ {
		few, many = min(few, took(50_000)), min(many, took(400_000))
	}
	if many > 30*few {
		t.Errorf("50,000 members take %s, and eight times as many %s", few, many)
	}
}

func TestUID(t *testing.T) {
	whole := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5","kind":{"group":"x"},"object":{"a":[`
	for text, want := range map[string]string{
		whole: "705ab4f5", whole[:80]: "", `{"request":{"name":"a","uid":"b"}}`: "b", `{"request":null}`: "", `{"request":{"uid":7}}`: "",
		`[`: "", ``: "", `{"request":{"object":{"uid":"a"},"uid":"b"`: "b", `{"request":{"uid":"b`: "",
	} {
		if got := UID(text); string(got) != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// An object may be as deep as the API server takes it, and the review around it does not count.
func TestDepthOfObjects(t *testing.T) {
	for depth, fits := range map[int]bool{9_999: true, 10_000: true, 10_001: false} {
		object := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
		review, err := Parse(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":` + object + `,"oldObject":` + object + `}}`)
		if (err == nil) != fits {
			t.Errorf("%d deep: %v", depth, err)
		}
		var theirs any
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(object), &theirs); (err == nil) != fits {
			t.Errorf("%d deep: the API server says %v", depth, err)
		}
		if fits && (review.Object.Raw != object || review.Old.Fields == nil) {
			t.Errorf("%d deep: not read", depth)
		}
	}
}
