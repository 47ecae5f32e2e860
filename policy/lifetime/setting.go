package lifetime

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/quote"
)

// Setting is one value as its author wrote it, with its place and its fault.
type Setting struct {
	// Path of the field, such as metadata.annotations[curfew.dev/default-ttl].
	Path string
	// Source is the level and name of the object that the setting is in, unless that is the judged
	// object itself.
	Source Source
	// Text is the value as written.
	Text string
	// TTL is the value. Deadlines and bounds use After alone.
	TTL TTL
	// Err says why the text cannot be used; the value then means keep (S6).
	Err error
}

// Field is the name that people use for the field: the annotation's key, or the last name of the
// path.
func (s *Setting) Field() string { return FieldName(s.Path) }

// Shown is the value as its author wrote it. Seconds are also shown as a duration: 864000 (10d).
func (s *Setting) Shown() string {
	if _, err := strconv.Atoi(s.Text); err == nil && s.Err == nil {
		return s.Text + " (" + s.TTL.String() + ")"
	}
	return quote.Shorten(s.Text)
}

// Echo is an error of a check of the value's TTL, which begins with that, with the value as its
// author wrote it.
func (s *Setting) Echo(err error) error {
	if err == nil {
		return nil
	}
	if rest, ok := strings.CutPrefix(err.Error(), s.TTL.String()+" "); ok && Violated(err) {
		return errors.New(s.Shown() + " " + rest)
	}
	return err
}

// TTLSet holds the TTLs of one level of precedence. Settings by outcome win over the plain one, and
// an annotation over the native field.
type TTLSet struct {
	All, Succeeded, Failed *Setting
	// Native is the kind's own field, which the kind's own controller reads too.
	Native *Setting
	// NativeSucceeded and NativeFailed are such fields by outcome, which win over Native.
	NativeSucceeded, NativeFailed *Setting
}

// For is the setting for an outcome, or nil.
func (s TTLSet) For(outcome Outcome) *Setting {
	switch {
	case outcome == Succeeded && s.Succeeded != nil:
		return s.Succeeded
	case outcome == Failed && s.Failed != nil:
		return s.Failed
	case s.All != nil:
		return s.All
	default:
		return s.NativeFor(outcome)
	}
}

// NativeFor is the setting of the native fields alone for an outcome, or nil.
func (s TTLSet) NativeFor(outcome Outcome) *Setting {
	switch {
	case outcome == Succeeded && s.NativeSucceeded != nil:
		return s.NativeSucceeded
	case outcome == Failed && s.NativeFailed != nil:
		return s.NativeFailed
	default:
		return s.Native
	}
}

// Natives are the native fields that are set.
func (s TTLSet) Natives() []*Setting {
	return TTLSet{Native: s.Native, NativeSucceeded: s.NativeSucceeded, NativeFailed: s.NativeFailed}.Settings()
}

// Settings returns the settings that are set, in a fixed order.
func (s TTLSet) Settings() []*Setting {
	return Present(s.Native, s.NativeSucceeded, s.NativeFailed, s.All, s.Succeeded, s.Failed)
}

// Empty reports whether nothing is set.
func (s TTLSet) Empty() bool { return s == TTLSet{} }

func TTLSetOf(where string, fields map[string]string, all, succeeded, failed string) TTLSet {
	return TTLSet{
		All:       TTLSetting(where, fields, all),
		Succeeded: TTLSetting(where, fields, succeeded),
		Failed:    TTLSetting(where, fields, failed),
	}
}

func TTLSetting(where string, fields map[string]string, key string) *Setting {
	text, ok := fields[key]
	if !ok {
		return nil
	}
	setting := &Setting{Path: fmt.Sprintf("%s[%s]", where, key), Text: text}
	setting.TTL, setting.Err = ParseTTL(text)
	return setting
}

// minDeadline: a deadline of zero would fail an object before it began. Native fields do not allow
// it either.
const minDeadline = time.Second

