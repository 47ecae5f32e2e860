package harness

import (
	"net/http"
	"slices"
)

// Read is a list or a watch that went through a proxy and was answered.
type Read struct {
	// Path is that of the API, such as /apis/batch/v1/jobs.
	Path                         string
	FieldSelector, LabelSelector string
	Watch                        bool
	// Status is the code of the answer, ContentType what it is written in.
	Status      int
	ContentType string
}

// Reads are the lists and watches so far, each way of asking and of being answered once.
func (p *Proxy) Reads() []Read {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reads)
}

// reading notes how a list or watch is answered, as soon as it is: a watch may never end.
func (p *Proxy) reading(r *http.Request, code int, contentType string) {
	if _, _, name := Target(r.URL.Path); r.Method != http.MethodGet || name != "" {
		return
	}
	query := r.URL.Query()
	read := Read{Path: r.URL.Path, FieldSelector: query.Get("fieldSelector"), LabelSelector: query.Get("labelSelector"),
		Watch: query.Get("watch") == "true", Status: code, ContentType: contentType}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.reads, read) {
		p.reads = append(p.reads, read)
	}
}
