package tally

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
)

// pod is the kept state of a Pod that a tally selects, or that carries the finalizer.
type pod struct {
	name    string
	uid     types.UID
	version uint64 // resourceVersion
	node    string

	phase outcome
	// held: it carries the finalizer. counted: a tally is done with it, by its annotation.
	held, counted bool
	// released: Curfew was about to delete it, unfinished. If it could not, the Pod is adopted again.
	released bool
	// deleting is when its grace period ends; zero for a Pod that is not being deleted.
	deleting time.Time
	// forced: it was deleted without a grace period, and nothing but the finalizer keeps it.
	forced bool
	// lost: its Node is gone, or is not ready and it was force-deleted.
	lost bool
	// removed: a request has shown that it does not exist any more. It is kept until the watch says
	// so, too: an event from before would bring it back (S7).
	removed bool

	// keeper is the tally that counts it, and others select it too and are younger.
	keeper *tally
	others []*tally
	queued *tally // in whose work it is
	// refused: the last patch of this state was. It waits for the next chores, and delays no other.
	refused bool
	// unsure: keeper follows from labels that are older than version. Nothing is done before the
	// watch shows that state, too: the Pod could be released although its tally counts it.
	unsure bool
}

// outcome is how a Pod finished.
type outcome uint8

const (
	active outcome = iota
	succeeded
	failed
)

// readPod keeps what matters of a Pod.
func readPod(from *corev1.Pod) *pod {
	p := &pod{uid: types.UID(strings.Clone(string(from.UID))), name: strings.Clone(from.Name), node: strings.Clone(from.Spec.NodeName)}
	p.readMeta(&from.ObjectMeta)
	switch from.Status.Phase {
	case corev1.PodSucceeded:
		p.phase = succeeded
	case corev1.PodFailed:
		p.phase = failed
	}
	return p
}

// readMeta takes over metadata that is at least as new as the known state.
func (p *pod) readMeta(from *metav1.ObjectMeta) {
	p.version = versionOf(from.ResourceVersion)
	p.held = slices.Contains(from.Finalizers, wellknown.FinalizerTally)
	by, marked := from.Annotations[wellknown.AnnotationCountedBy]
	p.released = by == wellknown.CountedByNone
	p.counted = marked && !p.released
	p.deleting, p.forced = time.Time{}, false
	if from.DeletionTimestamp != nil {
		p.deleting = from.DeletionTimestamp.Time
		grace := from.DeletionGracePeriodSeconds
		p.forced = grace != nil && *grace == 0 && p.held && len(from.Finalizers) == 1
	}
}

// outcome is how the Pod finished. A Pod that is being deleted and can no longer run has failed,
// although its phase will never say so.
func (p *pod) outcome() outcome {
	if p.phase == active && !p.deleting.IsZero() && (p.node == "" || p.lost) {
		return failed
	}
	return p.phase
}

// need is what a Pod needs next that is not about to be counted.
type need uint8

const (
	nothing need = iota
	adopt        // add the finalizer
	count        // write it into the status of its tally
	release      // remove the finalizer without counting
)

func (p *pod) need() need {
	switch {
	case p.removed || p.unsure:
		return nothing
	case p.held && (p.counted || p.keeper == nil):
		return release
	case p.counted || p.keeper == nil:
		return nothing
	case !p.held && p.deleting.IsZero():
		return adopt
	case p.held && p.outcome() != active:
		return count
	}
	return nothing
}

// settled reports whether a Pod that is about to be counted can be counted: it never comes back.
func (p *pod) settled() bool { return p == nil || p.removed || !p.held && p.counted }

// running reports whether a Pod is one of its tally's active ones.
func (p *pod) running() bool {
	return !p.removed && p.keeper != nil && p.held && !p.counted && p.outcome() == active
}

// orphaned reports whether it is unfinished and carries the finalizer, and no known tally counts
// it: it is about to be released, unless its tally becomes known later.
func (p *pod) orphaned() bool {
	return !p.removed && p.keeper == nil && p.held && p.outcome() == active
}

// disownable reports whether a Pod is released before Curfew deletes it. One that is being deleted
// already is not: it counts as failed once it can no longer run.
func (p *pod) disownable() bool { return p.running() && p.deleting.IsZero() }

// resourceVersion returns the newest known resourceVersion.
func (p *pod) resourceVersion() string { return strconv.FormatUint(p.version, 10) }

// versionOf reads a resourceVersion. One that is no number is older than all others, so that what
// comes later always counts.
func versionOf(version string) uint64 {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// patchMeta is the metadata of a strategic merge patch. The API server refuses it for a Pod with
// another UID: one that was created again under the name is never touched.
type patchMeta struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	// Annotations without a value are removed.
	Annotations map[string]*string `json:"annotations,omitempty"`
	Finalizers  []string           `json:"finalizers,omitempty"`
	Remove      []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

func patchOf(meta *patchMeta) []byte {
	out, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil // This is a bug. The API server refuses an empty patch.
	}
	return out
}

// adoption adds the finalizer to exactly the state that was judged. A Pod that was released to be
// deleted is its tally's again.
func adoption(p *pod) []byte {
	out := &patchMeta{UID: p.uid, ResourceVersion: p.resourceVersion(), Finalizers: []string{wellknown.FinalizerTally}}
	if p.released {
		out.Annotations = map[string]*string{wellknown.AnnotationCountedBy: nil}
	}
	return patchOf(out)
}

// releasing removes the finalizer from exactly the state that was judged, without counting.
func releasing(uid types.UID, version string) []byte { return removal(uid, version, nil) }

// counting removes the finalizer of a Pod that a status lists, and notes by whom it is counted. Any
// state will do: the status has decided.
func counting(uid, by types.UID) []byte {
	return removal(uid, "", countedBy(string(by)))
}

// disowning is releasing for a Pod that Curfew is about to delete, and that is not counted then.
func disowning(uid types.UID, version string) []byte {
	return removal(uid, version, countedBy(wellknown.CountedByNone))
}

func removal(uid types.UID, version string, annotations map[string]*string) []byte {
	return patchOf(&patchMeta{UID: uid, ResourceVersion: version, Annotations: annotations, Remove: []string{wellknown.FinalizerTally}})
}

func countedBy(by string) map[string]*string {
	return map[string]*string{wellknown.AnnotationCountedBy: &by}
}
