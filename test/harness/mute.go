package harness

import "net/http"

// Mute lets the watches of some paths stay open and report nothing, as behind an API server whose
// watch cache lags, until it is called with nil. What they would have reported is lost.
func (p *Proxy) Mute(paths func(path string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = paths
}

// mutable is where the answer to a request goes.
func (p *Proxy) mutable(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.URL.Query().Get("watch") != "true" {
		return w
	}
	return &mutableWriter{w, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mute != nil && p.mute(r.URL.Path)
	}}
}

type mutableWriter struct {
	http.ResponseWriter
	muted func() bool
}

func (m *mutableWriter) Write(data []byte) (int, error) {
	if m.muted() {
		return len(data), nil
	}
	return m.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the inner writer, to flush.
func (m *mutableWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }
