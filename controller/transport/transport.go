// Package transport wraps the HTTP transport of a client.
package transport

import "net/http"

// Wrapper is a transport around the next one.
type Wrapper struct {
	Next http.RoundTripper
	Do   func(next http.RoundTripper, request *http.Request) (*http.Response, error)
}

// RoundTrip implements [http.RoundTripper].
func (w *Wrapper) RoundTrip(request *http.Request) (*http.Response, error) {
	return w.Do(w.Next, request)
}

// WrappedRoundTripper lets client-go find the next transport.
func (w *Wrapper) WrappedRoundTripper() http.RoundTripper { return w.Next }
