package queue

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"vagen/internal/testcerts"
)

// TestEpisodesTravelOverTLS: with the authority of the server's certificate a worker plays;
// without it, and with that of another one, trainers and workers say why they cannot.
func TestEpisodesTravelOverTLS(t *testing.T) {
	ca, other := testcerts.Authority(t, "authority"), testcerts.Authority(t, "other")
	cert := ca.Issue(t, "server", nil)
	f := newFixture(t, func(o *Options) { o.Cert, o.CertKey, o.Key = cert.File, cert.KeyFile, "hunter2hunter2" })
	f.deal(t)
	for _, file := range []string{"", other.File} {
		o := f.workerOptions()
		o.CA = file
		require.ErrorIs(t, Work(t.Context(), o), ErrCertificate, "authority %q", file)
		trainer := f.opts
		trainer.Connection = o.Connection
		_, err := Open(t.Context(), trainer)
		require.ErrorIs(t, err, ErrCertificate)
	}
	o := f.workerOptions()
	o.CA = ca.File
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
	ca := testcerts.Authority(t, "authority")
	cert, client := ca.Issue(t, "server", nil), ca.Issue(t, "client", nil)
	pool := x509.NewCertPool()
	authorities, err := os.ReadFile(ca.File)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(authorities))
	own, err := tls.LoadX509KeyPair(cert.File, cert.KeyFile)
	require.NoError(t, err)
	s := serve(t, &server.Options{TLS: true, TLSTimeout: 5, TLSVerify: true, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
	}})
	f := newFixture(t, func(o *Options) {
		o.URL, o.CA, o.Cert, o.CertKey = s.ClientURL(), ca.File, client.File, client.KeyFile
	})
	f.start(t)
	o := f.workerOptions()
	require.ErrorIs(t, Work(t.Context(), o), ErrCertificate)
	o.Cert, o.CertKey = client.File, client.KeyFile
	f.work(t, o)
	f.finish(t)
}
