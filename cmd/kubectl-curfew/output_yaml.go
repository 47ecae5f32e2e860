package main

import (
	"io"

	"curfew.dev/curfew/webhook/lint"
)

// writeYAML is the same as JSON, in YAML.
func writeYAML(report *lint.Report, out, _ io.Writer) error {
	text, err := lint.MarshalYAML(report)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
