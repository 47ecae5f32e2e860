package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// listsAtOnce is how many kinds are listed at the same time.
const listsAtOnce = 8

// gather lists all kinds and keeps the entries that match the query. A kind that cannot be listed
// and was not named is left out.
func gather(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, query *expiringQuery, progress *progress) ([]*world.Entry, []leftOut, error) {
	var mu sync.Mutex
	found := map[types.UID][]*world.Entry{}
	var left []leftOut
	objects := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listsAtOnce)
	for _, kind := range kinds {
		group.Go(func() error {
			err := w.List(ctx, kind, reading, func(object map[string]any) error {
				entries, err := w.Entries(ctx, kind, object, query.now)
				if err != nil {
					return err
				}
				if err := w.Follow(ctx, object, entries, query.now); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				objects++
				progress.say("%s looked at", count(objects, "object"))
				if uid := (&unstructured.Unstructured{Object: object}).GetUID(); uid != "" {
					delete(found, uid) // as it was before
				}
				for i := range entries {
					if entry := &entries[i]; query.matches(entry) {
						found[entry.UID] = append(found[entry.UID], entry)
					}
				}
				return nil
			})
			if err == nil || len(query.kinds) > 0 || !answered(err) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			left = append(left, leftOut{kind, err})
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	var out []*world.Entry
	for _, entries := range found {
		out = append(out, entries...)
	}
	return out, left, nil
}

// leftOut is a kind that cannot be listed, with the reason.
type leftOut struct {
	kind world.Kind
	err  error
}

// answered reports whether an error is an answer of the API server, which concerns one kind, and
// not a failed connection.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}

// failure reports whether the API server failed, rather than refused a request.
func failure(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err))
}

// noteLeftOut notes which kinds cannot be listed, for lack of a permission or, for example, because
// a conversion webhook fails. It returns the latter, which may end. It is an error if the user may
// list no namespaced kind: since 1.37 everybody may list ClusterTrustBundles, which would be no
// answer. A kind that is gone is not left out.
func noteLeftOut(w *world.World, left []leftOut, kinds []world.Kind, reading world.Query) (unanswered string, err error) {
	left = slices.DeleteFunc(slices.Clone(left), func(one leftOut) bool { return world.Gone(one.err) })
	slices.SortFunc(left, func(a, b leftOut) int {
		return strings.Compare(a.kind.GroupResource().String(), b.kind.GroupResource().String())
	})
	var refused, failed []string
	var first error
	seen := 0 // namespaced kinds that are not refused
	for _, kind := range kinds {
		if !kind.ClusterScoped {
			seen++
		}
	}
	for _, one := range left {
		switch {
		case world.Refused(one.err):
			refused = append(refused, one.kind.GroupResource().String())
			if !one.kind.ClusterScoped {
				seen--
			}
		case len(left) == len(kinds):
			return "", one.err
		default:
			failed = append(failed, one.kind.GroupResource().String())
			first = cmp.Or(first, one.err)
		}
	}
	if len(failed) > 0 { // One note, though all may fail for one reason.
		unanswered = fmt.Sprintf("%s cannot be listed, and their expiries are not known: %s", some(failed), oneLine(first.Error()))
	}
	switch {
	case len(refused) == 0:
		return unanswered, nil
	case len(refused) < len(kinds) && seen > 0:
		w.Note("you may not list " + some(refused) + ": their expiries are not known")
		return unanswered, nil
	case reading.Namespace == "":
		return "", errors.New("you may not list anything in all namespaces: give one with -n, or name kinds")
	default:
		return "", fmt.Errorf("you may not list anything in namespace %q: give another with -n", reading.Namespace)
	}
}

// some names a few kinds, and how many more there are.
func some(kinds []string) string {
	const most = 6
	if more := len(kinds) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(kinds[:most], ", "), more)
	}
	return strings.Join(kinds, ", ")
}
