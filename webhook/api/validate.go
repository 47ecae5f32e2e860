package api

import (
	"net/http"

	"curfew.dev/curfew/webhook/lint"
)

// writeValidated answers with what would be refused and warned about. Findings are an answer, not
// an error: the status is 200 whatever they say, and "allowed" sums them up.
func writeValidated(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	return write(w, r, lint.NewReport(results))
}
