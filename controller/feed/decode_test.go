package feed

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func TestDecodeObject(t *testing.T) {
	got, err := decodeObject([]byte(`{"metadata":{"name":"n","managedFields":[{"a":1}]},"spec":{"whole":3,"half":0.5,"metadata":{"managedFields":[1]}}}`))
	want := map[string]any{"metadata": map[string]any{"name": "n"},
		"spec": map[string]any{"whole": int64(3), "half": 0.5, "metadata": map[string]any{"managedFields": []any{int64(1)}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v (%v), want %#v", got, err, want)
	}
	for _, data := range []string{``, `[]`, `1`, `{`, `{"a":1}{}`} {
		if got, err := decodeObject([]byte(data)); err == nil {
			t.Errorf("%s is %v, want an error", data, got)
		}
	}
}

// A watch over HTTP brings what the dynamic client's own would, however the events are written,
// with errors as errors.
func TestWatchByLines(t *testing.T) {
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
	client, err := NewObjects(&rest.Config{Host: server.URL, WrapTransport: Buffer})
	must(t, err)
	runs := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"})
	body = `{"type":"ADDED","object":` + object("a", `,"spec":{"n":1,"x":0.5,"big":"`+big+`"}`) + "}\n" +
		`{ "type": "MODIFIED", "object": ` + object("b", "") + " }\n" +
		`{"object":` + object("c", "") + `,"type":"DELETED"}` + "\n" +
		`{"type":"BOOKMARK","object":{"kind":"Run","apiVersion":"example.com/v1","metadata":{"resourceVersion":"8","creationTimestamp":null}}}` + "\n" +
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}` + "\n"
	events, err := runs.Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
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
		must(t, err)
		for event := range events.ResultChan() {
			if event.Type != watch.Error {
				t.Errorf("%s: event %s %v, want an error alone", name, event.Type, event.Object)
			}
		}
		events.Stop()
	}
	list, err := runs.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "a" || list.GetResourceVersion() != "9" {
		t.Errorf("the list is %v (%v)", list, err)
	}
	if obj, err := runs.Namespace("ci").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || obj.GetName() != "a" {
		t.Errorf("one is %v (%v)", obj, err)
	}
	if _, err := runs.Namespace("ci").Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsForbidden(err) || err.Error() != "no" {
		t.Errorf("a forbidden GET returns %v, want the error \"no\", still recognized as Forbidden", err)
	}
}
