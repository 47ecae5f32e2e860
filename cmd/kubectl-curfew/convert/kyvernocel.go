package convert

import (
	"regexp"
	"strings"
)

// celParts are the parts of a CEL expression that fromKyverno rewrites, and those that it must not
// look into: strings, comments, fields, and a creationTimestamp that is an argument already.
var celParts = regexp.MustCompile(`(?s)'''.*?'''|""".*?"""|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|//[^\n]*|\.\s*\w+` +
	`|\b(?:timestamp|has)\s*\(\s*object\s*\.\s*metadata\s*\.\s*creationTimestamp\b` +
	`|\b(?:time\s*\.\s*)?now\s*\(\s*\)|\bobject\s*\.\s*metadata\s*\.\s*creationTimestamp\b`)

// fromKyverno rewrites what Kyverno's CEL has and Curfew's has not: the functions now() and
// time.now(), and a creationTimestamp that is used as a time without timestamp(). Everything else
// that is different does not compile, and is reported then.
func fromKyverno(expression string) string {
	return strings.TrimSpace(celParts.ReplaceAllStringFunc(expression, func(part string) string {
		switch {
		case part[0] == 'o':
			return "timestamp(object.metadata.creationTimestamp)"
		case part[0] == 'n', part[0] == 't' && strings.HasSuffix(part, ")"):
			return "now"
		}
		return part
	}))
}
