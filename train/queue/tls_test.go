package queue

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// TestEpisodesTravelOverTLS: with the authority of the server's certificate a worker plays;
// without it, and with that of another one, trainers and workers say why they cannot.
func TestEpisodesTravelOverTLS(t *testing.T) {
	ca, other := newAuthority(t, "authority"), newAuthority(t, "other")
	cert := ca.issue(t, "server")
	f := newFixture(t, func(o *Options) { o.Cert, o.CertKey, o.Key = cert.file, cert.keyFile, "hunter2hunter2" })
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
	ca := newAuthority(t, "authority")
	cert, client := ca.issue(t, "server"), ca.issue(t, "client")
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(testkit.Read(t, ca.file)))
	own, err := tls.LoadX509KeyPair(cert.file, cert.keyFile)
	require.NoError(t, err)
	s := serve(t, &server.Options{TLS: true, TLSTimeout: 5, TLSVerify: true, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}})
	f := newFixture(t, func(o *Options) {
		o.URL, o.CA, o.Cert, o.CertKey = s.ClientURL(), ca.file, client.file, client.keyFile
	})
	f.start(t)
	o := f.workerOptions()
	require.ErrorIs(t, Work(t.Context(), o), ErrCertificate)
	o.Cert, o.CertKey = client.file, client.keyFile
	f.work(t, o)
	f.finish(t)
}
