package invariants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/test/world"
)

// Judge judges a history.
type Judge struct {
	// Curfew reports whether a client is a process of Curfew.
	Curfew func(client string) bool
	// Own is the namespace of Curfew. CleanupUser deletes for cleanup policies.
	Own, CleanupUser string
	// Grain is how exactly Curfew knows the API server's time: 0 if the clocks agree.
	Grain time.Duration
	// Stopped has when a process was stopped. It changes nothing after that. Reads may go on: nothing
	// ends the goroutines of a process in a test.
	Stopped map[string]time.Time
	// Settled: the history is at rest, and everything that is due was deleted.
	Settled bool

	faults    []string
	rules     timeline
	confirmed map[string]map[string]time.Time // by client, and by resource or resource/name
	accepted  map[types.UID]int
}

const (
	// staleFor is how old the rules may be by which an object is deleted (S12).
	staleFor = 15 * time.Second
	// pausedFrom is when a pause is in effect (S11).
	pausedFrom = time.Second
	// forgottenAfter is how long after its time an object may still exist in a history at rest.
	forgottenAfter = 2 * time.Minute
)

// ruleKinds are the kinds that must be confirmed before a DELETE (S12).
var ruleKinds = []string{"namespaces", "lifecyclepolicies", "kindprofiles"}

// Check returns the faults of a history. Each begins with the invariant.
func (j *Judge) Check(records []*world.Record) []string {
	j.faults, j.rules, j.confirmed, j.accepted = nil, timeline{}, map[string]map[string]time.Time{}, map[types.UID]int{}
	var now time.Time
	for _, one := range records {
		now = one.At
		if j.Curfew(one.Client) {
			j.one(one)
		}
		j.rules.add(one)
	}
	if j.Settled {
		j.forgotten(now)
		j.tallies(records)
		j.cleanups(records)
	}
	return j.faults
}

// Waits reports whether a history that was checked goes on: an object that exists at its end will be
// due within a time, or has just been.
func (j *Judge) Waits(now time.Time, within time.Duration) bool {
	for _, versions := range j.rules {
		if object := versions[len(versions)-1].object; object != nil && object.GetDeletionTimestamp() == nil {
			if due, ok := j.rules.certain(object, now); ok && due.Add(forgottenAfter).After(now) && due.Before(now.Add(within)) {
				return true
			}
		}
	}
	return false
}

func (j *Judge) fault(invariant string, one *world.Record, format string, args ...any) {
	name := ""
	if one != nil {
		name = fmt.Sprintf("%s %s %s/%s by %s at %s: ", one.Verb, one.Resource.Resource, one.Namespace, one.Name, one.Client, one.At.Format(clock))
	}
	j.faults = append(j.faults, invariant+": "+name+fmt.Sprintf(format, args...))
}

const clock = "15:04:05.000"

// one judges one record of Curfew.
func (j *Judge) one(one *world.Record) {
	if one.Verb == "list" || one.Verb == "get" {
		j.confirm(one)
		return
	}
	if at, ok := j.Stopped[one.Client]; ok && one.Sent.After(at) && one.Resource.Kind != "Event" {
		j.fault("S8", one, "the process was stopped at %s", at.Format(clock))
	}
	if one.Code != 200 || one.DryRun {
		return
	}
	switch own := one.Resource.Group == "curfew.dev" || one.Namespace == j.Own; {
	case one.Verb == "delete" && !own:
		j.deletion(one)
	case one.Verb != "delete" && one.Before != nil:
		j.write(one)
	}
}

// confirm notes a LIST of rules that was consistent and complete, and a GET of one, as a live
// judgement sends it.
func (j *Judge) confirm(one *world.Record) {
	if one.Code != 200 || one.Query("resourceVersion") != "" || one.Query("continue") != "" || one.Query("fieldSelector") != "" {
		return
	}
	if j.confirmed[one.Client] == nil {
		j.confirmed[one.Client] = map[string]time.Time{}
	}
	of := one.Resource.Resource
	if one.Verb == "get" {
		of += "/" + one.Name
	}
	if one.Sent.After(j.confirmed[one.Client][of]) {
		j.confirmed[one.Client][of] = one.Sent
	}
}

// confirmedAt is when a client confirmed the rules of a kind that concern a namespace; zero: never.
func (j *Judge) confirmedAt(client, kind, namespace string) time.Time {
	at := j.confirmed[client][kind]
	if one := j.confirmed[client]["namespaces/"+namespace]; kind == "namespaces" && one.After(at) {
		return one
	}
	return at
}

