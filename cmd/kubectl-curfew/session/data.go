package session

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/resolution"
)

// ValueData is a default as it is filled in, within the bounds; nil for none.
func ValueData(value resolution.Value) *SettingData {
	if !value.Set {
		return nil
	}
	out := &SettingData{Path: value.Path, Value: value.TTL.String(), Source: value.Source.String()}
	if value.Err != nil {
		out.Value, out.Error = value.Text, value.Err.Error()
	}
	return out
}

type ObstacleData struct {
	Kind    string `json:"kind" doc:"the BLOCKER of the table"`
	Message string `json:"message"`
	Stops   bool   `json:"stops" doc:"false where it may only delay the deletion"`
}

func ObjectOf(kind world.Kind, namespace, name string, uid types.UID) console.ObjectData {
	return console.ObjectOf(kind.GroupVersion().String(), kind.Kind, namespace, name, string(uid))
}

func ObstaclesData(obstacles []judging.Obstacle) []ObstacleData {
	return console.Map(obstacles, func(o judging.Obstacle) ObstacleData { return ObstacleData{string(o.Kind), o.Message, o.Stops} })
}

// Expires is when an object is deleted, or how long after it has finished.
func Expires(entry *world.Entry, zone *time.Location) string {
	switch {
	case entry.Estimated && entry.Trigger == policy.TriggerCleanup:
		return "by " + console.Instant(entry.Expiry, zone)
	case entry.Estimated:
		return "about " + console.Instant(entry.Expiry, zone)
	case !entry.Expiry.IsZero():
		return console.Instant(entry.Expiry, zone)
	case entry.Value.Never && entry.ByOutcome:
		return "never, or as it ends"
	case entry.Value.Never:
		return "never"
	case entry.ByOutcome:
		return "up to " + entry.Value.String() + " after it finishes"
	default:
		return entry.Value.String() + " after it finishes"
	}
}

// WithData is another object, whose deletion deletes this one.
type WithData struct {
	Object console.ObjectData `json:"object"`
	Expiry *time.Time         `json:"expiry" doc:"null if that is to finish first, or being deleted"`
}

func WithDataOf(with *world.Cascade, now time.Time) *WithData {
	out := &WithData{Object: ObjectOf(with.Kind, with.Namespace, with.Name, "")}
	if with.Entry != nil {
		out.Expiry = console.TimeData(with.Entry.Expiry, now)
	}
	return out
}

type SettingData struct {
	Path   string `json:"path" doc:"the annotation or field"`
	Value  string `json:"value" doc:"as written"`
	Source string `json:"source,omitempty" doc:"of a bound"`
	Error  string `json:"error,omitempty" doc:"why the value cannot be used"`
}

func SettingOf(setting *lifetime.Setting) SettingData {
	out := SettingData{Path: setting.Path, Value: setting.Text}
	if setting.Source.Name != "" {
		out.Source = setting.Source.String()
	}
	if setting.Err != nil {
		out.Error = setting.Err.Error()
	}
	return out
}

// SettingText is one setting, such as ttlSecondsAfterFinished 86400 (1d).
func SettingText(field string, setting *lifetime.Setting) string {
	out := field + " " + quote.Shorten(setting.Text)
	if setting.Err != nil {
		return fmt.Sprintf("%s, which cannot be used: %s", out, setting.Err)
	}
	if text := setting.TTL.String(); text != setting.Text {
		out += " (" + text + ")"
	}
	return out
}

// Triggers returns the names of the triggers by which objects become due.
func Triggers() (names []string) {
	for _, info := range judging.Triggers() {
		if info.Verb != "" {
			names = append(names, string(info.Name))
		}
	}
	return names
}

// EitherOf writes names as a choice: a, b or c.
func EitherOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
