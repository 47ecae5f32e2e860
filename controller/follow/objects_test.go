package follow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A list is read one item after the other, and no further than a bound.
func TestEachObject(t *testing.T) {
	item := func(i int, fill string) string {
		return fmt.Sprintf(`{"metadata":{"name":"a%d"},"spec":{"n":5,"fill":%q}}`, i, fill)
	}
	for name, test := range map[string]struct {
		body  string
		code  int
		count int
		more  bool
		fails bool
	}{
		"some":           {body: `{"apiVersion":"v1","items":[` + item(1, "") + "," + item(2, "") + `],"kind":"List","metadata":{"resourceVersion":"7"}}`, count: 2},
		"there are more": {body: `{"metadata":{"continue":"x"},"items":[` + item(1, "") + `]}`, count: 1, more: true},
		"none":           {body: `{"items":[]}`},
		"cut off":        {body: `{"items":[` + item(1, "") + `,{"meta`, count: 1, fails: true},
		"too large":      {body: `{"items":[` + item(1, "") + "," + item(2, strings.Repeat("x", eachBytes)) + "," + item(3, "") + `]}`, count: 1, fails: true},
		"no list":        {body: `{"items":{"a":"b"}}`, fails: true},
		"forbidden":      {body: `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`, code: http.StatusForbidden, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.String()
				w.Header().Set("Content-Type", "application/json")
				if test.code != 0 {
					w.WriteHeader(test.code)
				}
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			objects, err := NewObjects(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			more, err := objects.Each(t.Context(), schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}, "ml", func(object map[string]any) {
				if n := object["spec"].(map[string]any)["n"]; n != int64(5) {
					t.Errorf("a number was read as %T", n)
				}
				count++
			})
			if (err != nil) != test.fails || more != test.more || count != test.count {
				t.Errorf("%d objects, more %t, %v; want %+v", count, more, err, test.count)
			}
			if want := "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs?limit=500"; asked != want {
				t.Errorf("asked for %s, want %s", asked, want)
			}
		})
	}
}
