package webhook

import (
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

// endless is a body of unknown length.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range n {
		p[i] = ' '
	}
	e.left -= n
	return n, nil
}

// broken is a body that ends with the connection.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestMalformedReviews: every endpoint refuses a malformed review with a status and a message that
// says why.
func TestMalformedReviews(t *testing.T) {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"`
	const noUID = "the AdmissionReview has no request.uid: send one of admission.k8s.io/v1 with a request"
	const noJSON = "the body is no JSON that could be an AdmissionReview: "
	const tooLong = "the review of this object has more than 1048576 bytes, so that curfew cannot review it: use a smaller one, or raise --max-review-size; see: kubectl curfew explain rule/review-size"
	captured := string(capturedReview(t))
	for name, test := range map[string]struct {
		method, contentType string
		body                string
		reader              io.Reader
		status              int
		message             string
	}{
		"empty":                  {body: "", status: 400, message: "the body is empty: send an AdmissionReview"},
		"no JSON":                {body: "hello", status: 400, message: noJSON + "'h' stands where an object should be at byte 0"},
		"YAML":                   {body: "kind: AdmissionReview\n", status: 400, message: noJSON + "'k' stands where an object should be at byte 0"},
		"binary":                 {body: "k8s\x00\n\x1d", status: 400, message: noJSON + "'k' stands where an object should be at byte 0"},
		"a list":                 {body: "[]", status: 400, message: noJSON + "'[' stands where an object should be at byte 0"},
		"null":                   {body: "null", status: 400, message: noJSON + "'n' stands where an object should be at byte 0"},
		"two":                    {body: `{"kind":"AdmissionReview"}{}`, status: 400, message: noJSON + "'{' stands where the end should be at byte 26"},
		"no kind":                {body: "{}", status: 400, message: `the body is of apiVersion "" and kind "": send an AdmissionReview of admission.k8s.io/v1`},
		"another kind":           {body: `{"apiVersion":"v1","kind":"Pod"}`, status: 400, message: `the body is of apiVersion "v1" and kind "Pod": send an AdmissionReview of admission.k8s.io/v1`},
		"another version":        {body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}`, status: 400, message: `the body is of apiVersion "admission.k8s.io/v1beta1" and kind "AdmissionReview": send an AdmissionReview of admission.k8s.io/v1`},
		"another group":          {body: `{"apiVersion":"v1","kind":"AdmissionReview","request":{"uid":"u"}}`, status: 400, message: `the body is of apiVersion "v1" and kind "AdmissionReview": send an AdmissionReview of admission.k8s.io/v1`},
		"no request":             {body: head + `}`, status: 400, message: noUID},
		"null request":           {body: head + `,"request":null}`, status: 400, message: noUID},
		"an answer":              {body: head + `,"response":{"uid":"u","allowed":true}}`, status: 400, message: noUID},
		"a request without uid":  {body: head + `,"request":{"operation":"DELETE"}}`, status: 400, message: noUID},
		"an empty uid":           {body: head + `,"request":{"uid":"","operation":"DELETE"}}`, status: 400, message: noUID},
		"a uid that is a number": {body: head + `,"request":{"uid":7}}`, status: 400, message: "request.uid is no string"},
		"two uids":               {body: head + `,"request":{"uid":"u","uid":"v"}}`, status: 400, message: "request.uid is there twice"},
		"no object":              {body: head + `,"request":{"uid":"u","operation":"CREATE"}}`, status: 400, message: "request.object is absent: a CREATE carries one"},
		"null object":            {body: head + `,"request":{"uid":"u","operation":"CREATE","object":null}}`, status: 400, message: "request.object is null: a CREATE carries one"},
		"object is a list":       {body: head + `,"request":{"uid":"u","operation":"CREATE","object":[]}}`, status: 400, message: "request.object is no JSON object"},
		"object is text":         {body: head + `,"request":{"uid":"u","operation":"CREATE","object":"x"}}`, status: 400, message: "request.object is no JSON object"},
		"no old object":          {body: head + `,"request":{"uid":"u","operation":"UPDATE","object":{}}}`, status: 400, message: "request.oldObject is absent: a UPDATE carries one"},
		"truncated":              {body: captured[:len(captured)/2], status: 400, message: noJSON + "the text ends where a quotation mark should be at byte 2694"},
		"cut off by one":         {body: captured[:len(captured)-2], status: 400, message: noJSON + "the text ends where a comma or the end of the list should be at byte 5386"},
		"the connection is lost": {reader: broken{strings.NewReader(captured[:100])}, status: 400, message: "the body could not be read to its end: unexpected EOF"},
		"too large":              {body: head + `,"x":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, message: tooLong},
		"too large, unannounced": {reader: &endless{2 << 20}, status: 413, message: tooLong},
		"text":                   {contentType: "text/plain", body: captured, status: 415, message: `the Content-Type is "text/plain": send application/json`},
		"protobuf":               {contentType: "application/vnd.kubernetes.protobuf", body: captured, status: 415, message: `the Content-Type is "application/vnd.kubernetes.protobuf": send application/json`},
		"no content type":        {contentType: "-", body: captured, status: 415, message: `the Content-Type is "": send application/json`},
		"GET":                    {method: http.MethodGet, status: 405, message: "the method is GET: POST an AdmissionReview"},
		"PUT":                    {method: http.MethodPut, body: captured, status: 405, message: "the method is PUT: POST an AdmissionReview"},
		"OPTIONS":                {method: http.MethodOptions, status: 405, message: "the method is OPTIONS: POST an AdmissionReview"},
	} {
		for _, path := range []string{PathMutate, PathValidate, PathMutateNamespace, PathValidateNamespace, PathValidatePolicy} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t, func(o *Options) { o.MaxReview = 1 << 20 })
				body := test.reader
				switch part := body.(type) {
				case nil:
					body = strings.NewReader(test.body)
				case *endless:
					body = &endless{part.left}
				case broken:
					body = broken{strings.NewReader(captured[:100])}
				}
				request := httptest.NewRequest(test.method, path, body)
				if test.method == "" {
					request.Method = http.MethodPost
				}
				switch test.contentType {
				case "-":
				case "":
					request.Header.Set("Content-Type", "application/json")
				default:
					request.Header.Set("Content-Type", test.contentType)
				}
				recorder := httptest.NewRecorder()
				w.mux.ServeHTTP(recorder, request)
				var review admissionv1.AdmissionReview
				if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.Result == nil {
					t.Fatalf("answered with %s", recorder.Body)
				}
				result := review.Response.Result
				if recorder.Code != test.status || int(result.Code) != test.status || review.Response.Allowed || recorder.Header().Get("Content-Type") != "application/json" {
					t.Errorf("HTTP %d, result %+v, allowed %v; want %d", recorder.Code, result, review.Response.Allowed, test.status)
				}
				if result.Message != test.message {
					t.Errorf("message\n%s\nwant\n%s", result.Message, test.message)
				}
				if allow := recorder.Header().Get("Allow"); (allow == http.MethodPost) != (test.status == 405) {
					t.Errorf("Allow: %q", allow)
				}
				kind, operation := "other", "other"
				if strings.HasSuffix(test.message, " carries one") {
					operation = test.message[strings.Index(test.message, "a ")+2 : len(test.message)-len(" carries one")]
				}
				if got := w.reviews(t, path[1:], operation, kind, "invalid"); got != 1 {
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

// TestContentTypeWithParameters: a charset changes nothing.
func TestContentTypeWithParameters(t *testing.T) {
	w := newWorld(t)
	request := httptest.NewRequest(http.MethodPost, PathValidateNamespace, strings.NewReader(string(mustReview(t))))
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	recorder := httptest.NewRecorder()
	if w.mux.ServeHTTP(recorder, request); recorder.Code != http.StatusOK {
		t.Errorf("HTTP %d: %s", recorder.Code, recorder.Body)
	}
}

// capturedReview is the review of a new Job as an API server wrote it, managedFields included.
func capturedReview(t testing.TB) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/review-job.json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}
