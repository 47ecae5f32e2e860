package builders

import (
	"time"
	"unsafe"
)

// Slept returns a reading of the clock as it was before the machine slept for whole seconds: the
// wall clock went on, and the monotonic clock stood still. The reading needs a monotonic time.
func Slept(reading time.Time, d time.Duration) time.Time {
	// Package time keeps the seconds of the wall clock from bit 30 on.
	*(*uint64)(unsafe.Pointer(&reading)) -= uint64(d/time.Second) << 30
	return reading
}
