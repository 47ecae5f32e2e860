package webhook

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
)

// stampRuntime keeps since when a runtime has its TTL. Its author cannot change that: with an
// earlier time the TTL would delete what finished before (S6). A new runtime has had no TTL before.
func (w *Webhooks) stampRuntime(ctx context.Context, request *request, now time.Time) []policy.Assignment {
	profile := request.facts.Profile
	if profile.RuntimeOf == "" {
		return nil
	}
	present, before := request.facts.Annotations[policy.AnnotationDefaultSince], ""
	if !request.creating() {
		before = request.oldFacts.Annotations[policy.AnnotationDefaultSince]
	}
	if policy.RuntimeHash(request.object, profile.RuntimeTTLs) != "" {
		now = w.stampTime(ctx, request, now)
	}
	want := policy.StampRuntime(request.object, profile.RuntimeTTLs, before, now)
	if want == present {
		return nil
	}
	return []policy.Assignment{keep("annotations", policy.AnnotationDefaultSince, want)}
}

// ObjectLister reads objects from the API server.
type ObjectLister interface {
	// Each calls f for objects of a resource, in one namespace or, with "", in all. It bounds how many
	// it reads, and reports whether there are more.
	Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(object map[string]any)) (more bool, err error)
}

// countTimeout bounds the count of objects: it is for a warning, and the API server waits five
// seconds for all of a review.
const countTimeout = time.Second

// reached counts the objects that the request lets the TTL of a runtime reach by backfill. One list
// is read at a time (S9): whoever comes meanwhile is not told a number.
func (w *Webhooks) reached(ctx context.Context, review *rules.Request) rules.Reached {
	profile := review.Facts.Profile
	if w.objects == nil || profile.UsedBy == nil || !rules.Backfills(review) || !w.counting.TryLock() {
		return rules.Reached{}
	}
	defer w.counting.Unlock()
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	users := profile.UsedBy
	refers := w.source.store.Snapshot().RuntimeOf(users.Kind.GroupKind())
	if refers == nil {
		return rules.Reached{}
	}
	var out rules.Reached
	var err error
	out.More, err = w.objects.Each(ctx, users.Kind.GroupVersion().WithResource(users.Resource), review.Facts.Namespace, func(object map[string]any) {
		facts := policy.FactsOfObjectContext(ctx, users, object)
		reference, err := refers.Reference(facts.Namespace, object)
		if err != nil || reference == nil || reference.Name != review.Facts.Name || reference.Namespace != review.Facts.Namespace ||
			reference.Kind.GroupKind() != profile.Kind.GroupKind() {
			return
		}
		effective := policy.Resolve(facts, &policy.Scope{Runtime: reference.Policy(review.Object, profile.RuntimeTTLs)})
		if policy.Judge(facts, &effective, review.Now).Backfill {
			out.Count++
		}
	})
	if err != nil {
		w.log.V(1).Info("could not count what backfill reaches", "kind", users.Kind.Kind, "reason", err.Error())
		out.More = true
	}
	out.Known = out.Count > 0 || !out.More
	return out
}
