package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/policy"
)

func extendCommand(env environment) *cobra.Command {
	options := newChanging(env, "extended")
	var by, until, to string
	command := &cobra.Command{
		Use:   "extend " + changingUse + " (--by DURATION | --until TIME | --to DURATION)",
		Short: "Let objects live longer",
		Long: `Let objects live longer: by a duration, until a time, or with another TTL.

This changes the value that decides: the TTL label, the annotation or the kind's
own field. A default of a namespace or policy is overridden by an annotation.
The command never shortens a life. --to gives a TTL to an object that has none.
Bounds are checked before anything is sent, and each object is changed in
exactly the state that was read.`,
		Example: `  # Keep a Job for another day
  kubectl curfew extend job/build -n ci --by 1d

  # Keep all ConfigMaps of a demo until Friday evening
  kubectl curfew extend configmaps -l app=demo --until 'friday 18:00'

  # Two weeks after it finishes, whenever that is
  kubectl curfew extend job/train --to 2w --dry-run=server`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := readTarget(by, until, to, options)
			if err != nil {
				return err
			}
			options.plan = func(subject *change.Subject, _ []policy.Obstacle) (*change.Plan, error) {
				return change.Extend(subject, target)
			}
			return options.run(cmd, args)
		},
		ValidArgsFunction: options.completeObjects(),
	}
	options.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&by, "by", "", "how much longer, such as 1d")
	flags.StringVar(&until, "until", "", "new expiry, such as 'friday 18:00' or 2d")
	flags.StringVar(&to, "to", "", "new TTL after it finishes, such as 2w; from its creation for kinds that do not finish")
	return command
}

func readTarget(by, until, to string, c *changing) (change.Target, error) {
	var out change.Target
	given := 0
	for _, text := range []string{by, until, to} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		return out, errors.New("give one of --by, --until and --to")
	}
	now := c.now()
	var err error
	switch {
	case by != "":
		if out.By, err = policy.ParseDuration(by); err != nil {
			return out, fmt.Errorf("--by=%s: %w", by, err)
		}
		if out.By <= 0 {
			return out, fmt.Errorf("--by=%s: give more than 0", by)
		}
	case to != "":
		if to == "never" {
			return out, errors.New("--to=never: use kubectl curfew keep")
		}
		if out.To, err = policy.ParseDuration(to); err != nil {
			return out, fmt.Errorf("--to=%s: %w", to, err)
		}
		if out.To <= 0 {
			return out, fmt.Errorf("--to=%s: give more than 0, or use expire-now", to)
		}
	default:
		if out.Until, err = moment.Parse(until, now); err != nil {
			return out, fmt.Errorf("--until=%s: %w", until, err)
		}
		if !out.Until.After(now) {
			return out, fmt.Errorf("--until=%s: %s is in the past: give a later time", until, instant(out.Until, now.Location()))
		}
	}
	return out, nil
}
