package index

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the handle of a kind that is registered for a trigger. The zero value is no kind. It is
// valid for the engine that returned it.
type Kind uint16

// Entry is one tracked object. The engine copies what it keeps and holds on to no string of it.
type Entry struct {
	Kind      Kind
	Namespace string // empty for cluster-scoped kinds
	Name      string
	UID       types.UID
	// ResourceVersion of the state that was judged. The action applies to no other state.
	ResourceVersion string
	// Expiry is the instant at which the object is due. Zero is not an expiry: Upsert then removes
	// the entry.
	Expiry time.Time
	// Phase distinguishes several purposes of one trigger; usually empty. It follows the trigger's
	// name in metrics and logs: "deadline", and with a phase "deadline-check".
	Phase string
	// Source is where the expiry came from: "object", "runtime/<name>", "namespace/<name>",
	// "policy/<name>".
	Source string
	// Propagation overrides the kind's; empty means the kind's.
	Propagation metav1.DeletionPropagation
	// Live says that the expiry may change without the object changing (a runtime, a default that
	// was resolved live). The engine asks Judge right before it acts.
	Live bool
	// Backfill says that a default applies to an object that is older than the default. Such
	// deletions have their own rate and their own counter instead of a lateness: their expiry may
	// lie years back. If Source is the object, only a stamp claims the backfill and nothing proves
	// it: it yields to other backfill.
	Backfill bool
	// DryRun says that the action is only to be reported. The engine asks for a dry run, reports it
	// once and keeps the entry idle until it changes.
	DryRun bool
	// Epoch is what Engine.Epoch returned before the object was judged. If something changed
	// since that concerns the object, the engine asks Judge right before it acts, as if Live were
	// set.
	Epoch uint64
	// Payload is the data that the action needs of this state, for triggers with payloads. The
	// engine keeps a bounded number of payloads; if it has none, it calls Judge right before it
	// acts.
	Payload any
}

// Claimed reports whether only a stamp, which anyone may have written, says that the object is
// backfill.
func (o *Entry) Claimed() bool { return o.Backfill && SourceClass(o.Source) == ClassObject }

// ClassObject is the class of sources that are the object itself.
const ClassObject = "object"

// SourceClass is the first segment of a source.
func SourceClass(source string) string {
	switch class, _, _ := strings.Cut(source, "/"); class {
	case ClassObject, "namespace", "policy", "runtime":
		return class
	default:
		return ClassObject
	}
}

// Order is the order of two resourceVersions.
type Order uint8

const (
	Unordered Order = iota // one of the two is not a number
	Older
	Same
	Newer
)

// Compare compares a resourceVersion with the version of the entry.
func (e *Record) Compare(version string) Order {
	rv, ok := PackVersion(version)
	switch {
	case !ok || e.Flags&FlagOddRV != 0:
		return Unordered
	case rv < e.rv:
		return Older
	case rv > e.rv:
		return Newer
	default:
		return Same
	}
}

// NewerThan reports whether the version of the entry is a number above a limit.
func (e *Record) NewerThan(limit uint64) bool { return e.Flags&FlagOddRV == 0 && e.rv > limit }

// JudgedAfter reports whether the entry was judged in a later epoch.
func (e *Record) JudgedAfter(epoch uint64) bool { return e.epoch > epoch }

// Waits reports whether the entry is in a heap.
func (e *Record) Waits() bool { return e.pos >= 0 }

// packUID returns the 16 bytes of a UUID in canonical form. For any other UID it returns a digest
// and odd.
func packUID(uid types.UID) (bin [16]byte, odd bool) {
	if len(uid) == 36 && uid[8] == '-' && uid[13] == '-' && uid[18] == '-' && uid[23] == '-' {
		ok := true
		offset := 0
		for i := 0; i < 36 && ok; i += 2 {
			if i == 8 || i == 13 || i == 18 || i == 23 {
				i++
			}
			hi, lo := unhex(uid[i]), unhex(uid[i+1])
			ok = hi < 16 && lo < 16
			bin[offset] = hi<<4 | lo
			offset++
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
func (i *interner) add(s string) uint32 {
	if s == "" {
		return 0
	}
	id, ok := i.ids[s]
	if !ok {
		s = cloneString(s)
		if n := len(i.free); n > 0 {
			id = i.free[n-1]
			i.free = i.free[:n-1]
			i.strings[id] = s
		} else {
			id = uint32(len(i.strings))
			i.strings = append(i.strings, s)
			i.users = append(i.users, 0)
		}
		i.ids[s] = id
	}
	i.users[id]++
	return id
}

// drop counts one user less.
func (i *interner) drop(id uint32) {
	if id == 0 {
		return
	}
	i.users[id]--
	if i.users[id] == 0 {
		delete(i.ids, i.strings[id])
		i.strings[id] = ""
		i.free = append(i.free, id)
	}
}

func (i *interner) get(id uint32) string { return i.strings[id] }