func DeadlineSetting(path, text string) *Setting {
	setting := DurationSetting(path, text)
	if setting.Err == nil && setting.TTL.After < minDeadline {
		setting.Err = fmt.Errorf("%q is below 1: a deadline is 1s or more", text)
	}
	return setting
}

func DurationSetting(path, text string) *Setting {
	setting := &Setting{Path: path, Text: text}
	setting.TTL.After, setting.Err = ParseDuration(text)
	return setting
}

// FieldName is the annotation's key, or the last name of the path.
func FieldName(path string) string {
	if open := strings.IndexByte(path, '['); open >= 0 && strings.HasSuffix(path, "]") {
		return path[open+1 : len(path)-1]
	}
	return path[strings.LastIndexByte(path, '.')+1:]
}

// NativeField is a field of an object that holds a time in seconds, or as a Go duration.
type NativeField struct {
	Set     bool
	Seconds int64
	// None means that the author wrote a duration of 0: no limit.
	None bool
	// Err says why the field cannot be read; Set is then true.
	Err error
	// Text is the value as written, where Err is set or the field is not a number.
	Text string
}

// Same reports whether two readable fields have the same value.
func (n NativeField) Same(other NativeField) bool {
	n.Text, other.Text = "", ""
	return n.Err == nil && other.Err == nil && n == other
}

// Native makes a [NativeField] of an optional integer of a typed object.
func Native[T int32 | int64](value *T) NativeField {
	if value == nil {
		return NativeField{}
	}
	return NativeField{Set: true, Seconds: int64(*value)}
}

func (n NativeField) Setting(path fieldpath.FieldPath) *Setting {
	switch {
	case !n.Set:
		return nil
	case n.Err != nil:
		return &Setting{Path: path.String(), Text: n.Text, Err: n.Err}
	default:
		return DurationSetting(path.String(), strconv.FormatInt(n.Seconds, 10))
	}
}

// Level is a level of precedence.
type Level string

// The levels, in the order in which they decide a TTL.
const (
	LevelRuntime   Level = "runtime"
	LevelObject    Level = "object"
	LevelJob       Level = "job"   // of a Pod; never stamped
	LevelTally     Level = "tally" // of a Pod that it has counted; never stamped
	LevelNamespace Level = "namespace"
	LevelPolicy    Level = "policy"
)

// Source names where a value came from: the level, and the name of the object at that level.
type Source struct {
	Level Level
	Name  string
}

// String is the source as annotations, logs and metrics write it: "object", "namespace/ci",
// "policy/platform".
func (s Source) String() string {
	if s.Name == "" {
		return string(s.Level)
	}
	return string(s.Level) + "/" + s.Name
}

// Phrase is the source as a sentence names it: namespace "ci".
func (s Source) Phrase() string {
	if s.Name == "" {
		return "the " + string(s.Level)
	}
	return fmt.Sprintf("%s %q", s.Level, s.Name)
}

// maxSourceText: the longest level, a slash and a name of at most 253 characters.
const maxSourceText = 253 + len("namespace/")

// IsDefault reports whether the source is a Namespace or a LifecyclePolicy.
func (s Source) IsDefault() bool { return s.Level == LevelNamespace || s.Level == LevelPolicy }

// ParseSource reads what [Source.String] wrote. Any other text is the level object, which gives no
// rights.
func ParseSource(text string) Source {
	level, name, found := strings.Cut(text, "/")
	if found && len(text) <= maxSourceText {
		switch level := Level(level); level {
		case LevelRuntime, LevelNamespace, LevelPolicy:
			return Source{Level: level, Name: name}
		}
	}
	return Source{Level: LevelObject}
}

// Outcome is how an execution ended.
type Outcome uint8

// The outcomes. An object that is not finished has none.
const (
	NoOutcome Outcome = iota
	Succeeded
	Failed
)

// String is the outcome as messages write it.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	default:
		return "unfinished"
	}
}
