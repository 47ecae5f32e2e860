package stop

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withinBudget sends a DELETE if --max-deletions-per-minute has room for it. If not, nothing is sent, the
// step does not hold yet, and the next look tries again.
func (s *Stopper) withinBudget(send func() error) (sent bool, err error) {
	if s.options.Reserve == nil {
		return true, send()
	}
	settle, ok := s.options.Reserve()
	if !ok {
		return false, nil
	}
	err = send()
	// A DELETE without an answer may have been carried out.
	var status apierrors.APIStatus
	settle(err == nil || !errors.As(err, &status))
	return true, err
}
