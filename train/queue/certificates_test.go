package queue

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

// certificate is a certificate with its key, in PEM files of the test's folder.
type certificate struct {
	file, keyFile string
	cert          *x509.Certificate
	key           *ecdsa.PrivateKey
}

// newAuthority makes the certificate of an authority, signed by itself.
func newAuthority(t *testing.T, name string) *certificate { return (*certificate)(nil).issue(t, name) }

// issue makes a certificate for 127.0.0.1 and localhost, as server and client, that is valid for this hour. Without an
// authority it makes that of one.
func (by *certificate) issue(t *testing.T, name string) *certificate {
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
	if by == nil {
		about.IsCA, about.KeyUsage, about.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		by = &certificate{cert: about, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, by.cert, &key.PublicKey, by.key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	c := &certificate{file: filepath.Join(t.TempDir(), name+".pem"), key: key}
	c.keyFile = c.file + ".key"
	c.cert, err = x509.ParseCertificate(raw)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	require.NoError(t, os.WriteFile(c.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return c
}
