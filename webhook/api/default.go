package api

import (
	"bytes"
	"fmt"
	"net/http"

	"curfew.dev/curfew/webhook/lint"
)

// defaulted is the answer of /v1/default.
type defaulted struct {
	*lint.Report
	// Manifests in the order of the documents, lists taken apart.
	Manifests []map[string]any `json:"manifests"`
}

// writeDefaulted answers with the manifests as admission would store them. In YAML they are a
// stream that kubectl apply takes, with the author's order and comments; what is to be said about
// each stands in comments before it.
func writeDefaulted(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	report := lint.NewReport(results)
	if formatsOf(r).out == formatYAML {
		return writeStream(w, r, results)
	}
	answer := defaulted{Report: report}
	for _, result := range results {
		answer.Manifests = append(answer.Manifests, result.Manifest)
	}
	return write(w, r, answer)
}

func writeStream(w http.ResponseWriter, r *http.Request, results []*lint.Result) error {
	var out bytes.Buffer
	for _, result := range results {
		text, err := result.YAML()
		if err != nil {
			return fmt.Errorf("%s: %w", result.Object, err)
		}
		out.WriteString("---\n")
		for _, filled := range result.Defaults {
			out.WriteString(comment("curfew: " + filled.String()))
		}
		for _, finding := range result.Findings {
			out.WriteString(comment(fmt.Sprintf("curfew: %s: %s (%s)", finding.Severity, finding.Finding, finding.Rule)))
		}
		out.Write(text)
	}
	send(w, r, out.Bytes())
	return nil
}
