// Package record is the form in which an Event about deletions lists some of the objects, for
// kubectl curfew explain. Package controller/events writes it.
package record

import (
	"encoding/json"
	"slices"
	"time"

	"curfew.dev/curfew/policy/wellknown"
)

const (
	// Reason of the Events that have records.
	Reason = "Deleted"
	// most bounds how many records an Event holds.
	most = 40
)

// Record is one object that Curfew deleted.
type Record struct {
	// Resource with its group, such as jobs.batch.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Trigger   string `json:"trigger"`
	Source    string `json:"source"`
	// From and To are when the deletions that it was among took place.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Total is set in the last record of an Event: how many objects the Event has counted. It has
	// records of some of them.
	Total int `json:"total,omitempty"`
}

// Latest are the records that one Event holds.
func Latest(all []Record) []Record { return all[max(0, len(all)-most):] }

// Annotations returns the annotations of an Event that has counted a total, with records, oldest
// first, as JSON; nil without any. The text of the Event is for people.
func Annotations(all []Record, total int) map[string]string {
	if len(all) == 0 {
		return nil
	}
	all = slices.Clone(all)
	all[len(all)-1].Total = total
	text, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return map[string]string{wellknown.AnnotationDeleted: string(text)}
}

// Read reads the records of an Event. It returns none if they are unreadable: the API server cut
// them, or another writer wrote them.
func Read(annotations map[string]string) []Record {
	var out []Record
	if json.Unmarshal([]byte(annotations[wellknown.AnnotationDeleted]), &out) != nil {
		return nil
	}
	return out
}
