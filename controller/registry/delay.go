package registry

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// newDelay grows to ten seconds and stays there: nothing here is ever given up (S3).
func newDelay() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 1 << 30, Cap: 10 * time.Second}
}
