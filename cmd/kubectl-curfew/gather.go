package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// listsAtOnce is how many kinds are read at the same time.
const listsAtOnce = 8

// gather lists all kinds and keeps what is asked about. Kinds that nobody named and that the user may not list are left out, and said.
func gather(ctx context.Context, w *world.World, kinds []world.Kind, reading world.Query, query *expiringQuery, progress *progress) ([]*world.Entry, error) {
	var mu sync.Mutex
	var out []*world.Entry
	var refused []string
	type key struct {
		uid     types.UID
		trigger policy.Trigger
	}
	seen := map[key]bool{}
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
				mu.Lock()
				defer mu.Unlock()
				objects++
				progress.say("%s looked at", count(objects, "object"))
				for i := range entries {
					entry := &entries[i]
					if at := (key{entry.UID, entry.Trigger}); !seen[at] && query.matches(entry) {
						seen[at] = true
						out = append(out, entry)
					}
				}
				return nil
			})
			switch {
			case world.Refused(err) && len(query.kinds) == 0:
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, kind.GroupResource().String())
				return nil
			case world.Gone(err) && len(query.kinds) == 0:
				return nil
			default:
				return err
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, noteRefused(w, refused, len(kinds), reading)
}

// noteRefused says which kinds the user may not list. Where that is all of them there is no answer.
func noteRefused(w *world.World, refused []string, kinds int, reading world.Query) error {
	switch {
	case len(refused) == 0:
		return nil
	case len(refused) < kinds:
		w.Note(refusal(refused))
		return nil
	case reading.Namespace == "":
		return errors.New("you may not list anything in all namespaces: give one with -n")
	default:
		return fmt.Errorf("you may not list anything in namespace %q: give another with -n", reading.Namespace)
	}
}

// refusal says which kinds the user may not list.
func refusal(refused []string) string {
	slices.Sort(refused)
	const most = 6
	rest := ""
	if more := len(refused) - most; more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
		refused = refused[:most]
	}
	return "you may not list " + strings.Join(refused, ", ") + rest + ": what goes of these is not known"
}
