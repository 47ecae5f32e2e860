package main

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// entryData is one expiry for programs.
type entryData struct {
	Event     string         `json:"event,omitempty" doc:"with --watch, which prints a list each time that rows change: NEW, CHANGED or GONE"`
	Object    objectData     `json:"object"`
	Trigger   string         `json:"trigger" doc:"ttl, label, cleanup or deadline"`
	Source    string         `json:"source" doc:"object, runtime/NAME, job/NAME or tally/NAME (of a Pod), namespace/NAME, policy/NAME, or cleanup/NAME or cleanup/NAMESPACE/NAME of a cleanup policy"`
	TTL       string         `json:"ttl" doc:"the TTL or deadline, as a duration, or never; 0s for cleanup"`
	ByOutcome bool           `json:"ttlByOutcome,omitempty" doc:"the outcome decides the TTL; ttl is the longer one"`
	Expiry    *time.Time     `json:"expiry" doc:"null while the object has not finished"`
	Estimate  bool           `json:"estimated,omitempty" doc:"the object does not say when it finished: the TTL starts when the controller sees it. For cleanup: a run before expiry may delete it, too"`
	Left      *int64         `json:"leftSeconds" doc:"negative where it is overdue"`
	Created   *time.Time     `json:"created,omitempty"`
	Finished  *time.Time     `json:"finished,omitempty"`
	DeletedBy string         `json:"deletedBy,omitempty" doc:"who deletes it in Curfew's place, by the native TTL"`
	With      *withData      `json:"deletedWith,omitempty" doc:"its Namespace or owner, if the deletion of that deletes it first; expiry is that of the other object then"`
	History   string         `json:"historyLimits,omitempty" doc:"of the CronJob that owns it, whose controller may delete it first"`
	Uncertain bool           `json:"uncertain,omitempty" doc:"what you may not read, or a limit of a cleanup policy, could block it"`
	Obstacles []obstacleData `json:"obstacles,omitempty"`
}

type obstacleData struct {
	Kind    string `json:"kind" doc:"the BLOCKER of the table"`
	Message string `json:"message"`
	Stops   bool   `json:"stops" doc:"false where it may only delay the deletion"`
}

func objectOf(kind world.Kind, namespace, name string, uid types.UID) objectData {
	return objectData{kind.GroupVersion().String(), kind.Kind, namespace, name, string(uid)}
}

func (r *expiringReport) items() []entryData {
	var out []entryData
	for _, entry := range r.entries {
		item := entryData{
			Object:  objectOf(entry.Kind, entry.Namespace, entry.Name, entry.UID),
			Trigger: string(entry.Trigger), Source: entry.Source.String(), TTL: entry.Value.String(), ByOutcome: entry.ByOutcome, Estimate: entry.Estimated,
			Expiry: timeData(entry.Expiry, r.now), Created: timeData(entry.Created, r.now), Finished: timeData(entry.Finished, r.now),
			DeletedBy: entry.DeletedBy(), History: entry.History, Uncertain: entry.Uncertain, Obstacles: obstaclesData(entry.Obstacles),
		}
		if !entry.Expiry.IsZero() {
			seconds := int64(entry.Expiry.Sub(r.now) / time.Second)
			item.Left = &seconds
		}
		if entry.With != nil {
			item.With = withDataOf(entry.With, r.now)
		}
		out = append(out, item)
	}
	return out
}

func obstaclesData(obstacles []policy.Obstacle) []obstacleData {
	var out []obstacleData
	for _, obstacle := range obstacles {
		out = append(out, obstacleData{string(obstacle.Kind), obstacle.Message, obstacle.Stops})
	}
	return out
}
