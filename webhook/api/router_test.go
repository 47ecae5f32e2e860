package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
)

func TestRouter(t *testing.T) {
	for path, want := range map[string]Problem{
		"/v2":       {Title: "Not Found", Status: 404, Detail: "there is nothing at /v2"},
		PathDefault: {Title: "Method Not Allowed", Status: 405, Detail: "GET is not understood at /v1/default"},
		"/panic":    {Title: "Internal Server Error", Status: 500, Detail: "the request failed inside Curfew"},
	} {
		t.Run(path, func(t *testing.T) {
			router := newRouter(t, &world{})
			router.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("secret detail") })
			recorder := httptest.NewRecorder()
			router.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			want.Type, want.Instance = "about:blank", path
			var got Problem
			if err := json.NewDecoder(recorder.Body).Decode(&got); err != nil || recorder.Header().Get("Content-Type") != ProblemContentType ||
				recorder.Code != want.Status || !reflect.DeepEqual(got, want) {
				t.Errorf("%d, %v, %+v\nwant\n%+v", recorder.Code, err, got, want)
			}
		})
	}
}

func TestOtherMethodsNameTheAllowedOnes(t *testing.T) {
	for path, want := range map[string][]string{PathValidate: {"POST"}, PathDefault: {"POST"}, PathOpenAPI: {"GET"}} {
		recorder := httptest.NewRecorder()
		newRouter(t, &world{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodPut, path, nil))
		if got := recorder.Header().Values("Allow"); recorder.Code != http.StatusMethodNotAllowed || !slices.Equal(got, want) {
			t.Errorf("%s: status %d, Allow %q, want %q", path, recorder.Code, got, want)
		}
	}
}
