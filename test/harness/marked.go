package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Detached processes carry this variable, which names the cluster's folder, in their environment.
// The kernel keeps it as long as they live, so that no stale file makes us end a stranger.
const mark = "CURFEW_LOCAL_PROCESS"

// StartDetached starts a webhook and a controller that outlive this process, unless both run
// already.
func (c *Cluster) StartDetached(ctx context.Context) error {
	if len(marked(c.Dir)) == 4 { // Two processes of Curfew, and a shell for each.
		return c.WaitForWebhook(ctx)
	}
	if err := StopDetached(ctx, c.Dir); err != nil {
		return err
	}
	options := CurfewOptions{Detached: true, Env: []string{mark + "=" + c.Dir}}
	if _, err := c.StartWebhook(ctx, options); err != nil {
		return err
	}
	if _, err := c.StartController(ctx, options); err != nil {
		return err
	}
	return c.WaitForWebhook(ctx)
}

// StopDetached ends what StartDetached started for a folder; harmless when nothing runs. What does
// not end on SIGTERM within ten seconds is killed.
func StopDetached(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("make %q absolute: %w", dir, err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, pid := range marked(dir) {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("send %s to process %d: %w", signal, pid, err)
			}
		}
		ended, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := wait.PollUntilContextCancel(ended, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			return len(marked(dir)) == 0, nil
		})
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("processes %v of %s do not end", marked(dir), dir)
}

// marked are the detached processes of a folder. A zombie has no environment any more, and does not
// count.
func marked(dir string) []int {
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil // only a malformed pattern does that
	}
	var found []int
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it ended, or another user runs it
		}
		for variable := range bytes.SplitSeq(data, []byte{0}) {
			if string(variable) == mark+"="+dir {
				if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
					found = append(found, pid)
				}
			}
		}
	}
	return found
}
