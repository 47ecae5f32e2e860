package certs

import (
	"context"
	"crypto/tls"
	"errors"
)

var errNoCertificate = errors.New("the webhook has no serving certificate yet")

// Provider supplies the webhook server with its serving certificate. It has the shape of a
// controller-runtime Runnable.
type Provider interface {
	// Start keeps the certificate valid until ctx ends, and then returns nil. It does not give up on
	// errors.
	Start(ctx context.Context) error
	// NeedLeaderElection is false: every replica serves, so every replica needs the certificate.
	NeedLeaderElection() bool
	// Ready reports whether a handshake would succeed now and the API server has been told whom to
	// trust.
	Ready() bool
	// GetCertificate is for tls.Config.GetCertificate. It fails until the first certificate is loaded.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// CABundle returns the PEM certificates that clients have to trust, or nil before the first is
	// loaded.
	CABundle() []byte
}

var _ Provider = (*SelfSigned)(nil)
