package wire

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`

// reviews are AdmissionReviews, good and bad.
var reviews = []string{
	head + `,"request":{"uid":"u","operation":"CREATE","kind":{"group":"batch","version":"v1","kind":"Job"},"resource":{"group":"batch","version":"v1","resource":"jobs"},"namespace":"ci","name":"a","userInfo":{"username":"ann","groups":["a","b"],"extra":{"k":["v"]}},"object":{"kind":"Job"}}}`,
	head + `,"request":{"uid":"u","operation":"UPDATE","subResource":"status","object":{"a":1},"oldObject":{"a":2},"options":{"x":[]},"dryRun":true}}`,
	head + `,"request":{"uid":"u","operation":"DELETE","object":null,"oldObject":{"a":2}},"response":null}`,
	head + `,"request":{"uid":"u","userInfo":null,"kind":null,"resource":null,"name":null,"object":{"metadata":null}}}`,
	head + `,"request":{"uid":"u\n\u0041","userInfo":{"username":"\u0061"},"object":{"metadata":{"managedFields":[{}]}}}}`,
	head + `,"request":{"uid":"u","object":{"a":1},"object":{"b":2}}}`, head + `,"request":{"uid":"u"},"request":{"uid":"v"}}`,
	head + `}`, head + `,"request":null}`, head + `,"request":{}}`, head + `,"request":[]}`, head + `,"request":"x"}`, head, head + `,"request":{"uid":7}}`,
	head + `,"request":{"uid":"u","object":[]}}`, head + `,"request":{"uid":"u","object":"x"}}`, head + `,"request":{"uid":"u","kind":7}}`, head + `,"request":{"uid":"u","kind":{"kind":7}}}`,
	head + `,"request":{"uid":"u","userInfo":[]}}`, head + `,"request":{"uid":"u","userInfo":{"username":{}}}}`, head + `,"request":{"uid":"u"}} x`, head + `,"request":{"uid":"u","object":{"a":}}}`,
	`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}`, `{"kind":"Pod","apiVersion":"v1"}`, `{"kind":7}`, `{"apiVersion":["admission.k8s.io/v1"]}`, `[]`, `null`, `hello`, ``,
}

// agrees holds a parsed review against what the API's own types make of the text.
func agrees(t *testing.T, text string) {
	t.Helper()
	have, err := Parse(text)
	if err != nil {
		if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 4096 && len(text) < 1024 {
			t.Fatalf("the error is %q", err)
		}
		return
	}
	var want admissionv1.AdmissionReview
	if err := utiljson.Unmarshal([]byte(text), &want); err != nil {
		// Fields that Curfew does not read may have any shape, but the objects are JSON.
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is taken for a review, and is no JSON: %v", text, err)
		}
		return
	}
	request := want.Request
	if request == nil {
		t.Fatalf("%q has no request", text)
	}
	if want.APIVersion != "admission.k8s.io/v1" || want.Kind != "AdmissionReview" || have.UID != string(request.UID) || have.Operation != string(request.Operation) ||
		have.Kind != request.Kind || have.Resource != request.Resource || have.SubResource != request.SubResource ||
		have.Namespace != request.Namespace || have.Name != request.Name || have.Username != request.UserInfo.Username {
		t.Fatalf("%q:\ngot  %+v\nwant %+v", text, have, request)
	}
	if user, err := have.UserInfo(); err != nil || !reflect.DeepEqual(user, request.UserInfo) {
		t.Fatalf("%q: user %+v, %v; want %+v", text, user, err, request.UserInfo)
	}
	for _, object := range []struct {
		have Object
		want []byte
	}{{have.Object, request.Object.Raw}, {have.Old, request.OldObject.Raw}} {
		if raw := string(object.want); object.have.Raw != raw && !(raw == "" && object.have.Raw == "null") {
			t.Fatalf("%q: object %s, want %s", text, object.have.Raw, raw)
		}
		var fields map[string]any
		if len(object.want) > 0 {
			if err := utiljson.Unmarshal(object.want, &fields); err != nil {
				t.Fatal(err)
			}
		}
		if metadata, ok := fields["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
		}
		if !reflect.DeepEqual(object.have.Fields, fields) {
			t.Fatalf("%q:\ngot  %#v\nwant %#v", text, object.have.Fields, fields)
		}
	}
}

func TestParse(t *testing.T) {
	captured, err := os.ReadFile("../testdata/review-job.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(reviews, string(captured)) {
		agrees(t, text)
	}
	for i, text := range reviews {
		if _, err := Parse(text); (err == nil) != (i < 5) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// Cut off anywhere, it is no review.
	for n := range len(captured) - 1 {
		if _, err := Parse(string(captured[:n])); err == nil {
			t.Fatalf("the first %d bytes of %d are taken for the whole", n, len(captured))
		}
	}
}

// FuzzParse: Parse reads each review that it accepts as the API's own types read it.
func FuzzParse(f *testing.F) {
	for _, text := range reviews {
		f.Add(text)
	}
	if captured, err := os.ReadFile("../testdata/review-job.json"); err == nil {
		f.Add(string(captured))
	}
	f.Fuzz(agrees)
}
