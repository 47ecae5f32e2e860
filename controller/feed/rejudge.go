package feed

import (
	"context"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
)

// RejudgeNamespace asks for all objects of a namespace to be judged again, because what the
// namespace says has changed.
func (f *Feed) RejudgeNamespace(name string) {
	if f.kind.Profile.ClusterScoped || f.kind.Namespace != "" && f.kind.Namespace != name {
		return
	}
	// Judging all of them takes a while, and one may be due now.
	f.options.Engine.RecheckNamespace(name)
	// A feed without objects judges new ones by the new settings anyway.
	if f.seen.Load() {
		f.rejudge.Add(name)
	}
}

// RejudgeAll asks for all objects to be judged again, because a policy or a runtime of the whole
// cluster has changed.
func (f *Feed) RejudgeAll() {
	f.options.Engine.RecheckKinds(f.Handles()...)
	if f.seen.Load() {
		f.rejudge.Add(f.kind.Namespace)
	}
}

// RejudgePods asks for the Pods of one Job to be judged again, because the Job says something else
// about them. Each of them is judged live before it is deleted anyway.
func (f *Feed) RejudgePods(namespace string, job types.UID) {
	if f.seen.Load() && (f.kind.Namespace == "" || f.kind.Namespace == namespace) {
		f.rejudge.Add(namespace + "/" + string(job))
	}
}

// rejudgeAgain and rejudgeMost bound how long a namespace that could not be listed waits by itself.
const (
	rejudgeAgain = 200 * time.Millisecond
	rejudgeMost  = 10 * time.Second
)

// rejudgeLoop lists the namespaces, and Pods of Jobs, that have to be judged again.
func (f *Feed) rejudgeLoop(ctx context.Context) {
	to := f.watched()
	f.rejudge.Work(ctx, func(ctx context.Context, key string) time.Duration {
		selector := f.kind.LabelSelector
		name, job, ofJob := strings.Cut(key, "/")
		if ofJob {
			selector = batchv1.ControllerUidLabel + "=" + job
		}
		_, err := f.pages(ctx, name, selector, func(facts *policy.Facts, object runtime.Object) error {
			return f.tell(ctx, facts, object, to)
		})
		if err == nil || ctx.Err() != nil {
			return 0
		}
		f.log.Info("judging a namespace again failed, trying again", "namespace", name, "reason", err.Error())
		return rejudgeAgain
	})
}
