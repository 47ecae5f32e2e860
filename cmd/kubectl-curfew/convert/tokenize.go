package convert

import (
	"fmt"
	"strings"
)

// operators of JMESPath, the longer ones first.
var operators = []string{"||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ".", ",", "*", "@", "|", "?", ":", "{", "}", "&", "-"}

// tokenize splits an expression of JMESPath. Strings and literals keep their quotes.
func tokenize(text string) ([]string, error) {
	var out []string
	for text != "" {
		if text[0] == ' ' || text[0] == '\t' || text[0] == '\n' || text[0] == '\r' {
			text = text[1:]
			continue
		}
		n := tokenLength(text)
		if n == 0 {
			return nil, fmt.Errorf("%.20q is not supported", text)
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return out, nil
}

func tokenLength(text string) int {
	switch c := text[0]; {
	case c == '\'' || c == '"' || c == '`':
		return quoted(text)
	case isWord(c):
		n := 1
		for n < len(text) && isWord(text[n]) {
			n++
		}
		return n
	}
	for _, operator := range operators {
		if strings.HasPrefix(text, operator) {
			return len(operator)
		}
	}
	return 0
}

// quoted is the length of a quoted token; 0 if it does not end.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 0
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
