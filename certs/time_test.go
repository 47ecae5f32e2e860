package certs

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Replicas whose clocks differ by years agree by the API server's time: once there is a certificate
// that it takes, no replica writes another.
func TestReplicasWithOtherClocksDoNotFight(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(mutating(DefaultConfiguration), validating(DefaultConfiguration)).Build()
	server := func(context.Context) (time.Time, error) { return epoch, nil }
	var replicas []*SelfSigned
	for _, off := range []time.Duration{0, 365 * 24 * time.Hour, -365 * 24 * time.Hour, 20 * 365 * 24 * time.Hour} {
		replica := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch.Add(off)))
		replica.options.ServerTime = server
		replicas = append(replicas, replica)
	}
	var first []byte
	for round := range 3 {
		for i, replica := range replicas {
			if wait, err := replica.pass(t.Context()); err != nil || wait < calm {
				t.Fatalf("pass of replica %d: %s, %v", i, wait, err)
			}
			secret := &corev1.Secret{}
			must(t, c.Get(t.Context(), replica.secretKey(), secret))
			if first == nil {
				first = secret.Data[keyCA]
			}
			if !bytes.Equal(first, secret.Data[keyCA]) {
				t.Fatalf("round %d: replica %d replaced the certificate", round, i)
			}
			if !replica.Ready() {
				t.Errorf("replica %d is not ready with a certificate that the API server takes", i)
			}
		}
	}
}

// Without the API server's time its last known one counts, and before that the clock.
func TestServerTimeIsRemembered(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	s := newSelfSigned(t, c, clocktesting.NewFakeClock(epoch.Add(time.Hour)))
	err := errors.New("not known")
	s.options.ServerTime = func(context.Context) (time.Time, error) { return epoch, err }
	if s.learnTime(t.Context()); !s.now().Equal(epoch.Add(time.Hour)) {
		t.Errorf("before the first answer: %s", s.now())
	}
	err = nil
	if s.learnTime(t.Context()); !s.now().Equal(epoch) {
		t.Errorf("after an answer: %s", s.now())
	}
	err = errors.New("not known")
	if s.learnTime(t.Context()); !s.now().Equal(epoch) {
		t.Errorf("after a failure: %s", s.now())
	}
}
