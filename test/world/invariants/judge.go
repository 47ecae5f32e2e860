package invariants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Judge judges a log. Set the fields before the first record.
type Judge struct {
	// Curfew reports whether a client is a process of Curfew.
	Curfew func(client string) bool
	// Own is the namespace of Curfew. CleanupUser deletes for cleanup policies.
	Own, CleanupUser string
	// Grain is how exactly Curfew knows the API server's time: 0 if the clocks agree.
	Grain time.Duration
	// Since is from when on the rules count by which a DELETE was sent that was sent at a time. By
	// default they may be 15 seconds old.
	Since func(sent time.Time) time.Time
	// Stopped has when a process was stopped. It changes nothing after that. Reads may go on: nothing
	// ends the goroutines of a process in a test.
	Stopped map[string]time.Time
	// Reads: the log has what Curfew read, so that S12 can be judged.
	Reads bool
	// Stamped: admission runs, so that a default begins when it is written. Else an object that has
	// only a default is never forgotten.
	Stamped bool

	faults    []string
	rules     timeline
	confirmed map[string]map[string]time.Time // by client, and by resource or resource/name
	accepted  map[types.UID]int
	counts
}

const (
	// staleFor is how old the rules may be by which an object is deleted (S12).
	staleFor = 15 * time.Second
	// pausedFrom is when a pause is in effect (S11).
	pausedFrom = 5 * time.Second
	// forgottenAfter is how long after its time an object may still exist in a history at rest.
	forgottenAfter = 2 * time.Minute
)

// ruleKinds are the kinds that must be confirmed before a DELETE (S12).
var ruleKinds = []string{"namespaces", "lifecyclepolicies", "kindprofiles"}

// Check returns the faults of a history that has come to rest. Each begins with the invariant.
func (j *Judge) Check(records []*Record) []string {
	var now time.Time
	for _, record := range records {
		now = record.At
		j.Add(record)
	}
	j.Settle(now, forgottenAfter)
	return j.Faults()
}

// Faults returns the faults of the log so far. Each begins with the invariant.
func (j *Judge) Faults() []string { return j.faults }

// Add judges the next record of the log.
func (j *Judge) Add(record *Record) {
	if j.rules == nil {
		j.rules, j.confirmed, j.accepted = timeline{}, map[string]map[string]time.Time{}, map[types.UID]int{}
		j.counts = counts{map[string]int64{}, map[string]int64{}, map[types.UID]bool{}, map[types.UID]bool{}}
	}
	if j.Curfew(record.Client) {
		j.curfew(record)
	}
	j.count(record)
	if record.Before == nil && record.After != nil {
		delete(j.accepted, record.After.GetUID()) // A restored backup brings it back.
	}
	j.rules.add(record)
}

// Settle judges the objects left at the end of the log, in a cluster at rest. They may exist for a
// while after they are due.
func (j *Judge) Settle(now time.Time, within time.Duration) {
	for key, object := range j.left() {
		if why := j.Forgotten(object, now, within); why != "" {
			j.fault("S3", nil, "%s %s", key, why)
		}
	}
	j.tallies()
	j.cleanups()
}

// Forgotten returns why an object should have been deleted that still exists, or "".
func (j *Judge) Forgotten(object *unstructured.Unstructured, now time.Time, within time.Duration) string {
	switch due, why := j.certain(object, now); {
	case why == noTime:
		return "has finished, and its finish time was never written"
	case why == "" && now.Sub(due) > within:
		return fmt.Sprintf("was due at %s and still exists at %s", due.Format(clock), now.Format(clock))
	}
	return ""
}

// Waits reports whether a history that was checked goes on: an object that exists at its end will be
// due within a time, or has just been.
func (j *Judge) Waits(now time.Time, within time.Duration) bool {
	for _, object := range j.left() {
		if due, why := j.certain(object, now); why == "" && due.Add(forgottenAfter).After(now) && due.Before(now.Add(within)) {
			return true
		}
	}
	return false
}

