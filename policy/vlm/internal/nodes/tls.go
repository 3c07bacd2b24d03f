package nodes

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"vagen/internal/regular"
	"vagen/internal/transport"
)

// ErrCertificate is wrapped by errors about TLS: its files, and certificates that are not accepted.
var ErrCertificate = errors.New("TLS")

// TLS names the files, in PEM, with which nodes prove to each other who they are. All are set or none.
type TLS struct {
	Cert    string // this node's certificate, perhaps followed by those between it and the authority
	CertKey string // its key
	CA      string // the authorities that sign the certificates of all nodes
}

// load returns the settings of connections in both directions, nil without files. The certificate
// is checked as the other nodes will.
func (t *TLS) load() (*tls.Config, error) {
	if *t == (TLS{}) {
		return nil, nil
	}
	bad := func(format string, args ...any) (*tls.Config, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrCertificate}, args...)...)
	}
	for _, f := range [][2]string{{"Cert", t.Cert}, {"CertKey", t.CertKey}, {"CA", t.CA}} {
		if f[1] == "" {
			return bad("%s is not set; Cert, CertKey and CA must all be set, or none", f[0])
		}
	}
	raw, err := regular.ReadFile(t.CA)
	if err != nil {
		return bad("CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return bad("CA: %s has no certificate in PEM", t.CA)
	}
	own, err := transport.KeyPair(t.Cert, t.CertKey)
	if err != nil {
		return bad("Cert, CertKey: %w", err)
	}
	between := x509.NewCertPool()
	for _, der := range own.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return bad("Cert: %s: %w", t.Cert, err)
		}
		between.AddCert(c)
	}
	for usage, what := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"} {
		if _, err := own.Leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return bad("Cert: %s is not accepted by CA %s as that of a %s: %w", t.Cert, t.CA, what, err)
		}
	}
	// Both sides are this program, so older versions are not needed.
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own},
		RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// checkHost returns an error unless this node's certificate names the host at which others expect
// it. The last node is not expected: it connects to all others.
func (s *server) checkHost() error {
	if s.secure == nil || s.ID == s.Nodes-1 {
		return nil
	}
	if err := s.secure.Certificates[0].Leaf.VerifyHostname(s.self.Host); err != nil {
		return fmt.Errorf("%w: %w: Cert: %s must name %s, where others reach this node: %w", ErrConfig, ErrCertificate, s.TLS.Cert, s.self.Host, err)
	}
	return nil
}

// explainTLS converts an error of a connection to another node.
func (s *server) explainTLS(err error) error {
	var theirs *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &theirs):
		return fmt.Errorf("%w: its certificate is not accepted by CA %s: %w", ErrCertificate, s.TLS.CA, err)
	case errors.As(err, &plain):
		return fmt.Errorf("%w: Cert is set, but it does not use TLS: %w", ErrCertificate, err)
	case errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"):
		return fmt.Errorf("%w: it does not accept the certificate in Cert, %s: %w", ErrCertificate, s.TLS.Cert, err)
	}
	return err
}
