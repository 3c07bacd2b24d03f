package transport

import (
	"crypto/tls"

	"vagen/internal/regular"
)

// KeyPair reads a certificate and its key, both in PEM, from regular files.
func KeyPair(cert, key string) (tls.Certificate, error) {
	public, err := regular.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := regular.ReadFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, private)
}
