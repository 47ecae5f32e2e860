package wire

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// literal consumes true, false or null.
func (s *scanner) literal() (any, error) {
	rest := s.text[s.at:]
	for _, known := range [...]struct {
		text  string
		value any
	}{{"true", true}, {"false", false}, {"null", nil}} {
		if strings.HasPrefix(rest, known.text) {
			s.at += len(known.text)
			return known.value, nil
		}
	}
	return nil, s.unexpected("a value")
}

// number consumes a number and reports whether it is written as an integer.
func (s *scanner) number() (text string, whole bool, err error) {
	from := s.at
	digits := func() bool {
		first := s.at
		for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
			s.at++
		}
		return s.at > first
	}
	is := func(some string) bool { return s.at < len(s.text) && strings.IndexByte(some, s.text[s.at]) >= 0 }
	if is("-") {
		s.at++
	}
	if is("0") {
		s.at++ // No digit may follow.
	} else if !digits() {
		return "", false, s.unexpected("a value")
	}
	whole = true
	if is(".") {
		s.at++
		if whole = false; !digits() {
			return "", false, s.unexpected("a digit")
		}
	}
	if is("eE") {
		s.at++
		if is("+-") {
			s.at++
		}
		if whole = false; !digits() {
			return "", false, s.unexpected("a digit")
		}
	}
	return s.text[from:s.at], whole, nil
}

// special has the bytes that end a string or need a closer look.
var special = func() (out [256]bool) {
	for c := range out {
		out[c] = c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf
	}
	return out
}()

// quoted consumes a string and returns the text between the quotation marks, and whether it is free
// of escapes.
func (s *scanner) quoted() (written string, plain bool, err error) {
	text, from := s.text, s.at+1
	plain = true
	for at := from; ; at++ {
		for at < len(text) && !special[text[at]] {
			at++
		}
		if s.at = at; at >= len(text) {
			return "", false, s.unexpected("a quotation mark")
		}
		switch c := text[at]; {
		case c == '"':
			s.at++
			return text[from:at], plain, nil
		case c == '\\':
			plain = false
			s.at++
			if !s.escape() {
				return "", false, s.unexpected("one of \"\\/bfnrtu and its four digits")
			}
		case c < ' ':
			return "", false, s.unexpected("a character that needs no escape")
		default:
			plain = s.rune() && plain
		}
		at = s.at
	}
}

// escape moves from the byte after a backslash to the last byte of the escape.
func (s *scanner) escape() bool {
	if s.at >= len(s.text) {
		return false
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.at++; s.at >= len(s.text) || hexDigit(s.text[s.at]) < 0 {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// rune moves from the first byte of a non-ASCII character to its last, and reports whether it is
// valid.
func (s *scanner) rune() bool {
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	s.at += size - 1
	return r != utf8.RuneError || size > 1
}

// string consumes a string and decodes it. As in encoding/json, invalid UTF-8 becomes U+FFFD.
func (s *scanner) string() (string, error) {
	written, plain, err := s.quoted()
	if err != nil || plain {
		return written, err
	}
	return unquote(written), nil
}

// unquote resolves escapes that are known to be valid.
func unquote(written string) string {
	var out strings.Builder
	out.Grow(len(written))
	for at := 0; at < len(written); {
		c := written[at]
		if c != '\\' {
			r, size := utf8.DecodeRuneInString(written[at:])
			out.WriteRune(r)
			at += size
			continue
		}
		at += 2
		switch c = written[at-1]; c {
		case 'b':
			out.WriteByte('\b')
		case 'f':
			out.WriteByte('\f')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 't':
			out.WriteByte('\t')
		case 'u':
			r := hex4(written[at:])
			at += 4
			if utf16.IsSurrogate(r) {
				second := rune(-1)
				if strings.HasPrefix(written[at:], `\u`) {
					second = hex4(written[at+2:])
				}
				if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
					at += 6
				}
			}
			out.WriteRune(r)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

func hex4(text string) rune {
	var out rune
	for i := range 4 {
		// #nosec G115 -- a digit is at most 15.
		out = out<<4 | rune(hexDigit(text[i]))
	}
	return out
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// The most memory, in bytes, that decoding makes of each part of a text: measured by TestWeigh.
const (
	perObject  = 384
	perEmpty   = 72
	perList    = 64
	perElement = 80
)

// Weigh estimates how much memory a decoded review takes, rather too much than too little. It goes
// over the text once and keeps nothing.
func Weigh(text string) int64 {
	weight := int64(len(text))
	if strings.IndexByte(text, '\\') >= 0 {
		weight *= 2 // A string with escapes is copied.
	}
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' && i+1 < len(text) && text[i+1] == '}':
			weight += perEmpty
		case c == '{':
			weight += perObject
		case c == '[':
			weight += perList
		case c == ',':
			weight += perElement
		}
	}
	return weight
}

// UID returns the uid of a review whose text may be cut off; empty if the uid comes after the cut.
func UID(text string) types.UID {
	s := scanner{text: text}
	review := Review{}
	_ = s.members(func(name string) error {
		if name != "request" || s.next() != '{' {
			return s.skip()
		}
		return s.members(func(name string) error {
			if name != "uid" {
				return s.skip()
			}
			if err := s.stringInto(&review.UID, "request.uid"); err != nil {
				return err
			}
			return errFound
		})
	})
	return types.UID(strings.Clone(review.UID))
}

var errFound = &syntaxError{problem: "found"}
