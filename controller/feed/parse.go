package feed

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeObject reads one object as sigs.k8s.io/json does, whole numbers as int64, without its metadata.managedFields.
func decodeObject(data []byte) (map[string]any, error) {
	p := parser{data: data}
	p.space()
	if p.peek() != '{' {
		return nil, p.wrong()
	}
	object, err := p.object(1, atObject)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at != len(data) {
		return nil, p.wrong()
	}
	return object, nil
}

// depthMost is how deep a document may be, as for encoding/json.
const depthMost = 10000

// place is where in a Kubernetes object the parser is.
type place uint8

const (
	elsewhere place = iota
	atObject
	atMetadata
)

// parser reads RFC 8259 JSON. It keeps nothing of data.
type parser struct {
	data []byte
	at   int
}

func (p *parser) wrong() error { return fmt.Errorf("no JSON at byte %d", p.at) }

// peek is the next byte; 0, which is no JSON, at the end.
func (p *parser) peek() byte {
	if p.at < len(p.data) {
		return p.data[p.at]
	}
	return 0
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// next passes over a byte that has to come after spaces.
func (p *parser) next(want byte) error {
	p.space()
	if p.peek() != want {
		return p.wrong()
	}
	p.at++
	return nil
}

func (p *parser) value(depth int, where place) (any, error) {
	p.space()
	switch c := p.peek(); {
	case c == '{':
		object, err := p.object(depth+1, where)
		return object, err
	case c == '[':
		return p.array(depth + 1)
	case c == '"':
		return p.text()
	case c == '-', c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return true, p.word("true")
	case c == 'f':
		return false, p.word("false")
	case c == 'n':
		return nil, p.word("null")
	default:
		return nil, p.wrong()
	}
}

func (p *parser) word(word string) error {
	if !bytes.HasPrefix(p.data[p.at:], []byte(word)) {
		return p.wrong()
	}
	p.at += len(word)
	return nil
}

func (p *parser) object(depth int, where place) (map[string]any, error) {
	if depth > depthMost {
		return nil, p.wrong()
	}
	p.at++
	out := map[string]any{}
	if p.space(); p.peek() == '}' {
		p.at++
		return out, nil
	}
	for {
		p.space()
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if err := p.next(':'); err != nil {
			return nil, err
		}
		inner := elsewhere
		if where == atObject && key == "metadata" {
			inner = atMetadata
		}
		if where == atMetadata && key == "managedFields" {
			if err := p.pass(depth); err != nil {
				return nil, err
			}
		} else if out[key], err = p.value(depth, inner); err != nil {
			return nil, err
		}
		p.space()
		switch p.peek() {
		case ',':
			p.at++
		case '}':
			p.at++
			return out, nil
		default:
			return nil, p.wrong()
		}
	}
}

func (p *parser) array(depth int) ([]any, error) {
	if depth > depthMost {
		return nil, p.wrong()
	}
	p.at++
	out := []any{}
	if p.space(); p.peek() == ']' {
		p.at++
		return out, nil
	}
	for {
		value, err := p.value(depth, elsewhere)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
		p.space()
		switch p.peek() {
		case ',':
			p.at++
		case ']':
			p.at++
			return out, nil
		default:
			return nil, p.wrong()
		}
	}
}

// pass goes over a value without a look at more than where it ends.
func (p *parser) pass(depth int) error {
	p.space()
	if c := p.peek(); c != '{' && c != '[' {
		_, err := p.value(depth, elsewhere)
		return err
	}
	for open := 0; p.at < len(p.data); {
		switch p.data[p.at] {
		case '"':
			end, _, err := p.quoted()
			if err != nil {
				return err
			}
			p.at = end + 1
			continue
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		if p.at++; open == 0 {
			return nil
		}
	}
	return p.wrong()
}

// quoted finds the end of the text that begins here, and whether it is what it looks like, without escapes and all ASCII.
func (p *parser) quoted() (end int, plain bool, err error) {
	plain = true
	for i := p.at + 1; i < len(p.data); i++ {
		switch c := p.data[i]; {
		case c == '"':
			return i, plain, nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			p.at = i
			return 0, false, p.wrong()
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	p.at = len(p.data)
	return 0, false, p.wrong()
}

func (p *parser) text() (string, error) {
	if p.peek() != '"' {
		return "", p.wrong()
	}
	end, plain, err := p.quoted()
	if err != nil {
		return "", err
	}
	raw := p.data[p.at+1 : end]
	if plain {
		p.at = end + 1
		return string(raw), nil
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			r, size := utf8.DecodeRune(raw[i:]) // What is no UTF-8 becomes U+FFFD.
			out, i = utf8.AppendRune(out, r), i+size
			continue
		}
		switch c := raw[i+1]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := unit(raw[i:])
			if !ok {
				return "", p.wrong()
			}
			if utf16.IsSurrogate(r) {
				low, ok := unit(raw[i+6:])
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r, i = pair, i+6
				} else {
					r = utf8.RuneError
				}
			}
			out, i = utf8.AppendRune(out, r), i+4
		default:
			return "", p.wrong()
		}
		i += 2
	}
	p.at = end + 1
	return string(out), nil
}

// unit reads one \uXXXX.
func unit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(code), err == nil
}

// number reads a whole number as int64 where it fits, all else as float64.
func (p *parser) number() (any, error) {
	begin := p.at
	if p.peek() == '-' {
		p.at++
	}
	switch c := p.peek(); {
	case c == '0':
		p.at++
	case c >= '1' && c <= '9':
		p.digits()
	default:
		return nil, p.wrong()
	}
	whole := true
	if p.peek() == '.' {
		whole = false
		p.at++
		if !p.digits() {
			return nil, p.wrong()
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		whole = false
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return nil, p.wrong()
		}
	}
	text := string(p.data[begin:p.at])
	if whole {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, p.wrong()
	}
	return n, nil
}

func (p *parser) digits() bool {
	begin := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > begin
}
