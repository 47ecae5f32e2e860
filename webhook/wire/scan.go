package wire

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds how deeply values may be nested, as in encoding/json.
const maxDepth = 10000

// scanner reads JSON text (RFC 8259). Strings without escapes are parts of that text and cost no
// copy.
type scanner struct {
	text  string
	at    int
	depth int
}

// syntaxError says where the text stops being JSON.
type syntaxError struct {
	offset  int
	problem string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.offset) }

func (s *scanner) fail(problem string) error { return &syntaxError{s.at, problem} }

// unexpected reports a byte that is not allowed here, or the end of the text.
func (s *scanner) unexpected(wanted string) error {
	if s.at >= len(s.text) {
		return s.fail("the text ends where " + wanted + " should be")
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.at:])
	return s.fail(fmt.Sprintf("%q stands where %s should be", r, wanted))
}

// next skips white space and returns the next byte without consuming it; 0 at the end.
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

// take consumes a byte that has to come next.
func (s *scanner) take(c byte, wanted string) error {
	if s.next() != c || s.at >= len(s.text) {
		return s.unexpected(wanted)
	}
	s.at++
	return nil
}

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	if s.next(); s.at < len(s.text) {
		return s.unexpected("the end")
	}
	return nil
}

// members calls visit with the name of each member of the next object, and the scanner before its
// value.
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

// open consumes the byte that begins an object or an array.
func (s *scanner) open(c byte, wanted string) error {
	if err := s.take(c, wanted); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail("values are nested too deeply")
	}
	return nil
}

// more consumes the comma before the next element, unless it is the first, or the byte that ends
// the object or array.
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

// name consumes the name of a member and the colon.
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

// skip consumes a value and checks that it is valid.
func (s *scanner) skip() error {
	switch c := s.next(); c {
	case '{', '[':
		return s.skipElements(c)
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

func (s *scanner) skipElements(begin byte) error {
	if err := s.open(begin, ""); err != nil {
		return err
	}
	for first := true; ; first = false {
		done, err := s.more(begin+2, first) // '}' for '{', ']' for '['
		if done || err != nil {
			return err
		}
		if begin == '{' {
			if s.next() != '"' {
				return s.unexpected("a name in quotation marks")
			}
			if _, _, err := s.quoted(); err != nil {
				return err
			}
			if err := s.take(':', "a colon"); err != nil {
				return err
			}
		}
		if err := s.skip(); err != nil {
			return err
		}
	}
}

// pass consumes a value that is known to be valid.
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
				return // The value was a number or a literal, and this ends the object or array around it.
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
