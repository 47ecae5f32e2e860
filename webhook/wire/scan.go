package wire

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deeply values may be nested, as in encoding/json.
const maxDepth = 10000

// scanner goes over JSON text (RFC 8259). What it returns are parts of that text wherever nothing is escaped in it, so that
// strings cost no copies.
type scanner struct {
	text  string
	at    int
	depth int
}

// syntaxError is where the text stops being JSON.
type syntaxError struct {
	offset  int
	problem string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.offset) }

func (s *scanner) fail(problem string) error { return &syntaxError{s.at, problem} }

// unexpected is a byte that cannot stand here, or the end of the text.
func (s *scanner) unexpected(wanted string) error {
	if s.at >= len(s.text) {
		return s.fail("the text ends where " + wanted + " should be")
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.at:])
	return s.fail(fmt.Sprintf("%q stands where %s should be", r, wanted))
}

// next passes over white space and returns the byte behind it without taking it; 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take passes over one byte that has to come next.
func (s *scanner) take(c byte, wanted string) error {
	if s.next() != c || s.at >= len(s.text) {
		return s.unexpected(wanted)
	}
	s.at++
	return nil
}

// end says whether nothing but white space is left.
func (s *scanner) end() error {
	if s.next(); s.at < len(s.text) {
		return s.unexpected("the end")
	}
	return nil
}

// members calls visit for each member of the object that comes next, with its name, and the scanner before its value.
func (s *scanner) members(visit func(name string) error) error {
	if err := s.open('{', "an object"); err != nil {
		return err
	}
	for first := true; ; first = false {
		done, err := s.more('}', first)
		if done || err != nil {
			return err
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		if err := visit(name); err != nil {
			return err
		}
	}
}

// open takes the byte that begins an object or an array.
func (s *scanner) open(c byte, wanted string) error {
	if err := s.take(c, wanted); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail("values are nested too deeply")
	}
	return nil
}

// more takes the comma before the next element, if it is not the first, or the byte that ends the object or array.
func (s *scanner) more(end byte, first bool) (done bool, err error) {
	c := s.next()
	switch {
	case c == end && s.at < len(s.text):
		s.at++
		s.depth--
		return true, nil
	case first:
		return false, nil
	case c == ',':
		s.at++
		return false, nil
	default:
		return false, s.unexpected("a comma or the end of the list")
	}
}

// name takes the name of a member, and the colon.
func (s *scanner) name() (string, error) {
	if s.next() != '"' {
		return "", s.unexpected("a name in quotation marks")
	}
	name, err := s.string()
	if err != nil {
		return "", err
	}
	return name, s.take(':', "a colon")
}

// skip passes over a value, and holds it to be one.
func (s *scanner) skip() error {
	switch c := s.next(); c {
	case '{':
		if err := s.open('{', ""); err != nil {
			return err
		}
		for first := true; ; first = false {
			done, err := s.more('}', first)
			if done || err != nil {
				return err
			}
			if s.next() != '"' {
				return s.unexpected("a name in quotation marks")
			}
			if _, _, err := s.quoted(); err != nil {
				return err
			}
			if err := s.take(':', "a colon"); err != nil {
				return err
			}
			if err := s.skip(); err != nil {
				return err
			}
		}
	case '[':
		if err := s.open('[', ""); err != nil {
			return err
		}
		for first := true; ; first = false {
			done, err := s.more(']', first)
			if done || err != nil {
				return err
			}
			if err := s.skip(); err != nil {
				return err
			}
		}
	case '"':
		_, _, err := s.quoted()
		return err
	case 't', 'f', 'n':
		_, err := s.literal()
		return err
	default:
		_, _, err := s.number()
		return err
	}
}

// pass passes over a value that is known to be one.
func (s *scanner) pass() {
	depth := 0
	for text := s.text; s.at < len(text); s.at++ {
		switch text[s.at] {
		case '{', '[':
			depth++
		case '"':
			for s.at++; s.at < len(text) && text[s.at] != '"'; s.at++ {
				if text[s.at] == '\\' {
					s.at++
				}
			}
		case '}', ']':
			if depth == 0 {
				return // What stood here is a number or a literal, and this ends what it stands in.
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		default:
			continue
		}
		if depth == 0 {
			s.at = min(s.at+1, len(text))
			return
		}
	}
}

// literal takes true, false or null.
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

// number takes a number and says whether it is written as a whole one.
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
		s.at++ // and no digit behind it
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

// special are the bytes at which a string ends, or needs a second look.
var special = func() (out [256]bool) {
	for c := range out {
		out[c] = c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf
	}
	return out
}()

// quoted takes a string and returns what is between the quotation marks as it is written, and whether that is also what it means.
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

// escape stands on the byte behind a backslash and passes to the last one of the escape.
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

// rune stands on the first byte of a character beyond ASCII, passes to its last, and says whether it is one.
func (s *scanner) rune() bool {
	r, size := utf8.DecodeRuneInString(s.text[s.at:])
	s.at += size - 1
	return r != utf8.RuneError || size > 1
}

// string takes a string and returns what it means. As with encoding/json, what is no UTF-8 becomes U+FFFD.
func (s *scanner) string() (string, error) {
	written, plain, err := s.quoted()
	if err != nil || plain {
		return written, err
	}
	return unquote(written), nil
}

// unquote resolves escapes, which are known to be well-formed.
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
