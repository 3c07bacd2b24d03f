package nodes

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testcerts"
)

// filesOf are the settings of a node with a certificate and an authority.
func filesOf(cert, ca testcerts.Certificate) TLS {
	return TLS{Cert: cert.File, CertKey: cert.KeyFile, CA: ca.File}
}

// TestNodesExchangeOverTLS: each node has a certificate of its own, the last of another host, because
// no other node connects to it.
func TestNodesExchangeOverTLS(t *testing.T) {
	ca := testcerts.Authority(t, "authority")
	elsewhere := func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"elsewhere"} }
	groups, errs := joined(t, 4, func(c *Config) {
		change := map[bool]func(*x509.Certificate){true: elsewhere}[c.ID == 3]
		c.TLS = filesOf(ca.Issue(t, "node", change), ca)
	})
	require.NoError(t, errors.Join(errs...))
	for _, g := range groups {
		for _, l := range g.links {
			if l != nil {
				require.IsType(t, &tls.Conn{}, l.conn)
				require.NotEmpty(t, l.conn.(*tls.Conn).ConnectionState().VerifiedChains, "both sides are verified")
			}
		}
	}
	requireExchange(t, groups)
	cause := errors.New("out of memory")
	errs = all(groups, func(g *Group) error {
		if g.ID() == 1 {
			return g.Fail(cause)
		}
		_, err := g.Gather(t.Context(), nil, 0)
		return err
	})
	for _, node := range []int{0, 2, 3} {
		// A write that is interrupted ends what TLS can send, so that a node may see a closed connection
		// instead of the reason.
		require.True(t, errors.Is(errs[node], ErrFailed) || errors.Is(errs[node], ErrLost), "%v", errs[node])
	}
}

// TestOneSelfSignedCertificateServesAllNodes: it is its own authority. Node 0 is reached by a name.
func TestOneSelfSignedCertificateServesAllNodes(t *testing.T) {
	own := testcerts.Authority(t, "all")
	require.ErrorContains(t, (&Config{Nodes: 2, Coordinator: "a:1", Timeout: 1, TLS: filesOf(own, testcerts.Authority(t, "other"))}).Check(), "is not accepted by CA")
	_, port, err := net.SplitHostPort(freeAddress())
	require.NoError(t, err)
	groups, errs := joined(t, 2, func(c *Config) { c.TLS, c.Coordinator = filesOf(own, own), net.JoinHostPort("localhost", port) })
	require.NoError(t, errors.Join(errs...))
	requireExchange(t, groups)
}

// TestNodesWithAndWithoutTLSRefuseEachOther, each at once and naming the setting.
func TestNodesWithAndWithoutTLSRefuseEachOther(t *testing.T) {
	ca, other := testcerts.Authority(t, "authority"), testcerts.Authority(t, "other")
	for says, files := range map[string][2]TLS{ // of node 0 and node 1
		"it uses TLS, but this node does not: Cert, CertKey and CA must be set on all nodes": {filesOf(ca.Issue(t, "a", nil), ca), {}},
		"Cert is set, but it does not use TLS":                                               {{}, filesOf(ca.Issue(t, "b", nil), ca)},
		"its certificate is not accepted by CA " + other.File:                                {filesOf(ca.Issue(t, "a", nil), ca), filesOf(other.Issue(t, "b", nil), other)},
		"it does not accept the certificate in Cert":                                         {filesOf(ca.Issue(t, "a", nil), ca), trustsBoth(t, ca, other)},
	} {
		_, errs := joined(t, 2, func(c *Config) {
			if c.TLS = files[c.ID]; c.ID == 0 {
				c.Timeout = time.Second
			}
		})
		require.ErrorIs(t, errs[1], ErrCertificate)
		require.ErrorContains(t, errs[1], "connecting to node 0 at ")
		require.ErrorContains(t, errs[1], says)
		require.ErrorContains(t, errs[0], "nodes [1] are missing", "a stranger does not end the group")
	}
}

// trustsBoth is a node that trusts both authorities, but whose certificate is signed by the second one.
func trustsBoth(t *testing.T, ca, other testcerts.Certificate) TLS {
	t.Helper()
	file := filepath.Join(t.TempDir(), "both.pem")
	var all []byte
	for _, c := range []testcerts.Certificate{ca, other} {
		raw, err := os.ReadFile(c.File)
		require.NoError(t, err)
		all = append(all, raw...)
	}
	require.NoError(t, os.WriteFile(file, all, 0o600))
	own := other.Issue(t, "node", nil)
	return TLS{Cert: own.File, CertKey: own.KeyFile, CA: file}
}