// deletion judges a DELETE of Curfew that was accepted.
func (j *Judge) deletion(one *world.Record) {
	object := one.Before
	j.preconditions(one)
	if object.GetDeletionTimestamp() != nil {
		j.fault("S1", one, "it was being deleted already")
		return
	}
	if j.accepted[object.GetUID()]++; j.accepted[object.GetUID()] > 1 {
		j.fault("S7", one, "it was deleted twice")
	}
	if slices.Contains(object.GetFinalizers(), "batch.kubernetes.io/job-tracking") {
		j.fault("S5", one, "its Job has not counted it")
	}
	for _, kind := range ruleKinds {
		switch at := j.confirmedAt(one.Client, kind, one.Namespace); {
		case at.IsZero():
			j.fault("S12", one, "%s were never confirmed", kind)
		case one.Sent.Sub(at) > staleFor:
			j.fault("S12", one, "%s were confirmed %s before it was sent", kind, one.Sent.Sub(at))
		}
	}
	if why := j.rules.paused(one, triggerOf(one, j.CleanupUser)); why != "" {
		j.fault("S11", one, "%s", why)
	}
	if one.User == j.CleanupUser {
		if why := j.rules.cleanable(one); why != "" {
			j.fault("S10", one, "%s", why)
		}
		return
	}
	if why := j.rules.early(one, j.Grain); why != "" {
		j.fault(kindOfEarly(why), one, "%s", why)
	}
}

// kindOfEarly tells S4 and S6 from S1.
func kindOfEarly(why string) string {
	switch {
	case strings.Contains(why, "has not finished"):
		return "S4"
	case strings.Contains(why, "cannot be read"):
		return "S6"
	}
	return "S1"
}

// preconditions judges whether a DELETE could only have deleted the state that was judged.
func (j *Judge) preconditions(one *world.Record) {
	object := one.Before
	wanted := &metav1.Preconditions{}
	if one.Options != nil && one.Options.Preconditions != nil {
		wanted = one.Options.Preconditions
	}
	collected := slices.ContainsFunc(object.GetFinalizers(), func(one string) bool { return one == "orphan" || one == "foregroundDeletion" })
	switch {
	case wanted.UID == nil || *wanted.UID == "":
		j.fault("S2", one, "it has no UID as a precondition")
	case wanted.ResourceVersion == nil && !collected:
		j.fault("S1", one, "it has no resourceVersion as a precondition")
	}
}

// write judges a change that Curfew made to an object.
func (j *Judge) write(one *world.Record) {
	if one.After == nil {
		return // The last finalizer of an object that is being deleted.
	}
	for _, had := range one.Before.GetFinalizers() {
		if had != "curfew.dev/tally" && !slices.Contains(one.After.GetFinalizers(), had) {
			j.fault("S5", one, "it removes finalizer %s", had)
		}
	}
	if metav1.GetControllerOf(one.After) != nil {
		for _, key := range []string{annotationTTL, labelTTL} {
			if valueOf(one.Before, key) == "" && valueOf(one.After, key) != "" {
				j.fault("S5", one, "it gives %s to an object with a controller", key)
			}
		}
	}
	if marked(one.After) && !marked(one.Before) {
		j.mark(one)
	}
}

// mark judges the mark of a Run that has exceeded its deadline.
func (j *Judge) mark(one *world.Record) {
	deadline, err := time.ParseDuration(one.Before.GetAnnotations()[annotationDeadline])
	due := one.Before.GetCreationTimestamp().Add(deadline)
	switch {
	case err != nil:
		j.fault("S6", one, "its deadline cannot be read")
	case one.At.Add(j.Grain).Before(due):
		j.fault("S1", one, "it is failed %s before its deadline", due.Sub(one.At))
	}
	if why := j.rules.paused(one, "deadline"); why != "" {
		j.fault("S11", one, "%s", why)
	}
}

func marked(run *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(run.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["reason"] == "DeadlineExceeded"
	})
}

func valueOf(object *unstructured.Unstructured, key string) string {
	if value := object.GetLabels()[key]; value != "" {
		return value
	}
	return object.GetAnnotations()[key]
}

// forgotten finds objects that should have been deleted long ago (S3).
func (j *Judge) forgotten(now time.Time) {
	for key, versions := range j.rules {
		last := versions[len(versions)-1]
		if last.object == nil || last.object.GetDeletionTimestamp() != nil || strings.HasPrefix(key, "namespaces ") {
			continue
		}
		if due, ok := j.rules.certain(last.object, now); ok && now.Sub(due) > forgottenAfter {
			j.fault("S3", nil, "%s was due at %s and still exists at %s", key, due.Format(clock), now.Format(clock))
		}
	}
}
