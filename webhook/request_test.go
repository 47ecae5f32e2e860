package webhook

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
)

// FuzzManagedFields: an object without its managedFields is the same whether they are cut out before
// or after it is decoded, and nothing else is cut.
func FuzzManagedFields(f *testing.F) {
	for _, text := range []string{
		`{"metadata":{"name":"a","managedFields":[{"f":{"}":["\"]"]}}],"labels":{"managedFields":"y"}},"spec":{"metadata":{"a":1,"managedFields":[2]}}}`,
		`{"metadata":{"managedFields":[1],"name":"a"}}`, `{"metadata":{"name":"a","managedFields":[1]}}`, `{"kind":"metadata","metadata":{"a":{"b":1,"managedFields":[1]}}}`,
		`{"metadata":{"a":1,"managedFields":[1],"managedFields":[2]}}`, `{"metadata":{"a":1},"metadata":{"b":1,"managedFields":[]}}`, `{"spec":[{"a":1,"managedFields":[1]}]}`,
		`{"metadata":{"a":",\"managedFields\":[","managedFields":null}}`, `{"a":"\\","metadata":{"b":1,"managedFields":[[],{}],"c":2}}`, `{"metadata":{"a":1 , "managedFields": [1]}}`,
		`{"spec":{"metadata":{"a":1},"managedFields":[1]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want, have map[string]any
		if json.Unmarshal([]byte(text), &want) != nil {
			return
		}
		if err := json.Unmarshal(withoutManagedFields([]byte(text)), &have); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, object := range []map[string]any{want, have} {
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("%s: got %v, want %v", text, have, want)
		}
	})
}
