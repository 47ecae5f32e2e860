package quote

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxValueText is how much of a value a message, an Event or a log line shows, in characters.
const MaxValueText = 64

// Shorten cuts a value for a message. An annotation can be a megabyte, and messages are copied into
// responses, Events, status conditions and logs (S9).
func Shorten(text string) string {
	if len(text) <= MaxValueText {
		return text
	}
	end := 0
	for range MaxValueText - 1 {
		_, size := utf8.DecodeRuneInString(text[end:])
		if end += size; end == len(text) {
			return text
		}
	}
	if _, size := utf8.DecodeRuneInString(text[end:]); end+size == len(text) {
		return text
	}
	return text[:end] + "…"
}

// ShortenTo cuts a text to a number of bytes, for a field with a maximum length.
func ShortenTo(text string, most int) string {
	const end = "…"
	if len(text) <= most {
		return text
	}
	cut := most - len(end)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + end
}

// OneLine puts spaces in place of control characters, line ends and characters that are none.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar || r == '\ufeff' {
			return ' '
		}
		return r
	}, text)
}

// Describe names a field's value in a message: a scalar as it is, anything else only by its type,
// so that a message never repeats what lies below a field (S9).
func Describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", Shorten(v))
	case bool, int, int32, int64, float64:
		return fmt.Sprint(v)
	case json.Number:
		return Shorten(v.String())
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
