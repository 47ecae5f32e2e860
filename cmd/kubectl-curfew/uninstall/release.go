package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
)

const (
	// atOnce is how many Pods are released at a time.
	atOnce = 16
	// rounds bounds how often Pods are looked for: something else adds the finalizer then.
	rounds = 5
)

// releaseAll removes the finalizer of PodTallies until a list shows no Pod that has it. A request
// of the controller may have been under way when its permissions ended.
func (i *Installation) releaseAll(ctx context.Context) error {
	total := 0
	for range rounds {
		if err := i.releases(ctx); err != nil {
			return err
		}
		if len(i.Releases) == 0 {
			if total > 0 {
				i.Done(released(total))
			}
			return nil
		}
		i.Say("releasing %d Pods from PodTallies", len(i.Releases))
		if err := i.releaseThese(ctx); err != nil {
			return err
		}
		total += len(i.Releases)
	}
	return fmt.Errorf("pods get finalizer %s again and again: a controller of Curfew still runs with permissions of its own", policy.FinalizerTally)
}

// released is the line about so many Pods.
func released(n int) string {
	if n == 1 {
		return "1 pod released: finalizer " + policy.FinalizerTally + " removed"
	}
	return fmt.Sprintf("%d pods released: finalizer %s removed", n, policy.FinalizerTally)
}

func (i *Installation) releaseThese(ctx context.Context) error {
	next := make(chan Release)
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range atOnce {
		group.Go(func() {
			for one := range next {
				if err := i.release(ctx, one, false); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, one := range i.Releases {
		next <- one
	}
	close(next)
	group.Wait()
	if len(errs) > 3 { // One reason has a line for each Pod.
		errs = append(errs[:3], fmt.Errorf("and %d more Pods", len(errs)-3))
	}
	return errors.Join(errs...)
}

// release removes the finalizer from a Pod, and nothing else (S5). A Pod that a PodTally has as
// good as counted says so, so that it is not counted again if the tally is kept (S7).
func (i *Installation) release(ctx context.Context, pod Release, dryRun bool) error {
	metadata := map[string]any{"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{policy.FinalizerTally}}
	if pod.countedBy != "" {
		metadata["annotations"] = map[string]any{policy.AnnotationCountedBy: pod.countedBy}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = i.clients.Objects.Resource(pods).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // Conflict: another Pod has the name.
		return nil
	}
	if err != nil {
		return fmt.Errorf("releasing Pod %s in namespace %s: %w", pod.Name, pod.Namespace, err)
	}
	return nil
}

const fieldManager = "kubectl-curfew"
