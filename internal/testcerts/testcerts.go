// Package testcerts makes authorities and certificates for tests of TLS.
package testcerts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Certificate is a certificate with its key, in PEM files of the test's folder.
type Certificate struct {
	File, KeyFile string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Authority makes the certificate of an authority, signed by itself.
func Authority(t testing.TB, name string) Certificate {
	t.Helper()
	return issue(t, name, nil, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	})
}

// Issue makes a certificate for 127.0.0.1 and localhost, as server and client, that is valid for
// this hour. change, which may be nil, may change that.
func (a *Certificate) Issue(t testing.TB, name string, change func(c *x509.Certificate)) Certificate {
	t.Helper()
	return issue(t, name, a, change)
}

func issue(t testing.TB, name string, by *Certificate, change func(c *x509.Certificate)) Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, BasicConstraintsValid: true,
	}
	if change != nil {
		change(about)
	}
	if by == nil {
		by = &Certificate{cert: about, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, by.cert, &key.PublicKey, by.key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c := Certificate{File: filepath.Join(t.TempDir(), name+".pem"), key: key}
	c.KeyFile = c.File + ".key"
	c.cert, err = x509.ParseCertificate(raw)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	require.NoError(t, os.WriteFile(c.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return c
}