// left are the objects that exist at the end of the log.
func (j *Judge) left() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for key, versions := range j.rules {
		last := versions[len(versions)-1].object
		if last != nil && last.GetDeletionTimestamp() == nil && !strings.HasPrefix(key, "namespaces ") {
			out[key] = last
		}
	}
	return out
}

// certain is when an object is due by the rules of now, if no other rule can keep it.
func (j *Judge) certain(object *unstructured.Unstructured, now time.Time) (due time.Time, why string) {
	switch {
	case strings.HasPrefix(object.GetNamespace(), "kube-"):
		return due, "it is of the system"
	case slices.Contains(object.GetFinalizers(), tracking):
		return due, "its Job has not counted it"
	}
	q := &question{timeline: j.rules, object: object, from: now, to: now, ownOnly: !j.Stamped}
	if due, why = q.due(); why == noNamespace || strings.Contains(why, "dry-run") || strings.Contains(why, "protected") {
		return due, why
	}
	deadline, bad := read(object.GetAnnotations()[annotationDeadline])
	if object.GetKind() == "Run" && bad == "" && !marked(object) && !endOf(object, nil).finished {
		return object.GetCreationTimestamp().Add(deadline), ""
	}
	return due, why
}

// Due returns when the object of a DELETE was due by rules that counted for it, or why it was not.
func (j *Judge) Due(record *Record) (due time.Time, why string) {
	q := &question{timeline: j.rules, object: record.Before, trigger: record.Trigger, from: j.since(record.Sent), to: record.At}
	return q.due()
}

func (j *Judge) since(sent time.Time) time.Time {
	if j.Since != nil {
		return j.Since(sent)
	}
	return sent.Add(-staleFor)
}

func (j *Judge) fault(invariant string, record *Record, format string, args ...any) {
	name := ""
	if record != nil {
		name = fmt.Sprintf("%s %s %s/%s by %s at %s: ", record.Verb, record.Resource, record.Namespace, record.Name, record.Client, record.At.Format(clock))
	}
	j.faults = append(j.faults, invariant+": "+name+fmt.Sprintf(format, args...))
}

const clock = "15:04:05.000"

// curfew judges one record of Curfew.
func (j *Judge) curfew(record *Record) {
	if record.Verb == "list" || record.Verb == "get" {
		j.confirm(record)
		return
	}
	if t, ok := j.Stopped[record.Client]; ok && record.Sent.After(t) && record.Kind != "Event" {
		j.fault("S8", record, "the process was stopped at %s", t.Format(clock))
	}
	if record.Code != 200 || record.DryRun {
		return
	}
	switch own := record.Group == "curfew.dev" || record.Namespace == j.Own && j.Own != ""; {
	case record.Verb == "delete" && !own:
		j.deletion(record)
	case record.Verb != "delete" && record.Before != nil:
		j.write(record)
	}
}

// confirm notes a read of rules that no cache answered.
func (j *Judge) confirm(record *Record) {
	if record.Code != 200 || !record.Consistent {
		return
	}
	if j.confirmed[record.Client] == nil {
		j.confirmed[record.Client] = map[string]time.Time{}
	}
	name := record.Resource
	if record.Verb == "get" {
		name += "/" + record.Name
	}
	if record.Sent.After(j.confirmed[record.Client][name]) {
		j.confirmed[record.Client][name] = record.Sent
	}
}

// unconfirmed judges a DELETE by when its client confirmed the rules last.
func (j *Judge) unconfirmed(record *Record) {
	for _, kind := range ruleKinds {
		t := j.confirmed[record.Client][kind]
		if live := j.confirmed[record.Client]["namespaces/"+record.Namespace]; kind == "namespaces" && live.After(t) {
			t = live
		}
		switch {
		case t.IsZero():
			j.fault("S12", record, "%s were never confirmed", kind)
		case record.Sent.Sub(t) > staleFor:
			j.fault("S12", record, "%s were confirmed %s before it was sent", kind, record.Sent.Sub(t))
		}
	}
}

