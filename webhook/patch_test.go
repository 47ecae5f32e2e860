package webhook

import (
	"cmp"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"

	"curfew.dev/curfew/policy/resolution"
)

func set(value any, path ...string) resolution.Assignment {
	return resolution.Assignment{Path: path, Value: value}
}

func TestPatchFor(t *testing.T) {
	for name, test := range map[string]struct {
		object      string
		assignments []resolution.Assignment
		patch, err  string
	}{
		"nothing":                        {object: `{}`},
		"equal, number":                  {object: `{"a":{"b":1}}`, assignments: []resolution.Assignment{set(int64(1), "a", "b")}},
		"equal, text":                    {object: `{"a":{"b":"1"}}`, assignments: []resolution.Assignment{set("1", "a", "b")}},
		"another type":                   {object: `{"a":{"b":"1"}}`, assignments: []resolution.Assignment{set(int64(1), "a", "b")}, patch: `[{"op":"replace","path":"/a/b","value":1}]`},
		"a list there":                   {object: `{"a":{"b":[1]}}`, assignments: []resolution.Assignment{set("1", "a", "b")}, patch: `[{"op":"replace","path":"/a/b","value":"1"}]`},
		"zero":                           {object: `{"a":{}}`, assignments: []resolution.Assignment{set(int64(0), "a", "b")}, patch: `[{"op":"add","path":"/a/b","value":0}]`},
		"empty text":                     {object: `{"a":{}}`, assignments: []resolution.Assignment{set("", "a", "b")}, patch: `[{"op":"add","path":"/a/b","value":""}]`},
		"large number":                   {object: `{"a":{"b":9007199254740993}}`, assignments: []resolution.Assignment{set(int64(9007199254740993), "a", "b")}},
		"at the root":                    {object: `{}`, assignments: []resolution.Assignment{set("x", "a")}, patch: `[{"op":"add","path":"/a","value":"x"}]`},
		"escaped":                        {object: `{"m":{"a~b":{}}}`, assignments: []resolution.Assignment{set("x", "m", "a~b", "c/d~e")}, patch: `[{"op":"add","path":"/m/a~0b/c~1d~0e","value":"x"}]`},
		"parents once":                   {object: `{}`, assignments: []resolution.Assignment{set("x", "a", "b", "c"), set("y", "a", "b", "d"), set("z", "a", "e")}, patch: `[{"op":"add","path":"/a","value":{"b":{"c":"x","d":"y"},"e":"z"}}]`},
		"a parent in a created one":      {object: `{"a":{}}`, assignments: []resolution.Assignment{set("x", "a", "b", "c"), set("y", "a", "b", "d", "e")}, patch: `[{"op":"add","path":"/a/b","value":{"c":"x","d":{"e":"y"}}}]`},
		"null parent":                    {object: `{"a":null}`, assignments: []resolution.Assignment{set("x", "a", "b")}, patch: `[{"op":"add","path":"/a","value":{"b":"x"}}]`},
		"removed":                        {object: `{"a":{"b":"c"}}`, assignments: []resolution.Assignment{set(nil, "a", "b")}, patch: `[{"op":"remove","path":"/a/b"}]`},
		"removed null":                   {object: `{"a":{"b":null}}`, assignments: []resolution.Assignment{set(nil, "a", "b")}, patch: `[{"op":"remove","path":"/a/b"}]`},
		"removed, not there":             {object: `{"a":{}}`, assignments: []resolution.Assignment{set(nil, "a", "b")}},
		"removed, parent not there":      {object: `{}`, assignments: []resolution.Assignment{set(nil, "a", "b", "c")}},
		"parent of a wrong shape":        {object: `{"a":"x"}`, assignments: []resolution.Assignment{set("y", "a", "b")}, err: `/a is string and not an object, so that a.b cannot be set`},
		"path through a list":            {object: `{"a":[]}`, assignments: []resolution.Assignment{set("y", "a", "*", "b")}, err: `"a[*].b" leads to no single field`},
		"no path":                        {object: `{}`, assignments: []resolution.Assignment{set("y")}, err: `"" leads to no single field`},
		"set and then taken out of ours": {object: `{}`, assignments: []resolution.Assignment{set("x", "a", "b"), set("y", "a", "c"), set(nil, "a", "b")}, patch: `[{"op":"add","path":"/a","value":{"c":"y"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var fields map[string]any
			must(t, json.Unmarshal([]byte(test.object), &fields))
			operations, err := patchFor(fields, test.assignments)
			if message(err) != test.err {
				t.Fatalf("error %q, want %q", message(err), test.err)
			}
			patch, err := json.Marshal(operations)
			must(t, err)
			if string(patch) != cmp.Or(test.patch, "null") {
				t.Errorf("patch\n%s\nwant\n%s", patch, test.patch)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
