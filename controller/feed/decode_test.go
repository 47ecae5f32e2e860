package feed

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// documents are a little of everything that JSON can be, right and wrong.
var documents = []string{
	`{}`, ` { "a" : [ ] , "b":{ } } `, `{"a":[1,-1,0,-0,1.5,1e3,1E-2,9223372036854775807,9223372036854775808,-9223372036854775808]}`,
	`{"a":[true,false,null,"",[[]],[{}]]}`, `{"a":1,"a":2}`, `{"":{"":""}}`,
	`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é 😀"}`, `{"a":"\ud83d","b":"\ud83dx","c":"\ud83d\u0041","d":"\ude00"}`, "{\"a\":\"\xff\xc3\"}", `{"\u006b":1}`,
	``, `null`, `[]`, `1`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}}`, `{"a":1}{}`, `{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`,
	`{"a":-}`, `{"a":1e}`, `{"a":+1}`, `{"a":1e999}`, `{"a":nul}`, `{"a":tru}`, `{"a":"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u+123"}`, `{"a":"\`, "{\"a\":\"\n\"}",
	`{"a":[1}`, `{"a":[1,]}`, `{"a":{"b":1]}`, `{"a":NaN}`, `{"a":0x10}`, `{"a":1_000}`,
	`{"metadata":1,"managedFields":[1]}`, `{"spec":{"metadata":{"managedFields":[{"a":1}]}}}`, `{"metadata":{"inner":{"managedFields":[1]}}}`, `{"metadata":[{"managedFields":1}]}`,
}

// Whatever JSON there is, it means what it means to the rest of Kubernetes, but for metadata.managedFields.
func sameAsOthers(t *testing.T, data string) {
	t.Helper()
	var want map[string]any
	err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(data), &want)
	got, mine := decodeObject([]byte(data))
	if want == nil {
		err = errors.New("no object")
	}
	if metadata, ok := want["metadata"].(map[string]any); ok && mine == nil {
		delete(metadata, "managedFields")
	}
	if (err == nil) != (mine == nil) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%q is %#v (%v), want %#v (%v)", data, got, mine, want, err)
	}
}

func TestDecodeObject(t *testing.T) {
	for _, data := range documents {
		sameAsOthers(t, data)
	}
	sameAsOthers(t, `{"metadata":{"managedFields":[{"a":"}]\"","b":[{}]}, 1],"name":"n"}}`)
	sameAsOthers(t, strings.Repeat(`{"a":`, depthMost)+"1"+strings.Repeat("}", depthMost))
	sameAsOthers(t, strings.Repeat(`{"a":`, depthMost+1)+"1"+strings.Repeat("}", depthMost+1))
	for _, data := range []string{`{"metadata":{"managedFields":[`, `{"metadata":{"managedFields":["`, `{"metadata":{"managedFields":[{"a":1}]`, `{"metadata":{"managedFields":}}`} {
		if got, err := decodeObject([]byte(data)); err == nil {
			t.Errorf("%s is %v, want an error", data, got)
		}
	}
}

func FuzzDecodeObject(f *testing.F) {
	for _, data := range documents {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if strings.Contains(data, "managed") || strings.Contains(data, `\u00`) { // What is passed over is not looked at.
			return
		}
		sameAsOthers(t, data)
	})
}

// However the bytes come in and however long the lines are, each is handed on whole; what ends in the middle is no line.
func TestLines(t *testing.T) {
	long := strings.Repeat("0123456789", 3*bufferSize/10)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "by halves": iotest.HalfReader, "byte by byte": iotest.OneByteReader,
	} {
		reader := lines{}.NewFrameReader(io.NopCloser(wrap(strings.NewReader("a\n" + long + "\n\nb\ntorn"))))
		read := func(size int) (string, error) {
			out, data := "", make([]byte, size)
			for {
				n, err := reader.Read(data)
				out += string(data[:n])
				if err != io.ErrShortBuffer {
					return out, err
				}
			}
		}
		for i, want := range []string{"a\n", long + "\n", "\n", "b\n"} {
			if got, err := read(1000 * (i + 1)); got != want || err != nil {
				t.Errorf("%s: line %d has %d bytes (%v), want %d", name, i, len(got), err, len(want))
			}
		}
		if _, err := read(100); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: a line without an end is %v", name, err)
		}
		if _, err := read(100); err != io.EOF {
			t.Errorf("%s: the end is %v", name, err)
		}
	}
}

// A watch over HTTP brings what the dynamic client's own would, however the events are written, with errors as errors.
func TestWatchInOnePass(t *testing.T) {
	object := func(name, more string) string {
		return `{"apiVersion":"example.com/v1","kind":"Run","metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:x":{}}}],"name":"` + name + `","resourceVersion":"7"}` + more + `}`
	}
	big := strings.Repeat("x", 3*bufferSize)
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") == "true" && r.URL.Path == "/apis/example.com/v1/runs":
			fmt.Fprint(w, body)
		case r.URL.Path == "/apis/example.com/v1/runs":
			fmt.Fprint(w, `{"apiVersion":"example.com/v1","kind":"RunList","metadata":{"resourceVersion":"9"},"items":[`+object("a", "")+`]}`)
		case r.URL.Path == "/apis/example.com/v1/namespaces/ci/runs/a":
			fmt.Fprint(w, object("a", `,"spec":{"n":1}`))
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Forbidden","code":403}`)
		}
	}))
	defer server.Close()
	client, err := NewObjects(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	runs := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"})
	body = `{"type":"ADDED","object":` + object("a", `,"spec":{"n":1,"x":0.5,"big":"`+big+`"}`) + "}\n" +
		`{ "type": "MODIFIED", "object": ` + object("b", "") + " }\n" +
		`{"object":` + object("c", "") + `,"type":"DELETED"}` + "\n" +
		`{"type":"BOOKMARK","object":{"kind":"Run","apiVersion":"example.com/v1","metadata":{"resourceVersion":"8","creationTimestamp":null}}}` + "\n" +
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}` + "\n"
	events, err := runs.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var got []string
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("the error is %v", err)
			}
			continue
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%s came with a %T", event.Type, event.Object)
		}
		got = append(got, fmt.Sprint(event.Type, object.GetKind(), object.GetName(), object.GetResourceVersion()))
		if object.GetName() == "a" {
			want := map[string]any{"n": int64(1), "x": 0.5, "big": big}
			if !reflect.DeepEqual(object.Object["spec"], want) || object.GetManagedFields() != nil {
				t.Errorf("the first is %v", object.Object["metadata"])
			}
		}
	}
	if want := []string{"ADDEDRuna7", "MODIFIEDRunb7", "DELETEDRunc7", "BOOKMARKRun8"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, broken := range map[string]string{"no JSON": "{\"type\":\"ADDED\",\"object\":{\"kind\":}}\n", "torn": `{"type":"ADDED","object":{"kind":"Run"`, "no object": "{\"type\":\"ADDED\",\"object\":1}\n"} {
		body = broken
		events, err := runs.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for event := range events.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("%s: %s %v", name, event.Type, event.Object)
			}
		}
		events.Stop()
	}
	list, err := runs.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "a" || list.GetResourceVersion() != "9" {
		t.Errorf("the list is %v (%v)", list, err)
	}
	if one, err := runs.Namespace("ci").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || one.GetName() != "a" {
		t.Errorf("one is %v (%v)", one, err)
	}
	if _, err := runs.Namespace("ci").Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsForbidden(err) || err.Error() != "no" {
		t.Errorf("what is forbidden is %v", err)
	}
}
