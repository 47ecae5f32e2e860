package feed

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

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

// rejudgeAgain and rejudgeMost bound how long a namespace that could not be listed waits by itself.
const (
	rejudgeAgain = 200 * time.Millisecond
	rejudgeMost  = 10 * time.Second
)

// rejudgeLoop lists the namespaces whose objects have to be judged again.
func (f *Feed) rejudgeLoop(ctx context.Context) {
	to := f.watched()
	f.rejudge.Work(ctx, func(ctx context.Context, name string) time.Duration {
		_, err := f.pages(ctx, name, func(facts *policy.Facts, object runtime.Object) error {
			return f.tell(ctx, facts, object, to)
		})
		if err == nil || ctx.Err() != nil {
			return 0
		}
		f.log.Info("judging a namespace again failed, trying again", "namespace", name, "reason", err.Error())
		return rejudgeAgain
	})
}
