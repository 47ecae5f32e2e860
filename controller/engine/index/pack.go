package index

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// packUID returns the 16 bytes of a UUID in canonical form. For any other UID it returns a digest
// and odd.
func packUID(uid types.UID) (bin [16]byte, odd bool) {
	if len(uid) == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-' {
		ok := true
		at := 0
		for i := 0; i < 36 && ok; i += 2 {
			if i == 8 || i == 13 || i == 18 || i == 23 {
				i++
			}
			hi, lo := unhex(uid[i]), unhex(uid[i+1])
			ok = hi < 16 && lo < 16
			bin[at] = hi<<4 | lo
			at++
		}
		if ok {
			return bin, false
		}
	}
	sum := sha256.Sum256([]byte(uid))
	copy(bin[:], sum[:])
	return bin, true
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	default:
		return 255
	}
}

func unpackUID(bin *[16]byte) types.UID {
	var b [36]byte
	hex.Encode(b[0:8], bin[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], bin[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], bin[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], bin[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], bin[10:16])
	return types.UID(b[:])
}

// PackVersion reads a resourceVersion that a number can represent: decimal, without a leading zero.
func PackVersion(version string) (uint64, bool) {
	if version == "" || version[0] == '0' || version[0] == '+' {
		return 0, false
	}
	rv, err := strconv.ParseUint(version, 10, 64)
	return rv, err == nil
}

// Nanos bounds an instant to the range of int64 nanoseconds, towards later: a very early expiry
// becomes 1970, which is just as due, and a very late one never comes.
func Nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s < 0:
		return 0
	default:
		return t.UnixNano()
	}
}

func cloneString(s string) string { return strings.Clone(s) }

// interner gives equal strings one small number and counts its users. It forgets a string with its
// last user, so that deleted namespaces and sources leave nothing behind. Number 0 is always the
// empty string.
type interner struct {
	ids     map[string]uint32
	strings []string
	users   []uint32
	free    []uint32
}

func newInterner() *interner {
	return &interner{ids: map[string]uint32{}, strings: []string{""}, users: []uint32{0}}
}

// add returns the number of s and counts one more user. It copies s.
func (in *interner) add(s string) uint32 {
	if s == "" {
		return 0
	}
	id, ok := in.ids[s]
	if !ok {
		s = cloneString(s)
		if n := len(in.free); n > 0 {
			id = in.free[n-1]
			in.free = in.free[:n-1]
			in.strings[id] = s
		} else {
			id = uint32(len(in.strings))
			in.strings = append(in.strings, s)
			in.users = append(in.users, 0)
		}
		in.ids[s] = id
	}
	in.users[id]++
	return id
}

// drop counts one user less.
func (in *interner) drop(id uint32) {
	if id == 0 {
		return
	}
	in.users[id]--
	if in.users[id] == 0 {
		delete(in.ids, in.strings[id])
		in.strings[id] = ""
		in.free = append(in.free, id)
	}
}

func (in *interner) get(id uint32) string { return in.strings[id] }
