package main

import (
	"context"
	"os/exec"
	"strings"
)

// git runs a command of git in the repository and returns what it prints, without the line's end.
func git(ctx context.Context, root string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// source is the commit of the tree that is measured, with "-dirty" behind it where something is not
// committed, and "unknown" without git.
func (e *environment) source(ctx context.Context) string {
	commit, err := git(ctx, e.root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	if err != nil || commit == "" {
		return "unknown"
	}
	return commit
}
