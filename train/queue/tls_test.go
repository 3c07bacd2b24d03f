package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

// issue writes a certificate of a name and its key. Without a parent it is that of an authority.
func issue(t *testing.T, name string, parent *authority) (a authority, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a = authority{key: key, file: filepath.Join(t.TempDir(), name+".pem")}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, BasicConstraintsValid: true,
	}
	if parent == nil {
		about.IsCA, about.KeyUsage, about.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		parent = &authority{cert: about, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, parent.cert, &key.PublicKey, parent.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(raw)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	keyFile = a.file + ".key"
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return a, keyFile
}

// TestEpisodesTravelOverTLS: with the authority of the server's certificate a worker plays;
// without it, and with that of another one, trainers and workers say why they cannot.
func TestEpisodesTravelOverTLS(t *testing.T) {
	ca, _ := issue(t, "authority", nil)
	other, _ := issue(t, "other", nil)
	cert, certKey := issue(t, "server", &ca)
	f := newFixture(t, func(o *Options) { o.Cert, o.CertKey, o.Key = cert.file, certKey, "hunter2hunter2" })
	f.deal(t)
	for _, file := range []string{"", other.file} {
		o := f.workerOptions()
		o.CA = file
		require.ErrorIs(t, Work(t.Context(), o), ErrCertificate, "authority %q", file)
		trainer := f.opts
		trainer.Connection = o.Connection
		_, err := Open(t.Context(), trainer)
		require.ErrorIs(t, err, ErrCertificate)
	}
	o := f.workerOptions()
	o.CA = ca.file
	f.work(t, o)
	f.finish(t)
	trainer := f.opts
	trainer.Connection = o.Connection
	q, err := Open(t.Context(), trainer)
	require.NoError(t, err)
	require.NoError(t, q.Close())
	o.Key = "swordfish"
	require.ErrorIs(t, Work(t.Context(), o), ErrAccess)
	require.False(t, f.log.has("hunter2")())
}

// TestAServerMayAskForTheClientsCertificate: a client without one is refused.
func TestAServerMayAskForTheClientsCertificate(t *testing.T) {
	ca, _ := issue(t, "authority", nil)
	cert, certKey := issue(t, "server", &ca)
	client, clientKey := issue(t, "client", &ca)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	own, err := tls.LoadX509KeyPair(cert.file, certKey)
	require.NoError(t, err)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, TLS: true, TLSTimeout: 5, TLSVerify: true,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool},
	})
	require.NoError(t, err)
	go s.Start()
	defer stop(s)
	require.True(t, s.ReadyForConnections(patience))
	f := newFixture(t, func(o *Options) {
		o.URL, o.CA, o.Cert, o.CertKey = s.ClientURL(), ca.file, client.file, clientKey
	})
	f.start(t)
	o := f.workerOptions()
	require.ErrorIs(t, Work(t.Context(), o), ErrCertificate)
	o.Cert, o.CertKey = client.file, clientKey
	f.work(t, o)
	f.finish(t)
}
