package wire

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

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
