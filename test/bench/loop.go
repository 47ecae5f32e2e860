package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/policy/wellknown"
)

// loopCommand is the first argument that turns this program into the bare loop.
const loopCommand = "loop"

func init() { commands[loopCommand] = runLoop }

// runLoop is the limit: parallel calls by a client of client-go, over names that are known
// beforehand, with the watch open beside it that every contestant has. It judges nothing, keeps
// nothing and retries nothing.
func runLoop(ctx context.Context, args []string, _ io.Writer) error {
	fs := flag.NewFlagSet(loopCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "the cluster")
	set := jobSet{}
	fs.StringVar(&set.prefix, "prefix", "", "what the objects' names begin with")
	fs.IntVar(&set.count, "objects", 0, "how many there are")
	resource := fs.String("resource", resourceJobs, "resource to delete, or to mark as failed")
	parallel := fs.Int("parallel", 16, "calls at a time")
	begin := fs.Int64("at", 0, "the Unix second at which to begin")
	perSecond := fs.Int("per-second", 0, "how many are due in each second, 0 for all at once")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	watching, call, err := loopOver(ctx, config, *resource)
	if err != nil {
		return err
	}
	defer watching.Stop()
	go func() {
		for range watching.ResultChan() {
		}
	}()
	for second, part := range set.parts(*perSecond) {
		if err := pause(ctx, time.Until(time.Unix(*begin+int64(second), 0))); err != nil {
			return err
		}
		if err := part.each(ctx, *parallel, call); err != nil {
			return fmt.Errorf("call: %w", err)
		}
	}
	return nil
}

// What the loop can delete; runs it marks.
const (
	resourceJobs       = "jobs"
	resourceConfigMaps = "configmaps"
	resourceRuns       = "runs"
)

// loopOver opens the watch that every contestant has, and returns the call for one object. Labelled
// ConfigMaps are watched as Curfew does: their metadata alone, by label.
func loopOver(ctx context.Context, config *rest.Config, resource string) (watching watch.Interface, call func(context.Context, string) error, err error) {
	if resource == resourceRuns {
		return loopOverRuns(ctx, config)
	}
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	remove := client.BatchV1().Jobs(benchNamespace).Delete
	if resource == resourceConfigMaps {
		remove = client.CoreV1().ConfigMaps(benchNamespace).Delete
		partial, err := metadata.NewForConfig(connect(config))
		if err != nil {
			return nil, nil, fmt.Errorf("make a client: %w", err)
		}
		watching, err = partial.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Watch(ctx, metav1.ListOptions{LabelSelector: wellknown.LabelTTL})
		if err != nil {
			return nil, nil, fmt.Errorf("watch ConfigMaps: %w", err)
		}
	} else if watching, err = client.BatchV1().Jobs(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{}); err != nil {
		return nil, nil, fmt.Errorf("watch Jobs: %w", err)
	}
	background := metav1.DeletePropagationBackground
	return watching, func(ctx context.Context, name string) error {
		return remove(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	}, nil
}

// jobSet is a number of objects whose names are known.
type jobSet struct {
	prefix string
	count  int
	// first is the number of the first, where a set goes on from another.
	first int
	// ttl after they finished; 0 means the constant.
	ttl time.Duration
}

// parts divides a set into ones of so many; 0 leaves it whole.
func (s jobSet) parts(size int) []jobSet {
	if size <= 0 {
		return []jobSet{s}
	}
	var out []jobSet
	for first := 0; first < s.count; first += size {
		part := s
		part.first, part.count = s.first+first, min(size, s.count-first)
		out = append(out, part)
	}
	return out
}

func (s jobSet) life() time.Duration { return cmp.Or(s.ttl, ttl) }

func (s jobSet) name(i int) string { return fmt.Sprintf("%s-%06d", s.prefix, i) }

// each calls do for every name, in order, so many at a time. It ends early with the first error.
func (s jobSet) each(ctx context.Context, parallel int, do func(ctx context.Context, name string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < s.count && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, s.name(s.first+i)); err != nil {
					cancel(fmt.Errorf("object %s: %w", s.name(s.first+i), err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
