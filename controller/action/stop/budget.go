package stop

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withinBudget sends a DELETE if --max-deletions-per-minute has room for it. If not, nothing is
// sent, the step does not hold yet, and the next look tries again.
func (s *stopping) withinBudget(send func() error) (sent bool, err error) {
	settle, ok := func(bool) {}, true
	if s.due.Reserve != nil {
		settle, ok = s.due.Reserve()
	}
	if !ok {
		return false, nil
	}
	if err = send(); err == nil {
		s.deleted++
	}
	// A DELETE without an answer may have been carried out.
	var status apierrors.APIStatus
	settle(err == nil || !errors.As(err, &status))
	return true, err
}
