package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// expiringReport is the answer of expiring.
type expiringReport struct {
	now        time.Time
	everywhere bool
	// namespace that was asked about; empty for all.
	namespace string
	entries   []*world.Entry
	notes     []string
	// unlisted are the kinds that could not be listed, whose objects are not known.
	unlisted []schema.GroupResource
}

// expiringOutputs are the formats.
var expiringOutputs = map[string]func(report *expiringReport, out io.Writer) error{
	"table": func(report *expiringReport, out io.Writer) error { return table(out, report.rows(false)) },
	"wide":  func(report *expiringReport, out io.Writer) error { return table(out, report.rows(true)) },
	"json":  func(report *expiringReport, out io.Writer) error { return asJSON(report.data(), out) },
	"yaml":  func(report *expiringReport, out io.Writer) error { return asYAML(report.data(), out) },
	"name": func(report *expiringReport, out io.Writer) error {
		told := map[types.UID]bool{} // What goes and has a deadline as well is one object.
		for _, entry := range report.entries {
			if entry.UID != "" && told[entry.UID] {
				continue
			}
			told[entry.UID] = true
			if _, err := fmt.Fprintln(out, entry.Kind.Name(entry.Name)); err != nil {
				return err
			}
		}
		return nil
	},
}

func names[T any](outputs map[string]T) []string { return slices.Sorted(maps.Keys(outputs)) }

func asJSON(value any, out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func asYAML(value any, out io.Writer) error {
	text, err := lint.MarshalYAML(value)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// rows are the table, with its header. Nothing has none.
func (r *expiringReport) rows(wide bool) [][]string {
	if len(r.entries) == 0 {
		return nil
	}
	out := [][]string{r.header(wide)}
	for _, entry := range r.entries {
		out = append(out, r.row(entry, r.now, wide))
	}
	return out
}

func (r *expiringReport) header(wide bool) []string {
	out := []string{"NAME", "EXPIRES", "LEFT", "TRIGGER", "SOURCE", "BLOCKER"}
	if r.everywhere {
		out = append([]string{"NAMESPACE"}, out...)
	}
	if wide {
		out = append(out[:len(out)-1], "TTL", "CREATED", "FINISHED", "BLOCKER")
	}
	return out
}

func (r *expiringReport) row(entry *world.Entry, now time.Time, wide bool) []string {
	zone := now.Location()
	expires, remaining := instant(entry.Expiry, zone), left(entry.Expiry, now)
	switch {
	case entry.Expiry.IsZero() && entry.Value.Never && entry.ByOutcome:
		expires = "never, or as it ends"
	case entry.Expiry.IsZero() && entry.Value.Never:
		expires = "never"
	case entry.Expiry.IsZero():
		expires = entry.Value.String() + " after it finishes"
		if entry.ByOutcome {
			expires = "up to " + expires
		}
	case entry.Estimated:
		expires = "about " + expires
	}
	out := []string{entry.Kind.Name(entry.Name), expires, remaining, string(entry.Trigger), entry.Source.String()}
	if r.everywhere {
		namespace := entry.Namespace
		if namespace == "" {
			namespace = "-"
		}
		out = append([]string{namespace}, out...)
	}
	blocker := "-"
	if obstacle := entry.Blocker(); obstacle != nil {
		blocker = string(obstacle.Kind)
		if wide {
			blocker = obstacle.Message
		}
	}
	if wide {
		out = append(out, ttlText(entry), instant(entry.Created, zone), instant(entry.Finished, zone))
	}
	return append(out, blocker)
}

// ttlText is how long an object may live. Until a date, that is no round number.
func ttlText(entry *world.Entry) string {
	if entry.Trigger == policy.TriggerLabel {
		return twoUnits(entry.Value.After)
	}
	return entry.Value.String()
}

// expiringData is the answer for programs.
type expiringData struct {
	Now   time.Time   `json:"now"`
	Items []entryData `json:"items"`
	Notes []string    `json:"notes,omitempty"`
}

type entryData struct {
	Object  objectData `json:"object"`
	Trigger string     `json:"trigger"`
	Source  string     `json:"source"`
	TTL     string     `json:"ttl"`
	// ByOutcome: how it ends decides its TTL, and ttl is the longer one.
	ByOutcome bool       `json:"ttlByOutcome,omitempty"`
	Expiry    *time.Time `json:"expiry"`
	Estimate  bool       `json:"estimated,omitempty"`
	// Left are seconds; negative where it is overdue.
	Left      *int64         `json:"leftSeconds"`
	Created   *time.Time     `json:"created,omitempty"`
	Finished  *time.Time     `json:"finished,omitempty"`
	Obstacles []obstacleData `json:"obstacles,omitempty"`
}

type objectData struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

type obstacleData struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Stops   bool   `json:"stops"`
}

func (r *expiringReport) data() *expiringData {
	out := &expiringData{Now: r.now, Items: []entryData{}, Notes: r.notes}
	for _, entry := range r.entries {
		item := entryData{
			Object:  objectData{entry.Kind.GroupVersion().String(), entry.Kind.Kind, entry.Namespace, entry.Name, string(entry.UID)},
			Trigger: string(entry.Trigger), Source: entry.Source.String(), TTL: entry.Value.String(), ByOutcome: entry.ByOutcome, Estimate: entry.Estimated,
			Expiry: timeData(entry.Expiry, r.now), Created: timeData(entry.Created, r.now), Finished: timeData(entry.Finished, r.now),
			Obstacles: obstaclesData(entry.Obstacles),
		}
		if !entry.Expiry.IsZero() {
			seconds := int64(entry.Expiry.Sub(r.now) / time.Second)
			item.Left = &seconds
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// timeData is a time in the zone of now; nil where there is none.
func timeData(at, now time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	local := at.In(now.Location())
	return &local
}

func obstaclesData(obstacles []policy.Obstacle) []obstacleData {
	var out []obstacleData
	for _, obstacle := range obstacles {
		out = append(out, obstacleData{string(obstacle.Kind), obstacle.Message, obstacle.Stops})
	}
	return out
}
