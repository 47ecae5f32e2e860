package docs_test

import (
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw docs/terminal.svg again")

var session = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

const (
	columns    = 100
	cellWidth  = 8.4
	lineHeight = 20
)

// TestTerminal: the picture shows the first commands of the tutorial with their output, which an
// end-to-end test compares with what they print.
func TestTerminal(t *testing.T) {
	var lines []string
	for _, block := range session.FindAllStringSubmatch(pages(t)["docs/tutorial.md"], 4) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "$ kubectl curfew explain") {
				break
			}
			lines = append(lines, folded(strings.TrimRight(line, "\n"))...)
		}
	}
	if len(lines) < 15 {
		t.Fatalf("only %d lines of output in the tutorial", len(lines))
	}
	drawn := draw(lines)
	if *update {
		if err := os.WriteFile("terminal.svg", []byte(drawn), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile("terminal.svg"); err != nil || string(have) != drawn {
		t.Errorf("docs/terminal.svg is not of the tutorial: run go test ./docs -run TestTerminal -update (%v)", err)
	}
}

// folded breaks a line at the edge of the terminal.
func folded(line string) (out []string) {
	for len(line) > columns {
		out, line = append(out, line[:columns]), line[columns:]
	}
	return append(out, line)
}

func draw(lines []string) string {
	var out strings.Builder
	width, height := int(columns*cellWidth)+40, len(lines)*lineHeight+60
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`+"\n", width, height)
	fmt.Fprintln(&out, `<title id="title">kubectl with Curfew: a default, a warning, a deletion on time and a refusal</title>`)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" rx="8" fill="#111827"/>`+"\n", width, height)
	for i, color := range []string{"#f87171", "#fbbf24", "#34d399"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="18" r="6" fill="%s"/>`+"\n", 22+i*20, color)
	}
	fmt.Fprintln(&out, `<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`)
	color := ""
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "$ "):
			color = "#f9fafb"
		case strings.HasPrefix(line, "Warning: "):
			color = "#fcd34d"
		case strings.HasPrefix(line, "Error "):
			color = "#fca5a5"
		case i == 0 || len(lines[i-1]) < columns: // Else the line goes on.
			color = "#9ca3af"
		}
		fmt.Fprintf(&out, `<text x="20" y="%d" fill="%s">%s</text>`+"\n", 52+i*lineHeight, color, html.EscapeString(line))
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String()
}
