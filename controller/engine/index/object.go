package index

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the handle of a kind that is registered for a trigger. The zero value is no kind. It is
// valid for the engine that returned it.
type Kind uint16

// Object is one tracked object. The engine copies what it keeps and holds on to no string of it.
type Object struct {
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
func (o *Object) Claimed() bool { return o.Backfill && SourceClass(o.Source) == ClassObject }

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
func (e *Entry) Compare(version string) Order {
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
func (e *Entry) NewerThan(limit uint64) bool { return e.Flags&FlagOddRV == 0 && e.rv > limit }

// Waits reports whether the entry is in a heap.
func (e *Entry) Waits() bool { return e.pos >= 0 }
