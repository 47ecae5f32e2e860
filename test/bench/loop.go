package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// loopReport is what the loop writes when it is through.
type loopReport struct {
	Deletes int     `json:"deletes"`
	Seconds float64 `json:"seconds"`
}

// runLoop is the limit: parallel Background DELETE calls by client-go's typed client, over names
// that are known beforehand, with the watch open beside it that every contestant has. It judges
// nothing, keeps nothing and retries nothing.
func runLoop(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet(loopCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "the cluster")
	set := jobSet{}
	fs.StringVar(&set.prefix, "prefix", "", "what the Jobs' names begin with")
	fs.IntVar(&set.count, "jobs", 0, "how many there are")
	resource := fs.String("resource", resourceJobs, "resource to delete: jobs or configmaps")
	parallel := fs.Int("parallel", 16, "calls at a time")
	at := fs.Int64("at", 0, "the Unix second at which to begin")
	perSecond := fs.Int("per-second", 0, "how many are deleted in each second, 0 for all at once")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	watching, remove, err := loopOver(ctx, config, *resource)
	if err != nil {
		return err
	}
	defer watching.Stop()
	go func() {
		for range watching.ResultChan() {
		}
	}()
	due := time.Unix(*at, 0)
	began := time.Now()
	background := metav1.DeletePropagationBackground
	for second, part := range set.parts(*perSecond) {
		if err := pause(ctx, time.Until(due.Add(time.Duration(second)*time.Second))); err != nil {
			return err
		}
		if second == 0 {
			began = time.Now()
		}
		err = part.each(ctx, *parallel, func(ctx context.Context, name string) error {
			return remove(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		})
		if err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	return json.NewEncoder(out).Encode(loopReport{Deletes: set.count, Seconds: time.Since(began).Seconds()})
}

// What the loop can delete.
const (
	resourceJobs       = "jobs"
	resourceConfigMaps = "configmaps"
)

// loopOver opens the watch that every contestant has, and tells how one object is deleted. Labelled
// ConfigMaps are watched as Curfew does: their metadata alone, by label.
func loopOver(ctx context.Context, config *rest.Config, resource string) (watch.Interface, func(context.Context, string, metav1.DeleteOptions) error, error) {
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	if resource == resourceConfigMaps {
		partial, err := metadata.NewForConfig(connect(config))
		if err != nil {
			return nil, nil, fmt.Errorf("make a client: %w", err)
		}
		watching, err := partial.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Watch(ctx, metav1.ListOptions{LabelSelector: wellknown.LabelTTL})
		if err != nil {
			return nil, nil, fmt.Errorf("watch ConfigMaps: %w", err)
		}
		return watching, client.CoreV1().ConfigMaps(benchNamespace).Delete, nil
	}
	watching, err := client.BatchV1().Jobs(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("watch Jobs: %w", err)
	}
	return watching, client.BatchV1().Jobs(benchNamespace).Delete, nil
}

// bareRate lets a loop run at once and takes its own word for the rate.
func bareRate(ctx context.Context, e *environment, h heat,
	start func(ctx context.Context, e *environment, h heat, kubeconfig string, out io.Writer) (*process, error)) (float64, error) {
	var out bytes.Buffer
	p, err := start(ctx, e, h, e.state.Kubeconfig, &out)
	if err != nil {
		return 0, err
	}
	var report loopReport
	if err := p.report(ctx, &out, h.log, &report); err != nil {
		return 0, err
	}
	return float64(report.Deletes) / report.Seconds, nil
}

// jobSet is a number of Jobs whose names are known.
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
					cancel(fmt.Errorf("job %s: %w", s.name(s.first+i), err))
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
