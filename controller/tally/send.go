package tally

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"curfew.dev/curfew/controller/deletion"
)

const (
	// maxInFlight bounds the requests of all tallies that are in flight, which are sent in the order in
	// which they were asked for. maxPerTally bounds those of one tally that are in flight or wait, so
	// that a tally with few Pods never waits for all Pods of another.
	maxInFlight = 64
	maxPerTally = 32
	// maxRequest bounds one request, and one write of a status with its conflicts.
	maxRequest = 30 * time.Second
)

type request func(context.Context) error

// sender returns a function that sends the requests of one tally, waits for their answers, and
// returns an error if one failed. It begins no more requests once ctx has ended, or once the API
// server is overloaded, which is the error then.
func sender() func(context.Context, []request) error {
	slots := semaphore.NewWeighted(maxInFlight)
	return func(ctx context.Context, requests []request) error {
		begin, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		var group errgroup.Group
		group.SetLimit(maxPerTally)
		for _, send := range requests {
			group.Go(func() error {
				if slots.Acquire(begin, 1) != nil {
					return nil
				}
				defer slots.Release(1)
				bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxRequest)
				defer cancel()
				err := send(bounded)
				if overloaded(err) {
					stop(err)
				}
				return err
			})
		}
		err := group.Wait()
		if begin.Err() != nil && ctx.Err() == nil {
			return context.Cause(begin)
		}
		return err
	}
}

// overloaded reports whether an error says that fewer requests should be in flight. An admission
// webhook's says nothing about the API server.
func overloaded(err error) bool {
	if out, _ := deletion.FailureOf(err); out.Origin == deletion.FromAdmission {
		return false
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, context.DeadlineExceeded)
}

// refused reports whether an error says that a write has not happened and never will.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTimeout(err)
}
