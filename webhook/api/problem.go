package api

import (
	"encoding/json"
	"net/http"
)

// ProblemContentType is the media type of [Problem].
const ProblemContentType = "application/problem+json"

// Problem is an error in the form of RFC 9457. The type is "about:blank", which means that the
// title says what the status says.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Errors   []string `json:"errors,omitempty"`
}

// WriteProblem answers a request with a problem. The detail names the field, the value and the fix,
// and nothing internal; errors are further ones, one line each.
func WriteProblem(w http.ResponseWriter, r *http.Request, status int, detail string, errors ...string) {
	body, err := json.Marshal(Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Instance: r.URL.Path, Errors: errors,
	})
	if err != nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", ProblemContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The client may have disconnected.
	_, _ = w.Write(append(body, '\n'))
}
