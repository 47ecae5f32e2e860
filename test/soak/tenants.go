package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// namespaces are those that the soak makes, without their prefix.
var namespaces = []string{"plain-0", "plain-1", "plain-2", "platform", "stamped", "live", "changed"}

// flipModes puts one namespace after the other into dry-run for a while, until ctx ends. In the end
// all are enforced again, so that whatever was held back has to be deleted after all. Periods have
// to be longer than what the judge tolerates.
func (s *soak) flipModes(ctx context.Context, names []string, random *rand.Rand) error {
	lasting := context.WithoutCancel(ctx)
	for {
		for _, i := range random.Perm(len(names)) {
			pause(ctx, time.Duration(random.Int64N(int64(time.Second))))
			if ctx.Err() != nil {
				return nil
			}
			if err := s.setMode(lasting, names[i], "dry-run"); err != nil {
				return err
			}
			pause(ctx, staleness+time.Second+time.Duration(random.Int64N(int64(2*time.Second))))
			if err := s.setMode(lasting, names[i], []any{"enforce", "warn", nil}[random.IntN(3)]); err != nil {
				return err
			}
		}
	}
}

func (s *soak) setMode(ctx context.Context, name string, mode any) error {
	if err := s.patchNamespace(ctx, name, "annotations", map[string]any{prefix + "mode": mode}); err != nil {
		return fmt.Errorf("set the mode of namespace %s: %w", name, err)
	}
	return nil
}

// meaning is what a KindProfile says of the soak's own kind.
type meaning struct{ finished, finishTime, ttl string }

// meanings are what the KindProfile of the soak's own kind may say. The judge reads the fields
// that they name. The first one is what installation.yaml says.
var meanings = []meaning{
	{finished: "has(object.status) && has(object.status.outcome)", finishTime: "object.?status.?finishedAt", ttl: "spec.ttlSeconds"},
	// The finish time and the TTL are read from other fields.
	{finished: "has(object.status) && has(object.status.outcome)", finishTime: "object.?status.?verifiedAt", ttl: "spec.keepSeconds"},
	// What failed may go on, and has not finished.
	{finished: `has(object.status) && has(object.status.outcome) && object.status.outcome != "Failed"`, finishTime: "object.?status.?finishedAt", ttl: "spec.ttlSeconds"},
}

// changeMeaning corrects the KindProfile again and again until ctx ends, and leaves it as it was.
func (s *soak) changeMeaning(ctx context.Context, random *rand.Rand) error {
	lasting := context.WithoutCancel(ctx)
	for next := 1; ; next = 3 - next {
		for _, m := range []meaning{meanings[next], meanings[0]} {
			// A quarter of the window each, or less, but longer than what the judge tolerates.
			pause(ctx, 2*staleness+time.Duration(random.Int64N(int64(max(time.Second, min(15*time.Second, s.window/8))))))
			if ctx.Err() != nil && m == meanings[next] {
				return nil
			}
			if err := s.setMeaning(lasting, m); err != nil {
				return err
			}
		}
	}
}

func (s *soak) setMeaning(ctx context.Context, m meaning) error {
	err := s.world.merge(ctx, "kindprofiles", "", batches+"."+soakGroup, map[string]any{"spec": map[string]any{
		"state":  map[string]any{"finished": m.finished, "finishTime": m.finishTime},
		"fields": map[string]any{"ttl": m.ttl},
	}})
	if err != nil {
		return fmt.Errorf("change the KindProfile: %w", err)
	}
	return nil
}
