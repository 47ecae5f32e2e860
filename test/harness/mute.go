package harness

import "net/http"

// Mute lets the watches of some paths stay open and report nothing, as behind an API server whose
// watch cache lags, until it is called with nil. What they would have reported is lost.
func (p *Proxy) Mute(paths func(path string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = paths
}

// muted reports whether the answer to a request is lost now.
func (p *Proxy) muted(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute != nil && r.URL.Query().Get("watch") == "true" && p.mute(r.URL.Path)
}
