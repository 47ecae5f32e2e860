package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"curfew.dev/curfew/test/builders"
)

type operationDoc struct {
	OperationID string `json:"operationId"`
	Summary     string
	Parameters  []map[string]any
	Responses   map[string]map[string]any
}

func openAPIDocument(t testing.TB) (raw map[string]any, paths map[string]map[string]operationDoc) {
	t.Helper()
	must(t, json.Unmarshal(openAPI, &raw))
	var typed struct {
		Paths map[string]map[string]operationDoc
	}
	must(t, json.Unmarshal(openAPI, &typed))
	return raw, typed.Paths
}

func TestOpenAPIIsWellFormed(t *testing.T) {
	// gnostic refuses unknown fields, missing ones and wrong types throughout.
	document, err := openapiv3.ParseDocument(openAPI)
	must(t, err)
	if !strings.HasPrefix(document.Openapi, "3.0.") {
		t.Errorf("openapi: %s", document.Openapi)
	}
	raw, paths := openAPIDocument(t)
	var walk func(value any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				if _, err := follow(raw, ref); err != nil {
					t.Error(err)
				}
			}
			if pattern, ok := value["pattern"].(string); ok {
				if _, err := regexp.Compile(pattern); err != nil {
					t.Error(err)
				}
			}
			for _, inner := range value {
				walk(inner)
			}
		case []any:
			for _, inner := range value {
				walk(inner)
			}
		}
	}
	walk(raw)
	ids := map[string]bool{}
	for path, operations := range paths {
		for method, operation := range operations {
			if operation.OperationID == "" || ids[operation.OperationID] || operation.Summary == "" {
				t.Errorf("%s %s: operationId %q is empty or taken, or there is no summary", method, path, operation.OperationID)
			}
			ids[operation.OperationID] = true
			for status := range operation.Responses {
				if code, err := strconv.Atoi(status); err != nil || http.StatusText(code) == "" {
					t.Errorf("%s %s: %q is no status", method, path, status)
				}
			}
		}
	}
}

func TestOpenAPIDescribesEveryRoute(t *testing.T) {
	var routes, descriptions []string
	err := chi.Walk(newRouter(t, &world{}), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, method+" "+route)
		return nil
	})
	must(t, err)
	_, paths := openAPIDocument(t)
	for path, operations := range paths {
		for method := range operations {
			descriptions = append(descriptions, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(descriptions)
	if !slices.Equal(routes, descriptions) {
		t.Errorf("routes %q\nare described as %q", routes, descriptions)
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	recorder := httptest.NewRecorder()
	newRouter(t, &world{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, PathOpenAPI, nil))
	if recorder.Code != http.StatusOK || recorder.Header().Get("Content-Type") != "application/json" || !json.Valid(recorder.Body.Bytes()) {
		t.Errorf("status %d, %v", recorder.Code, recorder.Header())
	}
}

func follow(document map[string]any, ref string) (any, error) {
	var value any = document
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		fields, _ := value.(map[string]any)
		if value = fields[name]; value == nil {
			return nil, fmt.Errorf("%s leads nowhere", ref)
		}
	}
	return value, nil
}

// inlined is a part of the document with what it refers to in place of the references.
func inlined(document map[string]any, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if ref, ok := value["$ref"].(string); ok {
			target, _ := follow(document, ref)
			return inlined(document, target)
		}
		out := make(map[string]any, len(value))
		for name, inner := range value {
			out[name] = inlined(document, inner)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, inner := range value {
			out[i] = inlined(document, inner)
		}
		return out
	}
	return value
}

var schemas sync.Map

// described fails where an answer to a POST is not as the document says: its status, its media
// type, its body.
func described(t testing.TB, recorder *httptest.ResponseRecorder, path string) {
	t.Helper()
	mediaType := recorder.Header().Get("Content-Type")
	key := fmt.Sprint(path, " ", recorder.Code, " ", mediaType)
	found, ok := schemas.Load(key)
	if !ok {
		raw, _ := openAPIDocument(t)
		whole := inlined(raw, raw["paths"]).(map[string]any)
		value, err := follow(map[string]any{"x": whole[path]}, fmt.Sprintf("#/x/post/responses/%d/content", recorder.Code))
		if err != nil {
			t.Fatalf("%s is not described", key)
		}
		content, _ := value.(map[string]any)[mediaType].(map[string]any)
		text, err := json.Marshal(content["schema"])
		if err != nil || content == nil {
			t.Fatalf("%s is not described", key)
		}
		schema := &spec.Schema{}
		must(t, json.Unmarshal(text, schema))
		found = schema
		schemas.Store(key, found)
	}
	var body any
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	if err := validate.AgainstSchema(found.(*spec.Schema), body, strfmt.Default); err != nil {
		t.Errorf("%s: %v\n%s", key, err, recorder.Body)
	}
}

var must = builders.Must
