package webhook

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/wire"
)

// ServeHTTP implements [http.Handler]. The API server treats an AdmissionReview with allowed=false
// under a 200 as a rejection, whatever its code (apiserver,
// webhook/{mutating,validating}/dispatcher.go). The failure policy only decides if the call fails,
// so an error has the HTTP status of one.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := acceptable(r); err != nil {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		h.unreviewed(w, refused(status, err))
		return
	}
	// A slow body would keep memory that others wait for.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	// One byte more than a small review may have shows a large one.
	begun, err := readAll((*buffer)[:0], io.LimitReader(r.Body, smallReview+1))
	*buffer = begun[:0]
	switch {
	case err != nil:
		h.unreviewed(w, refused(http.StatusBadRequest, fmt.Errorf("the body could not be read to its end: %w", err)))
		return
	case len(begun) == 0:
		h.unreviewed(w, refused(http.StatusBadRequest, errors.New("the body is empty: send an AdmissionReview")))
		return
	}
	reviewed := false
	out := h.webhooks.load.review(r, begun, func(review *wire.Review) answer {
		reviewed = true
		_ = connection.SetReadDeadline(time.Time{})
		return h.handle(r.Context(), review)
	})
	if reviewed {
		h.write(w, out)
		return
	}
	h.unreviewed(w, out)
}

// bodyTimeout is how long a body may take to arrive. The API server gives the whole review 5
// seconds.
const bodyTimeout = 5 * time.Second

// unreviewed answers a request that is not a review, or is too large. No API server sends the
// former, so it is not logged as an error: anyone could fill the log.
func (h *handler) unreviewed(w http.ResponseWriter, out answer) {
	// The API server ignores a denial without the UID of its review.
	if out.outcome == outcomeThrottled && out.response.UID == "" {
		out.outcome, out.status = outcomeInvalid, int(out.response.Result.Code)
	}
	h.webhooks.log.V(1).Info("a request was not reviewed", "webhook", h.name, "status", out.response.Result.Code, "reason", out.response.Result.Message)
	h.webhooks.metrics.reviewed(h.name, otherKind, "other", out.outcome, 0)
	h.write(w, out)
}

// acceptable returns why a request cannot be a review, regardless of its body.
func acceptable(r *http.Request) (int, error) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, fmt.Errorf("the method is %s: POST an AdmissionReview", r.Method)
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
			return http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type is %q: send application/json", policy.Shorten(contentType))
		}
	}
	return http.StatusOK, nil
}

// buffers are for small bodies and for answers.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 16<<10)) }}

// readAll appends everything from a reader.
func readAll(to []byte, from io.Reader) ([]byte, error) {
	for {
		if len(to) == cap(to) {
			to = append(to, 0)[:len(to)]
		}
		n, err := from.Read(to[len(to):cap(to)])
		to = to[:len(to)+n]
		if errors.Is(err, io.EOF) {
			return to, nil
		}
		if err != nil {
			return to, err
		}
	}
}

// jsonType is shared by all answers and never changed.
var jsonType = []string{"application/json"}

// write sends an answer.
func (h *handler) write(w http.ResponseWriter, answer answer) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body, err := wire.AppendAnswer((*buffer)[:0], &answer.response)
	*buffer = body[:0]
	if err != nil {
		h.webhooks.log.Error(err, "an answer could not be written", "webhook", h.name)
		http.Error(w, "curfew could not write its answer", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(answer.status)
	// The caller may have disconnected.
	_, _ = w.Write(body)
}
