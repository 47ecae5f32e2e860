package webhook

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"curfew.dev/curfew/webhook/wire"
)

// maxReview is how large a review may be: an API server takes requests of 3 MB, a review holds two objects and little more.
const maxReview = 7 << 20

// ServeHTTP implements [http.Handler]. To the API server an AdmissionReview with allowed=false under a 200 is a rejection,
// whatever its code says (apiserver, webhook/{mutating,validating}/dispatcher.go); the failure policy is asked only where the call
// fails. So an error has the HTTP status of one.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, status, err := body(r)
	if err != nil {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		h.refuse(w, status, err)
		return
	}
	review, err := wire.Parse(text)
	if err != nil {
		h.refuse(w, http.StatusBadRequest, err)
		return
	}
	h.write(w, h.handle(r.Context(), review))
}

// refuse answers whoever sent what is no review. The API server does not; so this is no error of the log, where anybody could fill it.
func (h *handler) refuse(w http.ResponseWriter, status int, err error) {
	h.webhooks.log.V(1).Info("a request was no AdmissionReview", "webhook", h.name, "status", status, "reason", err.Error())
	h.webhooks.metrics.reviewed(h.name, "other", "other", outcomeInvalid, 0)
	h.write(w, refused(status, err))
}

// body returns the body of a request, or the status that says why it is not taken.
func body(r *http.Request) (string, int, error) {
	if r.Method != http.MethodPost {
		return "", http.StatusMethodNotAllowed, fmt.Errorf("the method is %s: POST an AdmissionReview", r.Method)
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
			return "", http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type is %q: send application/json", contentType)
		}
	}
	if r.ContentLength > maxReview {
		return "", http.StatusRequestEntityTooLarge, errTooLarge
	}
	buffer := buffers.Get().(*[]byte)
	defer func() {
		// The odd large body is not to be kept for ever.
		if cap(*buffer) <= maxPooled {
			buffers.Put(buffer)
		}
	}()
	text, err := readAll((*buffer)[:0], io.LimitReader(r.Body, maxReview+1))
	*buffer = text
	switch {
	case err != nil:
		return "", http.StatusBadRequest, fmt.Errorf("the body could not be read to its end: %w", err)
	case len(text) > maxReview:
		return "", http.StatusRequestEntityTooLarge, errTooLarge
	case len(text) == 0:
		return "", http.StatusBadRequest, errors.New("the body is empty: send an AdmissionReview")
	default:
		return string(text), http.StatusOK, nil
	}
}

var errTooLarge = fmt.Errorf("the body is larger than %d bytes", maxReview)

// buffers are what bodies are read into and answers written to.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 16<<10)) }}

const maxPooled = 256 << 10

// readAll appends what a reader has to give.
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

// jsonType is shared by all answers: nobody changes it.
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
	// An error is the caller's, who has gone.
	_, _ = w.Write(body)
}
