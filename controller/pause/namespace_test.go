package pause_test

import (
	"net/http"
	"testing"

	"curfew.dev/curfew/controller/pause"
)

// configMap is an API server with one answer.
type configMap struct {
	code int
	body string
}

func (c configMap) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/api/v1/namespaces/curfew-system/configmaps/curfew-pause" {
		return answer(http.StatusInternalServerError, r.URL.Path), nil
	}
	return answer(c.code, c.body), nil
}

// TestOfNamespace: no ConfigMap is no pause, and what cannot be read is an error, which pauses.
func TestOfNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		answer configMap
		pauses int
		fails  bool
	}{
		"none":             {configMap{404, `{"kind":"Status","details":{"name":"curfew-pause"}}`}, 0, false},
		"one":              {configMap{200, `{"kind":"ConfigMap","data":{"reason":"x"}}`}, 1, false},
		"one that ended":   {configMap{200, `{"kind":"ConfigMap","data":{"until":"2000-01-01T00:00:00Z"}}`}, 0, false},
		"another 404":      {configMap{404, `404 page not found`}, 0, true},
		"forbidden":        {configMap{403, `{"kind":"Status","reason":"Forbidden","message":"no"}`}, 0, true},
		"an unusable key":  {configMap{200, `{"kind":"ConfigMap","data":{"triggers":"whim"}}`}, 0, true},
		"something else":   {configMap{200, `{}`}, 0, true},
		"nothing that is:": {configMap{200, ``}, 0, true},
	} {
		config := newAPI().config(nil)
		config.Transport = test.answer
		read, err := pause.OfNamespace(config, "curfew-system")
		must(t, err)
		if found, err := read(t.Context()); len(found) != test.pauses || (err != nil) != test.fails {
			t.Errorf("%s: pauses %v, error %v; want %d, error %t", name, found, err, test.pauses, test.fails)
		}
	}
}
