package feed

import (
	"bufio"
	"io"
	"net/http"
)

// bufferSize holds some forty events.
const bufferSize = 64 << 10

// Buffer wraps a transport so that watches are read from the connection in large pieces. client-go
// reads a watch four bytes and one event at a time, and HTTP/2 answers nearly every read with a
// frame that allows the API server to send as much again. These frames are a tenth of the cost of a
// long list, for both sides.
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

// WrappedRoundTripper lets client-go find the wrapped transport.
func (b *buffered) WrappedRoundTripper() http.RoundTripper { return b.next }

type bufferedBody struct {
	*bufio.Reader
	io.Closer
}
