package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// fieldOwner is the field manager of everything this package writes.
	fieldOwner = "curfew-certs"
	// resync bounds how long a change goes unnoticed where a watch is refused or lost it.
	resync = time.Minute
	// calm is the least time between a change and the pass that it causes, so that a fight over a
	// field with someone else stays cheap.
	calm = time.Second
	// firstRetry and lastRetry bound the wait after a pass that failed.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// SelfSigned is the Provider that needs nothing but a Secret: it is its own CA.
type SelfSigned struct {
	options  Options
	wanted   wanted
	serving  cmapi.CertificateSpec
	injector injector

	// Only passes use these. They outlive the Secret: deleting or damaging it cuts off no API server.
	last    *material
	leaf    *leaf
	trusted trust

	loaded   atomic.Pointer[loaded]
	ahead    atomic.Int64 // by how much the API server's clock is ahead of this one, as far as is known
	injected atomic.Bool  // once is enough: the bundle stays until someone takes it out, and then the API server skips us
}

// loaded is the state that handshakes and CABundle read. A pass replaces it as a whole.
type loaded struct {
	certificate *tls.Certificate
	bundle      []byte
}

// NewSelfSigned validates the options. Nothing is read or written before Start.
func NewSelfSigned(options Options) (*SelfSigned, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, err
	}
	return &SelfSigned{
		options: options,
		wanted: wanted{
			caLifetime:      options.CALifetime,
			servingLifetime: options.ServingLifetime,
			settle:          options.Settle,
		},
		serving:  servingSpec(slices.Clone(options.DNSNames), slices.Clone(options.IPs)),
		injector: injector{client: options.Client, names: slices.Clone(options.Configurations)},
	}, nil
}

// Start runs passes until ctx ends. Errors are logged and retried without end: a certificate that
// cannot be renewed now still works.
func (s *SelfSigned) Start(ctx context.Context) error {
	changes := make(chan struct{}, 1)
	watches := s.watchAll(ctx, func() {
		select {
		case changes <- struct{}{}:
		default: // a pass is already due, and it reads live
		}
	})
	defer watches.Wait()

	failures := 0
	for ctx.Err() == nil {
		wait, err := s.pass(ctx)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil:
			return nil
		default:
			wait = min(firstRetry<<min(failures, 10), lastRetry)
			failures++
			s.report(ctx, err, wait)
		}

		timer := s.options.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-changes: // After a failure, too: the change may have removed its cause.
			s.pause(ctx, calm)
		}
		timer.Stop()
	}
	return nil
}

// pass brings everything in step once and returns how long that should hold. Configurations are
// read first: see the package documentation for why the order matters.
func (s *SelfSigned) pass(ctx context.Context) (time.Duration, error) {
	s.learnTime(ctx)
	configurations, readErr := s.injector.read(ctx)
	if readErr != nil {
		s.trusted = trust{}
	} else {
		s.trusted = s.trusted.observe(configurations, s.now())
	}
	out, err := s.ensure(ctx)
	if err != nil {
		return 0, errors.Join(readErr, err, s.serveLast(ctx))
	}
	s.last = &out.material
	if err := s.serve(ctx, out.material); err != nil {
		return 0, errors.Join(readErr, err)
	}
	if err := errors.Join(readErr, s.injector.inject(ctx, configurations, s.loaded.Load().bundle)); err != nil {
		return 0, err
	}
	s.injected.Store(true)
	due := earliest(out.due, s.leaf.renew)
	if !s.leaf.issuer.Equal(out.material.signing.certificate) {
		due = s.now() // The configurations have just got its CA. The next pass sees it there.
	}
	return max(calm, min(resync, due.Sub(s.now()))), nil
}

// serve issues this replica's certificate if it needs another, and loads it with the bundle.
func (s *SelfSigned) serve(ctx context.Context, m material) error {
	if reason := s.leaf.needed(m.signing.certificate, s.trusted, s.now()); reason != "" {
		issued, err := newLeaf(m.signing, s.serving, s.now(), s.options.ServingLifetime)
		if err != nil {
			return err
		}
		s.leaf = issued
		log.FromContext(ctx).Info("Issued a serving certificate", "reason", reason, "ca", serial(issued.issuer), "until",
			issued.certificate.Leaf.NotAfter)
	}
	s.loaded.Store(&loaded{certificate: s.leaf.certificate, bundle: m.bundle()})
	return nil
}

// serveLast renews the certificate with the last CA while the Secret cannot be read.
func (s *SelfSigned) serveLast(ctx context.Context) error {
	if s.last == nil || !s.now().Before(s.last.signing.certificate.NotAfter) {
		return nil
	}
	return s.serve(ctx, *s.last)
}

// observed gathers the state that plan reads besides the Secret.
func (s *SelfSigned) observed() observed {
	out := observed{last: s.last, trusted: s.trusted}
	if s.leaf != nil {
		out.issuer, out.expires = s.leaf.issuer, s.leaf.certificate.Leaf.NotAfter
	}
	return out
}

// learnTime asks for the API server's time. Without an answer the last one counts.
func (s *SelfSigned) learnTime(ctx context.Context) {
	if s.options.ServerTime == nil {
		return
	}
	t, err := s.options.ServerTime(ctx)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The API server's time is not known", "error", err.Error())
		return
	}
	s.ahead.Store(int64(t.Sub(s.options.Clock.Now())))
}

// now is the API server's time, as far as is known.
func (s *SelfSigned) now() time.Time { return s.options.Clock.Now().Add(time.Duration(s.ahead.Load())) }

func (s *SelfSigned) report(ctx context.Context, err error, wait time.Duration) {
	if apierrors.IsConflict(err) {
		log.FromContext(ctx).V(1).Info("Another replica wrote first, reading again", "after", wait, "error", err.Error())
		return
	}
	log.FromContext(ctx).Error(err, "Keeping webhook certificates failed, will try again", "after", wait)
}

func (s *SelfSigned) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-s.options.Clock.After(d):
	}
}

// NeedLeaderElection is false: every replica serves.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Ready reports whether the serving certificate is valid now and the CA bundle has been injected
// where configurations exist.
func (s *SelfSigned) Ready() bool {
	l := s.loaded.Load()
	return l != nil && s.injected.Load() && s.now().Before(l.certificate.Leaf.NotAfter)
}

// GetCertificate returns the newest serving certificate, for tls.Config.GetCertificate.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := s.loaded.Load()
	if l == nil {
		return nil, errNoCertificate
	}
	return l.certificate, nil
}

// CABundle returns a copy of the PEM certificates to trust: the CA that signs, the next, and those
// that signed until their last certificate ends.
func (s *SelfSigned) CABundle() []byte {
	l := s.loaded.Load()
	if l == nil {
		return nil
	}
	return slices.Clone(l.bundle)
}
