package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// OwnerReader reads the controller owners of objects.
type OwnerReader interface {
	// Read asks the API server. Nil without an error means that the owner is gone, or that another
	// object has its name.
	Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error)
}

// admitChild turns the denials of an object that a known controller creates into warnings, if the
// owner has the denied values, or if that cannot be known.
func (w *Webhooks) admitChild(ctx context.Context, review *rules.Request, decision *policy.Decision) {
	profiles := w.Profiles()
	if decision.Allowed() || !review.ByController(profiles) {
		return
	}
	facts, owner := review.Facts, review.Facts.Owner
	// The API server accepts no reference without a UID. A posted review may have one: it must not
	// find out by name alone what an object in the cluster holds.
	if owner.UID == "" {
		return
	}
	of := profiles.For(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	if w.owners == nil || !of.KnowsTemplate(facts.Profile.Kind.GroupKind()) {
		review.AdmitChild(decision, nil)
		return
	}
	parts := []string{facts.Namespace, owner.APIVersion, owner.Kind, owner.Name, string(owner.UID)}
	for _, denial := range decision.Denials() {
		parts = append(parts, denial.Field, denial.Value)
	}
	key := digestOf(parts...)
	if w.inherited.has(key, review.Now) {
		review.AdmitChild(decision, nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveReadTimeout)
	defer cancel()
	read, err := w.readOwner(ctx, facts.Namespace, owner)
	if err != nil {
		w.log.V(1).Info("the owner of a new object could not be read, so that the object is admitted", "kind", owner.Kind, "reason", err.Error())
		review.AdmitChild(decision, nil)
		return
	}
	review.AdmitChild(decision, func(denial policy.Finding) bool { return policy.CarriedBy(read, review.Object, denial.Field) })
	if decision.Allowed() {
		w.inherited.add(key, review.Now)
	}
}

// maxOwnerReads bounds the owners that are read at the same time. Each may have megabytes, and
// anyone who reaches the port without a client certificate can post reviews.
const maxOwnerReads = 4

func (w *Webhooks) readOwner(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error) {
	if err := w.ownerReads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer w.ownerReads.Release(1)
	return w.owners.Read(ctx, namespace, owner)
}

// inherited are denied values that owners were seen to have, so that a rollout of a thousand Pods
// reads its ReplicaSet a few times. Only what lets an object pass is kept.
type inherited struct {
	mu    sync.Mutex
	until map[digest]time.Time
}

func (i *inherited) has(key digest, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return now.Before(i.until[key])
}

func (i *inherited) add(key digest, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.until) >= maxAnswers || i.until == nil {
		i.until = map[digest]time.Time{}
	}
	i.until[key] = now.Add(keepAnswers)
}

// digest identifies a list of texts.
type digest [sha256.Size]byte

// digestOf hashes each text with its length, so that no text can contain a separator.
func digestOf(texts ...string) digest {
	sum := sha256.New()
	for _, text := range texts {
		_ = binary.Write(sum, binary.LittleEndian, uint64(len(text))) // A hash never fails.
		_, _ = sum.Write([]byte(text))
	}
	return digest(sum.Sum(nil))
}
