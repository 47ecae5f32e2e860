package webhook

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// serve puts a handler behind controller-runtime's reading of AdmissionReviews and gives the answer an HTTP status that
// tells an error from a denial. controller-runtime answers 200 to everything, and to the API server an AdmissionReview
// with allowed=false under a 200 is a rejection, whatever its code says (apiserver, webhook/{mutating,validating}/
// dispatcher.go): the failure policy is asked only where the call fails.
func serve(handler admission.Handler) http.Handler {
	hook := &admission.Webhook{Handler: handler}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := new(int)
		hook.ServeHTTP(&statusWriter{ResponseWriter: w, status: status}, r.WithContext(context.WithValue(r.Context(), statusKey{}, status)))
	})
}

type statusKey struct{}

// setStatus leaves the status of the answer where the writer finds it.
func setStatus(ctx context.Context, status int) {
	if at, ok := ctx.Value(statusKey{}).(*int); ok {
		*at = status
	}
}

// statusWriter writes the status before the body.
type statusWriter struct {
	http.ResponseWriter
	status  *int
	written bool
}

// Write implements [http.ResponseWriter].
func (w *statusWriter) Write(body []byte) (int, error) {
	if !w.written {
		w.written = true
		if *w.status == 0 {
			*w.status = unread(body)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(*w.status)
	}
	return w.ResponseWriter.Write(body)
}

// unread is the status of an answer that was given before the handler was reached, because the request could not be read.
func unread(body []byte) int {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err == nil && review.Response != nil && review.Response.Result != nil {
		if code := int(review.Response.Result.Code); code >= http.StatusBadRequest && code < 600 {
			return code
		}
	}
	return http.StatusInternalServerError
}
