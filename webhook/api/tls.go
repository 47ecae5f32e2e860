package api

import (
	"context"
	"crypto/tls"
	"net/http"
)

// ListenTLS is [Listen] with TLS. The configuration is not changed, and has to have a certificate
// or a way to one.
func ListenTLS(ctx context.Context, address string, handler http.Handler, config *tls.Config) (*Server, error) {
	server, err := Listen(ctx, address, handler)
	if err != nil {
		return nil, err
	}
	server.listener = tls.NewListener(server.listener, config)
	return server, nil
}
