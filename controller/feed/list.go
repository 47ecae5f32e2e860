package feed

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
)

// begin begins a list of the whole kind.
func (f *Feed) begin(context.Context) error {
	f.began, f.relist = f.options.Clock.Now(), nil
	f.finishes.begin()
	f.kind.Observer.Begin()
	for _, trigger := range f.triggers {
		f.relist = append(f.relist, f.options.Engine.BeginRelist(trigger.handle))
	}
	return nil
}

// end notes that all objects of the kind have been listed, and drops those that the list has not
// shown.
func (f *Feed) end(version string) {
	waiting := 0
	for _, relist := range f.relist {
		relist.End(version)
		waiting += relist.Waiting
	}
	seen := f.relist[0].Seen // Each trigger gets every object.
	f.relist = nil
	f.finishes.end()
	f.kind.Observer.End()
	log := f.log
	if f.synced.Swap(true) {
		log = log.V(1) // It is news only at the start.
	}
	log.Info("all objects are known", "objects", seen, "waiting", waiting, "took", f.options.Clock.Since(f.began))
	if f.options.Listed != nil {
		f.options.Listed(seen)
	}
}

// RejudgeNamespace judges all objects of a namespace again, because its settings have changed.
func (f *Feed) RejudgeNamespace(name string) {
	if f.kind.Profile.ClusterScoped || f.kind.Namespace != "" && f.kind.Namespace != name {
		return
	}
	// Judging all of them takes a while, and one may be due now.
	f.options.Engine.RecheckIn(name, f.Handles()...)
	// A feed without objects judges new ones by the new settings anyway.
	if f.seen.Load() {
		f.rejudge.Add(name)
	}
}

// RejudgeAll judges all objects again, because a policy or a runtime of the whole cluster has
// changed.
func (f *Feed) RejudgeAll() {
	f.options.Engine.RecheckKinds(f.Handles()...)
	if f.seen.Load() {
		f.rejudge.Add(f.kind.Namespace)
	}
}

// RejudgePods judges the Pods of one Job again, because settings of the Job have changed. Each Pod
// is judged live before it is deleted anyway. labelled: the Pods carry the Job's label. Otherwise
// one list of the namespace finds the Pods of all such Jobs by their owners.
func (f *Feed) RejudgePods(namespace string, job types.UID, labelled bool) {
	if !f.seen.Load() {
		return
	}
	if labelled {
		f.rejudge.Add(namespace + "/" + string(job))
		return
	}
	f.unlabelled.add(namespace, job)
	if key := namespace + "/"; !f.rejudge.Delayed(key) {
		f.rejudge.AddAfter(key, gatherJobs)
	}
}

// gatherJobs is how long RejudgePods collects Jobs without labelled Pods before it lists a
// namespace: another controller may finish a hundred Jobs a second, and each list holds all
// finished Pods of the namespace.
const gatherJobs = time.Second

// jobsOf are UIDs of Jobs by namespace.
type jobsOf struct {
	mu sync.Mutex
	of map[string]map[types.UID]bool
}

func (j *jobsOf) add(namespace string, jobs ...types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.of == nil {
		j.of = map[string]map[types.UID]bool{}
	}
	if j.of[namespace] == nil {
		j.of[namespace] = map[types.UID]bool{}
	}
	for _, job := range jobs {
		j.of[namespace][job] = true
	}
}

// take returns the Jobs of a namespace and forgets them.
func (j *jobsOf) take(namespace string) map[types.UID]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer delete(j.of, namespace)
	return j.of[namespace]
}

// rejudgeAgain and maxRejudge bound how long a namespace that could not be listed waits by itself.
const (
	rejudgeAgain = 200 * time.Millisecond
	maxRejudge   = 10 * time.Second
)

// rejudgeLoop lists and judges again the namespaces and Pods that the queue names.
func (f *Feed) rejudgeLoop(ctx context.Context) {
	f.rejudge.Work(ctx, func(ctx context.Context, key string) time.Duration {
		name, job, ofJob := strings.Cut(key, "/")
		var err error
		switch {
		case !ofJob:
			err = f.judgeListed(ctx, name, f.kind.LabelSelector, func(*policy.Facts) bool { return true })
		case job != "":
			err = f.judgeListed(ctx, name, batchv1.ControllerUidLabel+"="+job, func(*policy.Facts) bool { return true })
		default:
			jobs := f.unlabelled.take(name)
			err = f.judgeListed(ctx, name, f.kind.LabelSelector, func(pod *policy.Facts) bool { return pod.Owner != nil && jobs[pod.Owner.UID] })
			if err != nil {
				f.unlabelled.add(name, slices.Collect(maps.Keys(jobs))...)
			}
		}
		if err == nil || ctx.Err() != nil {
			return 0
		}
		f.log.Info("judging a namespace again failed, trying again", "namespace", name, "reason", err.Error())
		return rejudgeAgain
	})
}

// judgeListed lists objects and judges some of them.
func (f *Feed) judgeListed(ctx context.Context, namespace, selector string, concerns func(*policy.Facts) bool) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return f.kind.List(ctx, namespace, options)
	}
	options := metav1.ListOptions{FieldSelector: f.kind.FieldSelector, LabelSelector: selector}
	_, err := watch.Objects(ctx, f.options.Clock, options, list, func(object runtime.Object) error {
		facts, err := f.kind.Facts(ctx, object)
		if err != nil || !concerns(facts) {
			return err
		}
		return f.tell(ctx, facts, object, nil)
	})
	return err
}
