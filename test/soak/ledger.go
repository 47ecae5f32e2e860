package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"curfew.dev/curfew/test/world/invariants"
)

// ledger has what etcd stored of the soak's objects and rules, in its order.
type ledger struct {
	mu       sync.Mutex
	next     int64 // revision to go on from
	lives    map[types.UID]*life
	byKey    map[string]*life
	rules    map[string]*unstructured.Unstructured // the last state, by key
	judge    *invariants.Judge
	lost     []*invariants.Record // writes that removed a finalizer
	problems []string
}

// life is one object from its creation to its end, of one UID.
type life struct {
	of   schema.GroupResource
	last *unstructured.Unstructured
	seen time.Time
	// deletion is the revision in which it was removed or got its deletionTimestamp, and before the
	// time of the state that it was in.
	deletion *invariants.Record
	before   time.Time
	gone     bool
}

// curfew is the client of the records that Curfew must answer for.
const curfew = "curfew"

func newLedger() *ledger {
	judge := &invariants.Judge{Curfew: func(client string) bool { return client == curfew }, Stamped: true}
	return &ledger{lives: map[types.UID]*life{}, byKey: map[string]*life{}, rules: map[string]*unstructured.Unstructured{}, judge: judge}
}

// run follows etcd until ctx ends. It takes up where it left off, so that an outage of etcd, or of
// the connection, hides nothing.
func (l *ledger) run(ctx context.Context, etcd string) {
	for ctx.Err() == nil {
		l.mu.Lock()
		from := l.next
		l.mu.Unlock()
		err := watchEtcd(ctx, etcd, from, l.apply)
		if errors.Is(err, errCompacted) {
			l.mu.Lock()
			l.problems = append(l.problems, err.Error())
			l.mu.Unlock()
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (l *ledger) apply(events []etcdEvent) {
	seen := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		event := &events[i]
		l.next = event.KV.ModRevision + 1
		if err := l.event(event, seen); err != nil {
			l.problems = append(l.problems, fmt.Sprintf("%s at revision %d: %v", event.KV.Key, event.KV.ModRevision, err))
		}
	}
}

// followed are the keys of the judged objects, and rules the keys of the rules that apply to them.
var (
	followed = map[string]schema.GroupResource{
		"/registry/jobs/" + nsPrefix: {Group: "batch", Resource: jobs}, "/registry/pods/" + nsPrefix: {Resource: pods},
		"/registry/" + soakGroup + "/" + batches + "/" + nsPrefix: {Group: soakGroup, Resource: batches},
	}
	rules = map[string]schema.GroupResource{
		"/registry/namespaces/" + nsPrefix:                               {Resource: "namespaces"},
		"/registry/curfew.dev/lifecyclepolicies/" + policyName:           {Group: "curfew.dev", Resource: "lifecyclepolicies"},
		"/registry/curfew.dev/kindprofiles/" + batches + "." + soakGroup: {Group: "curfew.dev", Resource: "kindprofiles"},
	}
)

func (l *ledger) event(event *etcdEvent, seen time.Time) error {
	key := string(event.KV.Key)
	for start, resource := range followed {
		if strings.HasPrefix(key, start) {
			return l.object(resource, key, event, seen)
		}
	}
	for start, rule := range rules {
		if event.Type == "DELETE" || !strings.HasPrefix(key, start) {
			continue
		}
		object, err := decode(&event.KV)
		if err != nil {
			return err
		}
		l.judge.Add(recordOf("update", rule, l.rules[key], object, seen))
		l.rules[key] = object
	}
	return nil
}

// decode reads one revision of one object. The API server of the soak stores JSON.
func decode(item *kv) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(item.Value, &object.Object); err != nil {
		return nil, err
	}
	object.SetManagedFields(nil)
	object.SetResourceVersion(strconv.FormatInt(item.ModRevision, 10))
	return object, nil
}

func recordOf(verb string, resource schema.GroupResource, before, after *unstructured.Unstructured, t time.Time) *invariants.Record {
	object := after
	if after == nil {
		object = before
	}
	return &invariants.Record{
		Verb: verb, Group: resource.Group, Resource: resource.Resource, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		Sent: t, At: t, Code: 200, Before: before, After: after,
	}
}

func (l *ledger) object(resource schema.GroupResource, key string, event *etcdEvent, seen time.Time) error {
	known := l.byKey[key]
	if event.Type == "DELETE" {
		if known == nil {
			return errors.New("it is deleted and was never seen")
		}
		known.gone = true
		known.delete(seen)
		delete(l.byKey, key)
		return nil
	}
	object, err := decode(&event.KV)
	switch {
	case err != nil:
		return err
	case known == nil:
		known = &life{of: resource}
		l.byKey[key], l.lives[object.GetUID()] = known, known
	case known.last.GetUID() != object.GetUID():
		return fmt.Errorf("UID %s became %s without a deletion", known.last.GetUID(), object.GetUID())
	default:
		for _, finalizer := range known.last.GetFinalizers() {
			if !slices.Contains(object.GetFinalizers(), finalizer) {
				l.lost = append(l.lost, recordOf("patch", resource, known.last, object, seen))
			}
		}
		if object.GetDeletionTimestamp() != nil && known.last.GetDeletionTimestamp() == nil {
			known.delete(seen)
		}
	}
	known.last, known.seen = object, seen
	return nil
}

// delete notes the first revision in which an object is deleted.
func (l *life) delete(seen time.Time) {
	if l.deletion == nil {
		l.deletion, l.before = recordOf("delete", l.of, l.last, nil, seen), l.seen
	}
}

// overdue are the objects that are due by now and still exist.
func (l *ledger) overdue() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range l.lives {
		if life.deletion != nil {
			continue
		}
		if why := l.judge.Forgotten(life.last, time.Now(), 0); why != "" {
			names = append(names, describe(life.last)+" "+why)
		}
	}
	return names
}

// terminating are objects with a deletionTimestamp that are still there. A Pod is deleted in two
// steps, even where it is given no grace: an API server that is killed between the two leaves it
// marked and nothing more, for the kubelet or the Pods' garbage collector to finish off, which the
// soak does not have.
func (l *ledger) terminating() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, life := range l.lives {
		if life.deletion != nil && !life.gone && (life.last.GetKind() != "Pod" || len(life.last.GetFinalizers()) > 0) {
			names = append(names, fmt.Sprintf("%s with finalizers %v", describe(life.last), life.last.GetFinalizers()))
		}
	}
	return names
}

func describe(object metav1.Object) string {
	return fmt.Sprintf("%s/%s (uid %s, resourceVersion %s)", object.GetNamespace(), object.GetName(), object.GetUID(), object.GetResourceVersion())
}

// pause waits, or returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
