package feed

import (
	"bufio"
	"io"
	"net/http"
)

// bufferSize holds some forty events.
const bufferSize = 64 << 10

// Buffer wraps a transport so that watches are taken off the connection in large pieces. A watch is
// read four bytes and one event at a time, and HTTP/2 answers nearly every read with a frame that
// allows the API server to send as much again: a write for us, a read for it, and a tenth of what a
// long list costs both.
func Buffer(next http.RoundTripper) http.RoundTripper { return &buffered{next} }

type buffered struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b *buffered) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") != "true" {
		return response, err
	}
	response.Body = &bufferedBody{bufio.NewReaderSize(response.Body, bufferSize), response.Body}
	return response, nil
}

// WrappedRoundTripper lets client-go find what is below.
func (b *buffered) WrappedRoundTripper() http.RoundTripper { return b.next }

type bufferedBody struct {
	*bufio.Reader
	io.Closer
}
