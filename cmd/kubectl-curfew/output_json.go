package main

import (
	"encoding/json"
	"io"

	"curfew.dev/curfew/webhook/lint"
)

// writeJSON is the answer of POST /v1/validate, with the files' names.
func writeJSON(report *lint.Report, out, _ io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}
