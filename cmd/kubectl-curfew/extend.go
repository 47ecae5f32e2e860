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
		Long: `Let objects live longer: by a length of time, until a time, or with another TTL.

What is written is the value that decides, where it stands: the TTL label, the
annotation or the kind's own field; where a namespace or policy decides, an
annotation. It never shortens a life; --to gives a TTL to what has none. What
bounds refuse is said before anything is sent, and each object is changed in
exactly the state that was looked at.`,
		Example: `  # A day more for one Job
  kubectl curfew extend job/build -n ci --by 1d

  # All that is labelled app=demo stays until Friday evening
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
	flags.StringVar(&until, "until", "", "until when, such as 'friday 18:00' or 2d")
	flags.StringVar(&to, "to", "", "its TTL after it finishes, such as 2w; for kinds that do not finish, from its creation")
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
			return out, errors.New("--to=never: use kubectl curfew cancel")
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
			return out, fmt.Errorf("--until=%s: that was at %s: give a time to come", until, instant(out.Until, now.Location()))
		}
	}
	return out, nil
}
