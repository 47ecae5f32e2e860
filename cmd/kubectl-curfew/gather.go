package main

import (
	"context"
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
				progress.say(fmt.Sprintf("%s looked at", count(objects, "object")))
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
	err := group.Wait()
	if len(refused) > 0 {
		w.Note(refusal(refused))
	}
	return out, err
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
