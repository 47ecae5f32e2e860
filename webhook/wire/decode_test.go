package wire

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Decode decodes one JSON object as k8s.io/apimachinery/pkg/util/json does: integers that fit
// become int64, other numbers float64. A null is a nil map.
func Decode(text string) (map[string]any, error) {
	s := scanner{text: text}
	if s.next() == 'n' {
		if _, err := s.literal(); err != nil {
			return nil, err
		}
		return nil, s.end()
	}
	out, err := s.object("")
	if err != nil {
		return nil, err
	}
	return out, s.end()
}

// texts are JSON and near-JSON of all sorts.
var texts = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":-0,"b":-1.5e3,"c":1E+2,"d":0.0}`, `{"a":9223372036854775807,"b":9223372036854775808,"c":-9223372036854775809}`,
	`{"a":null,"b":true,"c":false,"d":[],"e":[1,"2",[3],{"f":4}]}`, `{"a":{"b":{"c":{}}}}`, `{"a":1,"a":{"b":2},"a":{"c":3}}`,
	`{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00\ud83d\u0041\ude00"}`, `{"é":"日本","\u0061":"b"}`, "{\"a\":\"\xff\xc0\xaf\xed\xa0\x80\"}", "{\"a\":\"\u2028\x7f\"}",
	`null`, `nul`, `nullx`, `true`, `1`, `"a"`, `[]`, ``, ` `, `{`, `}`, `{]`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a" 1}`, `{a:1}`, `{'a':1}`,
	`{"a":01}`, `{"a":1.}`, `{"a":.1}`, `{"a":+1}`, `{"a":-}`, `{"a":1e}`, `{"a":1e+}`, `{"a":1e999}`, `{"a":-1e999}`, `{"a":1e-999}`, `{"a":NaN}`, `{"a":tru}`, `{"a":truex}`,
	`{"a":[1,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[1}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":"\u`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", `{"a":1}x`, `{"a":1} {}`, "\ufeff{}",
	"{\"a\":1}\x00", "{\x00}",
}

// sameAs holds a decoded object against what the library that everybody else uses makes of the same
// text.
func sameAs(t *testing.T, text string) {
	t.Helper()
	var want map[string]any
	wanted := utiljson.Unmarshal([]byte(text), &want)
	have, err := Decode(text)
	if (err == nil) != (wanted == nil) {
		t.Fatalf("%q: got %v, %v; the library %v, %v", text, have, err, want, wanted)
	}
	if err == nil && !reflect.DeepEqual(have, want) {
		t.Fatalf("%q: got %#v, the library %#v", text, have, want)
	}
}

func TestDecode(t *testing.T) {
	for _, text := range texts {
		sameAs(t, text)
	}
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	sameAs(t, deep(100))
	if _, err := Decode(deep(20000)); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Errorf("error %v, want one about deep nesting", err)
	}
	if _, err := Decode(strings.Repeat("[", 1<<20)); err == nil {
		t.Error("a million brackets are taken")
	}
}

// TestManagedFieldsAreLeftOut: the managedFields of the object are left out. A field of that name
// elsewhere stays.
func TestManagedFieldsAreLeftOut(t *testing.T) {
	const text = `{"metadata":{"name":"a","managedFields":[{"manager":"x"}],"labels":{"managedFields":"y"}},"managedFields":1,"spec":{"template":{"metadata":{"managedFields":[]}}}}`
	s := scanner{text: text}
	have, err := s.kubernetesObject()
	if err != nil {
		t.Fatal(err)
	}
	want, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	delete(want["metadata"].(map[string]any), "managedFields")
	if !reflect.DeepEqual(have, want) {
		t.Errorf("got  %v\nwant %v", have, want)
	}
	s = scanner{text: `{"metadata":{"managedFields":[{]}}`}
	if have, err := s.kubernetesObject(); err == nil {
		t.Errorf("a malformed managedFields is read as %v, want an error", have)
	}
}

// FuzzDecode holds that an object is decoded as k8s.io/apimachinery does.
func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	if captured, err := os.ReadFile("../testdata/review-job.json"); err == nil {
		f.Add(string(captured))
	}
	f.Fuzz(func(t *testing.T, text string) {
		sameAs(t, text)
		s := scanner{text: text}
		skipped := s.skip()
		if c := strings.TrimLeft(text, " \t\r\n"); skipped == nil && strings.ContainsAny(c[:1], "{[\"") {
			passed := scanner{text: text}
			passed.next()
			if passed.pass(); passed.at != s.at {
				t.Fatalf("%q: passed to %d, skipped to %d", text, passed.at, s.at)
			}
		}
		if skipped == nil {
			skipped = s.end()
		}
		if valid := json.Valid([]byte(text)); (skipped == nil) != valid {
			t.Fatalf("%q: skipped with %v; JSON: %v", text, skipped, valid)
		}
	})
}
