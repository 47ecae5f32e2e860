package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
)

// selfSigned writes tls.crt and tls.key for 127.0.0.1 into a folder, as a Secret of type
// kubernetes.io/tls is mounted, and returns the certificate, which is its own authority.
func selfSigned(folder string) ([]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for a certificate: %w", err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return nil, fmt.Errorf("write a certificate: %w", err)
		}
	}
	return certificate, nil
}
