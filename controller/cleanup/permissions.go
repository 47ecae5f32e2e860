package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"curfew.dev/curfew/policy/v1alpha1"
)

const (
	// permissionsEvery is how often the permissions of a policy are checked between its runs, plus up
	// to a fifth by chance.
	permissionsEvery = 5 * time.Minute
	// lacksMost is how many missing permissions a condition names.
	lacksMost = 3
)

// errDue ends a review of permissions.
var errDue = errors.New("the next run is due")

// review checks the permissions of a policy some minutes after the last time, or after a change. It
// has turns of its own, so that no run waits for it, and ends when the policy's next run is due,
// which checks them itself.
func (c *Controller) review(ctx context.Context, cur *current, left time.Duration) error {
	if !c.permissionsDue(cur) {
		return nil
	}
	cur.turn.end()
	ctx, cancel := context.WithTimeoutCause(ctx, left, errDue)
	defer cancel()
	turn, err := c.reviews.take(ctx, cur.policy.Namespace)
	if err == nil {
		defer turn.end()
		err = c.checkPermissions(ctx, cur)
	}
	switch {
	case err == nil:
		c.permissionsChecked(cur)
	case errors.Is(context.Cause(ctx), errDue):
		return nil
	}
	return err
}

// checkPermissions sets PermissionsGranted between runs, so that a missing permission shows before
// the first night.
func (c *Controller) checkPermissions(ctx context.Context, cur *current) error {
	r, err := c.newRun(cur, &v1alpha1.CleanupRun{})
	if err != nil {
		return err
	}
	r.newSurvey(lacksMost)
	var lacks []string
	if _, err = r.account.Exists(ctx); err == nil {
		lacks, err = r.survey.Open(ctx)
	}
	message := r.mayNot(lacks)
	switch {
	case isForbidden(err):
		message = err.Error()
	case err != nil:
		return err
	}
	after := cur.ledger.status()
	cur.permitted(after, message)
	if equalStatus(after, cur.ledger.status()) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { cur.permitted(s, message) })
}

// permissionsDue reports whether the permissions of a policy should be checked now, because it has
// changed or it was checked some minutes ago.
func (c *Controller) permissionsDue(cur *current) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.checked[cur.policy.UID]
	return !ok || last.generation != cur.policy.Generation || !cur.now.Before(last.until) || cur.now.Before(last.at)
}

func (c *Controller) permissionsChecked(cur *current) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.checked) >= checkedMost {
		clear(c.checked)
	}
	// #nosec G404 -- jitter.
	wait := permissionsEvery + time.Duration(rand.Int64N(int64(permissionsEvery/5)))
	c.checked[cur.policy.UID] = checked{cur.policy.Generation, cur.now, cur.now.Add(wait)}
}

// checked is when the permissions of a generation of a policy were checked, and until when that
// counts.
type checked struct {
	generation int64
	at, until  time.Time
}

// checkedMost bounds how many policies are remembered; those that are gone are among them.
const checkedMost = 10_000

// mayNot says what the account lacks; empty for nothing.
func (r *run) mayNot(lacks []string) string {
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("service account %s may not %s", r.account.Name, strings.Join(lacks[:min(lacksMost, len(lacks))], ", "))
}
