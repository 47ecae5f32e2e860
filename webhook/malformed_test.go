package webhook

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

// broken is a body that ends with the connection.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestMalformedReviews: a review that cannot be read is denied if it has a UID, since an object that
// cannot be read must not pass unreviewed (S9). Without one it is a failed call.
func TestMalformedReviews(t *testing.T) {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	captured := string(capturedReview(t))
	for name, test := range map[string]struct {
		method, contentType string
		body                string
		lost                bool
		status              int
		message             string
	}{
		"empty":                  {body: "", message: errUnread.Error()},
		"no JSON":                {body: "hello", message: errUnread.Error()},
		"binary":                 {body: "k8s\x00\n\x1d", message: errUnread.Error()},
		"a list":                 {body: "[]", message: errUnread.Error()},
		"two":                    {body: head + `}{}`, message: errUnread.Error()},
		"no kind":                {body: "{}", message: errUnread.Error()},
		"another kind":           {body: `{"apiVersion":"v1","kind":"Pod"}`, message: errUnread.Error()},
		"no request":             {body: head + `}`, message: errUnread.Error()},
		"null request":           {body: head + `,"request":null}`, message: errUnread.Error()},
		"an answer":              {body: head + `,"response":{"uid":"","allowed":true}}`, message: errUnread.Error()},
		"a request without uid":  {body: head + `,"request":{"name":"a"}}`, message: errUnread.Error()},
		"a uid that is a number": {body: head + `,"request":{"uid":7}}`, message: errUnread.Error()},
		"no object":              {body: head + `,"request":{"uid":"u","operation":"CREATE"}}`, message: "request.object is absent: a CREATE carries one"},
		"null object":            {body: head + `,"request":{"uid":"u","operation":"CREATE","object":null}}`, message: "request.object is absent: a CREATE carries one"},
		"object is a list":       {body: head + `,"request":{"uid":"u","operation":"CREATE","object":[]}}`, status: 200, message: "the object cannot be decoded: request.object"},
		"a number too large":     {body: head + `,"request":{"uid":"u","operation":"CREATE","object":{"data":1e999}}}`, status: 200, message: "the object cannot be decoded: request.object"},
		"no old object":          {body: head + `,"request":{"uid":"u","operation":"UPDATE","object":{}}}`, message: "request.oldObject is absent: a UPDATE carries one"},
		"truncated":              {body: captured[:len(captured)/2], status: 200, message: errUnread.Error()},
		"cut off by one":         {body: captured[:len(captured)-2], status: 200, message: errUnread.Error()},
		"too deep":               {body: head + `,"request":{"uid":"u","operation":"CREATE","object":` + strings.Repeat(`{"a":`, 9_999) + "1" + strings.Repeat("}", 10_001), status: 200, message: errUnread.Error()},
		"the connection is lost": {body: captured[:40], lost: true, message: errUnread.Error()},
		"text":                   {contentType: "text/plain", body: captured, status: 200, message: errUnread.Error()},
		"GET":                    {method: http.MethodGet, message: errUnread.Error()},
	} {
		for _, path := range []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace, PathValidatePolicy} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t)
				var body io.Reader = strings.NewReader(test.body)
				if test.lost {
					body = broken{body}
				}
				request := httptest.NewRequest(cmp.Or(test.method, http.MethodPost), path, body)
				request.Header.Set("Content-Type", cmp.Or(test.contentType, "application/json"))
				recorder := httptest.NewRecorder()
				w.mux.ServeHTTP(recorder, request)
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.Result == nil {
					t.Fatalf("answered with %s", recorder.Body)
				}
				result, status := review.Response.Result, cmp.Or(test.status, http.StatusBadRequest)
				if recorder.Code != status || int(result.Code) != http.StatusBadRequest || review.Response.Allowed || status == http.StatusOK && review.Response.UID == "" {
					t.Errorf("HTTP %d, result %+v, allowed %v, UID %q; want %d", recorder.Code, result, review.Response.Allowed, review.Response.UID, status)
				}
				if !strings.Contains(result.Message, test.message) {
					t.Errorf("message\n%s\nwant\n%s", result.Message, test.message)
				}
				operation := "other"
				if strings.Contains(test.message, "request.o") {
					operation = "CREATE"
					if strings.Contains(test.message, "oldObject") {
						operation = "UPDATE"
					}
				}
				if got := w.reviews(t, path[1:], operation, "other", "invalid"); got != 1 {
					t.Errorf("%v invalid reviews counted, want 1", got)
				}
			})
		}
	}
}

// TestReviewsThatAreNotJudged pass: there is nothing in them that a policy could have an opinion
// on.
func TestReviewsThatAreNotJudged(t *testing.T) {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":`
	for name, body := range map[string]string{
		"DELETE": head + `"DELETE","object":null,"oldObject":{}}}`, "CONNECT": head + `"CONNECT","object":{}}}`,
		"a subresource": head + `"CREATE","subResource":"eviction"}}`, "something new": head + `"REPLACE"}}`,
	} {
		for _, path := range []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace, PathValidatePolicy} {
			status, review := newWorld(t).post(t, path, []byte(body))
			if status != http.StatusOK || !review.Response.Allowed || review.Response.UID != "u" || len(review.Response.Patch) > 0 {
				t.Errorf("%s, %s: HTTP %d, %+v", name, path, status, review.Response)
			}
		}
	}
}

// capturedReview is the review of a new Job as an API server wrote it, managedFields included.
func capturedReview(t testing.TB) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/review-job.json")
	must(t, err)
	return body
}
