package invariants

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Record is a write that took effect, or a DELETE or a read that the API server answered.
type Record struct {
	// Client is the process that sent the request, and User the user that it acted as.
	Client, User string
	// Trigger is why Curfew sent a DELETE: "ttl", "label" or "cleanup"; "" if it is not known.
	Trigger                                      string
	Verb, Group, Resource, Kind, Namespace, Name string
	// Sent is when the request was sent, and At when it took effect, both at the latest, by the API
	// server's clock.
	Sent, At time.Time
	// Code of the answer, whether or not it reached the client.
	Code int
	// Before is nil for a new object, and After for one that is gone: Last is then its last state.
	Before, After, Last *unstructured.Unstructured
	// Preconditions of a DELETE.
	Preconditions *metav1.Preconditions
	DryRun        bool
	// Consistent: a GET, or a LIST of all objects of the kind, that no cache answered.
	Consistent bool
}

// version is an object from one write to the next. object is nil where there is none.
type version struct {
	from, to time.Time // to is zero for the last one
	object   *unstructured.Unstructured
}

// timeline has the versions of all objects, by resource and key.
type timeline map[string][]version

func nameOf(resource, namespace, name string) string {
	return resource + " " + strings.TrimPrefix(namespace+"/"+name, "/")
}

// add takes over a write.
func (t timeline) add(record *Record) {
	if record.Code != 200 || record.DryRun || record.Verb == "list" || record.Before == record.After {
		return
	}
	if record.Kind == "Event" || record.Kind == "Lease" {
		return
	}
	key := nameOf(record.Resource, record.Namespace, record.Name)
	if known := t[key]; len(known) > 0 {
		known[len(known)-1].to = record.At
	}
	t[key] = append(t[key], version{from: record.At, object: record.After})
}

// between are the versions that existed at some time in an interval.
func (t timeline) between(key string, from, to time.Time) (out []version) {
	for _, version := range t[key] {
		if !version.from.After(to) && (version.to.IsZero() || !version.to.Before(from)) {
			out = append(out, version)
		}
	}
	return out
}

// of are the keys of a resource.
func (t timeline) of(resource string) (out []string) {
	for key := range t {
		if strings.HasPrefix(key, resource+" ") {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