// deletion judges a DELETE of Curfew that was accepted.
func (j *Judge) deletion(record *Record) {
	object := record.Before
	j.preconditions(record)
	if object.GetDeletionTimestamp() != nil {
		j.fault("S1", record, "it was being deleted already")
		return
	}
	if j.accepted[object.GetUID()]++; j.accepted[object.GetUID()] > 1 {
		j.fault("S7", record, "it was deleted twice")
	}
	if slices.Contains(object.GetFinalizers(), tracking) {
		j.fault("S5", record, "its Job has not counted it")
	}
	if j.Reads {
		j.unconfirmed(record)
	}
	if why := j.paused(record, j.triggerOf(record)); why != "" {
		j.fault("S11", record, "%s", why)
	}
	if j.CleanupUser != "" && record.User == j.CleanupUser {
		if why := j.cleanable(record); why != "" {
			j.fault("S10", record, "%s", why)
		}
		return
	}
	due, why := j.Due(record)
	if why == "" && record.At.Add(j.Grain).Before(due) {
		why = fmt.Sprintf("it is due at %s, %s later", due.Format(clock), due.Sub(record.At))
	}
	if why != "" {
		j.fault(kindOfEarly(why), record, "%s", why)
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
func (j *Judge) preconditions(record *Record) {
	object, wanted := record.Before, record.Preconditions
	if wanted == nil {
		wanted = &metav1.Preconditions{}
	}
	collected := slices.ContainsFunc(object.GetFinalizers(), func(n string) bool { return n == "orphan" || n == "foregroundDeletion" })
	switch {
	case wanted.UID == nil || *wanted.UID == "":
		j.fault("S2", record, "it has no UID as a precondition")
	case *wanted.UID != object.GetUID():
		j.fault("S2", record, "it has UID %s as a precondition, and %s was deleted", *wanted.UID, object.GetUID())
	case (wanted.ResourceVersion == nil || *wanted.ResourceVersion == "") && !collected:
		j.fault("S1", record, "it has no resourceVersion as a precondition")
	case wanted.ResourceVersion != nil && *wanted.ResourceVersion != object.GetResourceVersion() && !collected:
		j.fault("S1", record, "it has resourceVersion %s as a precondition, and %s was deleted", *wanted.ResourceVersion, object.GetResourceVersion())
	}
}

// write judges a change that Curfew made to an object.
func (j *Judge) write(record *Record) {
	if record.After == nil {
		return // The last finalizer of an object that is being deleted.
	}
	for _, had := range record.Before.GetFinalizers() {
		if had != prefix+"tally" && !slices.Contains(record.After.GetFinalizers(), had) {
			j.fault("S5", record, "it removes finalizer %s", had)
		}
	}
	if metav1.GetControllerOf(record.After) != nil {
		for _, key := range []string{annotationTTL, labelTTL} {
			if valueOf(record.Before, key) == "" && valueOf(record.After, key) != "" {
				j.fault("S5", record, "it gives %s to an object with a controller", key)
			}
		}
	}
	if marked(record.After) && !marked(record.Before) {
		j.mark(record)
	}
}

// mark judges the mark of a Run that has exceeded its deadline.
func (j *Judge) mark(record *Record) {
	deadline, bad := read(record.Before.GetAnnotations()[annotationDeadline])
	due := record.Before.GetCreationTimestamp().Add(deadline)
	switch {
	case bad != "":
		j.fault("S6", record, "its deadline cannot be read")
	case record.At.Add(j.Grain).Before(due):
		j.fault("S1", record, "it is failed %s before its deadline", due.Sub(record.At))
	}
	if why := j.paused(record, "deadline"); why != "" {
		j.fault("S11", record, "%s", why)
	}
}

func marked(run *unstructured.Unstructured) bool {
	return slices.ContainsFunc(entries(run.Object, "status", "conditions"), func(condition map[string]any) bool {
		return condition["reason"] == "DeadlineExceeded"
	})
}

func valueOf(object *unstructured.Unstructured, key string) string {
	if value := object.GetLabels()[key]; value != "" {
		return value
	}
	return object.GetAnnotations()[key]
}
