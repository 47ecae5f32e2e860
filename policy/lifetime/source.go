package lifetime

import (
	"fmt"
	"strings"
)

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
