package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
)

// errNotAllowed refuses a client with a valid certificate of another name.
var errNotAllowed = errors.New("this client certificate may not call webhooks")

// RequireClients has a TLS server ask for client certificates of the CAs in a file, with one of the
// common names if any are given. The file is read for each handshake, so that it can be replaced.
func RequireClients(config *tls.Config, caFile string, names []string) (*tls.Config, error) {
	if _, err := clientCAs(caFile); err != nil {
		return nil, err
	}
	inner := config.Clone()
	inner.ClientAuth = tls.RequireAndVerifyClientCert
	inner.VerifyConnection = func(state tls.ConnectionState) error {
		if len(names) == 0 || slices.Contains(names, state.PeerCertificates[0].Subject.CommonName) {
			return nil
		}
		return fmt.Errorf("%w: common name %q is none of %q", errNotAllowed, state.PeerCertificates[0].Subject.CommonName, names)
	}
	outer := config.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cas, err := clientCAs(caFile)
		if err != nil {
			return nil, err
		}
		one := inner.Clone()
		one.ClientCAs = cas
		return one, nil
	}
	return outer, nil
}

func clientCAs(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the CAs of clients: %w", err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return cas, nil
}
