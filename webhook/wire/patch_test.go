package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// checked compares our result of a patch with the result of the API server's patch library, or
// rather of that library's next version.
func checked(t *testing.T, raw string, patch []Operation) error {
	t.Helper()
	object := Object{Raw: raw}
	err := object.Applies(patch)
	text, writing := AppendPatch(nil, patch)
	if writing != nil {
		t.Fatal(writing)
	}
	decoded, reading := jsonpatch.DecodePatch(text)
	if reading != nil {
		t.Fatalf("%s is no patch: %v", text, reading)
	}
	if _, applying := decoded.Apply([]byte(raw)); (applying == nil) != (err == nil) {
		t.Fatalf("%s to %s: %v, the library says %v", text, raw, err, applying)
	}
	return err
}

func TestApplies(t *testing.T) {
	const object = `{"a":{"b":{"c":1},"l":[{"x":1}],"n":null,"s":"x"},"a~b":{"c/d":1},"twice":{"x":1},"twice":{"y":{}},"last":{"z":1}}`
	add := func(value any, path ...string) []Operation { return []Operation{{Op: "add", Path: path, Value: value}} }
	for name, test := range map[string]struct {
		patch []Operation
		err   string
	}{
		"nothing":                    {},
		"a new member":               {patch: add("v", "new")},
		"a new member below":         {patch: add(int64(7), "a", "b", "new")},
		"a member that is there":     {patch: add("v", "a", "b")},
		"over null":                  {patch: add("v", "a", "n")},
		"a map":                      {patch: add(map[string]any{"q": "r", "p": map[string]any{"n": int64(1)}}, "a", "m")},
		"escaped":                    {patch: add("v", "a~b", "c/d")},
		"the later of two holds":     {patch: add("v", "twice", "y", "z")},
		"the former of two does not": {patch: add("v", "twice", "x", "z"), err: "add /twice/x/z: a part of the path is not there"},
		"no parent":                  {patch: add("v", "b", "c"), err: "add /b/c: a part of the path is not there"},
		"no parent below":            {patch: add("v", "a", "q", "c"), err: "add /a/q/c: a part of the path is not there"},
		"a parent that is null":      {patch: add("v", "a", "n", "c"), err: "'n' stands where an object should be at byte 36"},
		"a parent that is text":      {patch: add("v", "a", "s", "c"), err: "'\"' stands where an object should be at byte 45"},
		"replace":                    {patch: []Operation{{Op: "replace", Path: []string{"a", "s"}, Value: "y"}}},
		"replace nothing":            {patch: []Operation{{Op: "replace", Path: []string{"a", "q"}, Value: "y"}}, err: "replace /a/q: a part of the path is not there"},
		"remove":                     {patch: []Operation{{Op: "remove", Path: []string{"a", "b", "c"}}}},
		"remove nothing":             {patch: []Operation{{Op: "remove", Path: []string{"a", "b", "d"}}}, err: "remove /a/b/d: a part of the path is not there"},
		"remove nothing at all":      {patch: []Operation{{Op: "remove", Path: []string{"q"}}}, err: "remove /q: a part of the path is not there"},
		"two, one of them bad": {patch: []Operation{{Op: "add", Path: []string{"last", "q"}, Value: "y"}, {Op: "remove", Path: []string{"last", "y"}}},
			err: "remove /last/y: a part of the path is not there"},
		"two in one parent": {patch: []Operation{{Op: "add", Path: []string{"last", "q"}, Value: "y"}, {Op: "remove", Path: []string{"last", "z"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := checked(t, object, test.patch)
			if have := message(err); have != test.err {
				t.Errorf("got  %s\nwant %s", have, test.err)
			}
		})
	}
	if err := (&Object{Raw: `{}`}).Applies([]Operation{{Op: "add", Value: "x"}}); err == nil {
		t.Error("a patch may replace the whole object")
	}
	if err := (&Object{Raw: `[]`}).Applies(add("v", "a")); err == nil {
		t.Error("a list is taken for an object")
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzApplies holds that a patch of one operation applies where it is said to.
func FuzzApplies(f *testing.F) {
	f.Add(`{"a":{"b":1}}`, uint8(0), "a/b")
	f.Add(`{"a":{"b":null},"a":{"c":{}}}`, uint8(1), "a/c")
	f.Add(`{"a~/":{"":{}}}`, uint8(2), "a~//")
	f.Add(`{"a":[{}]}`, uint8(0), "a/0/b")
	f.Fuzz(func(t *testing.T, raw string, op uint8, path string) {
		fields, err := Decode(raw)
		if err != nil || fields == nil {
			return
		}
		names := strings.Split(path, "/")
		if throughList(fields, names) || slices.Contains(names, "") || !utf8.ValidString(path) {
			return // A JSON Pointer may lead into lists and to members without a name, or of a name that is no text. Curfew's do not.
		}
		patch := []Operation{{Op: []string{"add", "remove", "replace"}[op%3], Path: names, Value: path}}
		_ = checked(t, raw, patch)
	})
}

func throughList(at any, names []string) bool {
	for _, name := range names {
		switch value := at.(type) {
		case []any:
			return true
		case map[string]any:
			at = value[name]
		default:
			return false
		}
	}
	return false
}

func TestAppendPatch(t *testing.T) {
	patch := []Operation{
		{Op: "add", Path: []string{"metadata", "annotations", "curfew.dev/ttl~source"}, Value: "namespace/\"é\u2028<x>\x7f"},
		{Op: "replace", Path: []string{"spec", "n"}, Value: int64(-5)},
		{Op: "add", Path: []string{"m"}, Value: map[string]any{"b": "c", "a": map[string]any{}}},
		{Op: "remove", Path: []string{"x"}},
		{Op: "add", Path: []string{"other"}, Value: []any{1.5, true}},
	}
	text, err := AppendPatch([]byte("#"), patch)
	if err != nil {
		t.Fatal(err)
	}
	want := `#[{"op":"add","path":"/metadata/annotations/curfew.dev~1ttl~0source","value":"namespace/\"é\u2028\u003cx\u003e` + "\x7f" + `"},` +
		`{"op":"replace","path":"/spec/n","value":-5},{"op":"add","path":"/m","value":{"a":{},"b":"c"}},{"op":"remove","path":"/x"},{"op":"add","path":"/other","value":[1.5,true]}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if _, err := AppendPatch(nil, []Operation{{Op: "add", Path: []string{"a"}, Value: func() {}}}); err == nil {
		t.Error("what JSON cannot say is written")
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\n\x00é\xff\u2028<>&")
	f.Fuzz(func(t *testing.T, text string) {
		written := appendString(nil, text)
		var have, want string
		if err := json.Unmarshal(written, &have); err != nil {
			t.Fatalf("%s is no JSON: %v", written, err)
		}
		library, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(library, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("%s reads as %q, want %q", written, have, want)
		}
	})
}