// TestStrangersWithoutACertificateAreRefused although they know the token: without a certificate,
// with an expired one, and with one of another authority.
func TestStrangersWithoutACertificateAreRefused(t *testing.T) {
	ca, other := testcerts.Authority(t, "authority"), testcerts.Authority(t, "other")
	expired := ca.Issue(t, "old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	stranger := other.Issue(t, "stranger", nil)
	address := freeAddress()
	first := make(chan error)
	config := Config{Nodes: 2, Coordinator: address, Token: "secret", Timeout: time.Minute, TLS: filesOf(ca.Issue(t, "a", nil), ca)}
	var leader *Group
	go func() {
		var err error
		leader, err = Join(t.Context(), config)
		first <- err
	}()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	for _, c := range []*testcerts.Certificate{nil, &expired, &stranger} {
		settings := &tls.Config{InsecureSkipVerify: true}
		if c != nil {
			own, err := tls.LoadX509KeyPair(c.File, c.KeyFile)
			require.NoError(t, err)
			// Certificates would be left out, because node 0 does not ask for this authority.
			settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
		}
		conn, err := tls.Dial("tcp", address, settings)
		if err == nil {
			io.WriteString(conn, "GET /link?node=1 HTTP/1.1\r\nHost: x\r\nUpgrade: vagen-nodes\r\nAuthorization: Bearer secret\r\n\r\n")
			var got []byte
			got, err = io.ReadAll(conn)
			require.Empty(t, got)
			conn.Close()
		}
		require.Error(t, err)
	}
	config.ID, config.TLS = 1, filesOf(ca.Issue(t, "b", nil), ca)
	node, err := Join(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, <-first)
	node.Close()
	leader.Close()
}

// TestFilesOfTLSAreChecked before a node listens or connects.
func TestFilesOfTLSAreChecked(t *testing.T) {
	ca := testcerts.Authority(t, "authority")
	good := filesOf(ca.Issue(t, "good", nil), ca)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	change := func(f func(x *TLS)) TLS {
		x := good
		f(&x)
		return x
	}
	of := func(f func(c *x509.Certificate)) TLS { return filesOf(ca.Issue(t, "bad", f), ca) }
	check := func(x TLS) error {
		return (&Config{Nodes: 2, Coordinator: "a:1", Timeout: 1, TLS: x}).Check()
	}
	require.NoError(t, check(good))
	for says, x := range map[string]TLS{
		"CertKey is not set; Cert, CertKey and CA must all be set, or none": change(func(x *TLS) { x.CertKey = "" }),
		"CA is not set":                                            change(func(x *TLS) { x.CA = "" }),
		"Cert is not set":                                          {CA: ca.File},
		"CA: open /no/such/file":                                   change(func(x *TLS) { x.CA = "/no/such/file" }),
		"CA: " + empty + " has no":                                 change(func(x *TLS) { x.CA = empty }),
		"Cert, CertKey: open /no/such/file: no such file":          change(func(x *TLS) { x.Cert = "/no/such/file" }),
		"Cert, CertKey: open /no/such/key: no such file":           change(func(x *TLS) { x.CertKey = "/no/such/key" }),
		"Cert, CertKey: tls: failed to find any PEM data in certi": change(func(x *TLS) { x.Cert = empty }),
		"Cert, CertKey: tls: private key does not match":           change(func(x *TLS) { x.CertKey = ca.KeyFile }),
		"certificate has expired or is not yet valid":              of(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"certificate has expired or is not yet valid: current":     of(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }),
		"as that of a client: ":                                    of(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }),
		"as that of a server: ":                                    of(func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }),
	} {
		err := check(x)
		require.ErrorIs(t, err, ErrCertificate)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, says)
	}
	_, err := Join(t.Context(), Config{Nodes: 2, Coordinator: freeAddress(), Timeout: time.Minute, TLS: of(func(c *x509.Certificate) { c.IPAddresses = nil })})
	require.ErrorIs(t, err, ErrCertificate)
	require.ErrorContains(t, err, "must name 127.0.0.1, where others reach this node: x509: ")
}
