package convert

import (
	"slices"
	"strings"
)

// fromKyverno rewrites what Kyverno's CEL has and Curfew's has not: the functions now() and
// time.now(), and a creationTimestamp that is used as a time without timestamp(). Everything else
// that is different does not compile, and is reported then.
func fromKyverno(expression string) string {
	tokens := celTokens(expression)
	var out strings.Builder
	for i := 0; i < len(tokens); i++ {
		before := previous(tokens, i)
		switch {
		case blank(tokens[i]):
			out.WriteString(tokens[i])
		case before != "." && follows(tokens[i:], "now", "(", ")"):
			out.WriteString("now")
			i += skip(tokens[i:], 3)
		case before != "." && follows(tokens[i:], "time", ".", "now", "(", ")"):
			out.WriteString("now")
			i += skip(tokens[i:], 5)
		case before != "." && follows(tokens[i:], "object", ".", "metadata", ".", "creationTimestamp") && !argument(tokens, i):
			out.WriteString("timestamp(object.metadata.creationTimestamp)")
			i += skip(tokens[i:], 5)
		default:
			out.WriteString(tokens[i])
		}
	}
	return strings.TrimSpace(out.String())
}

// argument reports whether the i-th token begins the argument of timestamp or has.
func argument(tokens []string, i int) bool {
	words := slices.DeleteFunc(slices.Clone(tokens[:i]), blank)
	n := len(words)
	return n > 1 && words[n-1] == "(" && (words[n-2] == "timestamp" || words[n-2] == "has")
}

func blank(token string) bool { return strings.TrimSpace(token) == "" }

// previous is the token before the i-th that is not blank.
func previous(tokens []string, i int) string {
	for i--; i >= 0; i-- {
		if !blank(tokens[i]) {
			return tokens[i]
		}
	}
	return ""
}

// follows reports whether the tokens begin with the given ones, blanks aside.
func follows(tokens []string, want ...string) bool {
	have := slices.DeleteFunc(slices.Clone(tokens), blank)
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}

// skip is how many tokens, beside the first, n tokens with the blanks between them are.
func skip(tokens []string, n int) int {
	for i, token := range tokens {
		if !blank(token) {
			n--
		}
		if n == 0 {
			return i
		}
	}
	return len(tokens)
}

// celTokens splits an expression of CEL into words, strings, blanks and single characters. Joined
// they are the expression.
func celTokens(text string) []string {
	var out []string
	for text != "" {
		n := 1
		switch c := text[0]; {
		case c == '\'' || c == '"':
			n = celString(text)
		case c == '/' && strings.HasPrefix(text, "//"):
			if n = strings.IndexByte(text, '\n'); n < 0 {
				n = len(text)
			}
		case isWord(c):
			for n < len(text) && isWord(text[n]) {
				n++
			}
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return out
}

// celString is the length of a string, in three quotes or one.
func celString(text string) int {
	quote := text[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text, triple) {
		if end := strings.Index(text[3:], triple); end >= 0 {
			return end + 6
		}
		return len(text)
	}
	if n := quoted(text); n > 0 {
		return n
	}
	return len(text)
}
