package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"curfew.dev/curfew/webhook/lint"
)

// maxErrors is how many documents' errors one answer lists.
const maxErrors = 100

// writeUnreadable says which documents cannot be read. None is judged then: without one of them,
// the others might be judged wrongly.
func writeUnreadable(w http.ResponseWriter, r *http.Request, errs []error) {
	if limit := (*lint.LimitError)(nil); errors.As(errs[0], &limit) {
		WriteProblem(w, r, http.StatusRequestEntityTooLarge, limit.Error())
		return
	}
	detail := "1 document cannot be read"
	if len(errs) > 1 {
		detail = fmt.Sprintf("%d documents cannot be read", len(errs))
	}
	var texts []string
	for _, err := range errs[:min(len(errs), maxErrors)] {
		texts = append(texts, err.Error())
	}
	WriteProblem(w, r, http.StatusBadRequest, detail, texts...)
}

// write sends an answer in the format that was asked for.
func write(w http.ResponseWriter, r *http.Request, answer any) error {
	marshal := json.Marshal
	if formatsOf(r).out == formatYAML {
		marshal = lint.MarshalYAML
	}
	body, err := marshal(answer)
	if err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	send(w, r, body)
	return nil
}

func send(w http.ResponseWriter, r *http.Request, body []byte) {
	contentType := "application/json"
	if formatsOf(r).out == formatYAML {
		contentType = "application/yaml"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
	// The client may have disconnected.
	_, _ = w.Write(append(bytes.TrimRight(body, "\n"), '\n'))
}

// comment makes one line of YAML comment of any text.
func comment(text string) string {
	return "# " + strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar || r == '\ufeff' {
			return ' '
		}
		return r
	}, text) + "\n"
}
