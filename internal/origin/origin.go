// Package origin keeps credentials of one service from being sent to others. An origin
// is scheme, host and port, as in RFC 6454. All HTTP clients and servers of the module are built here.
package origin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is net/http's own limit.
const maxRedirects = 10

// Errors of the redirect rules.
var (
	ErrRedirects = errors.New("stopped after 10 redirects")
	ErrForeign   = errors.New("a redirect to another scheme, host or port is not followed")
)

// Refused reports whether a request failed because of a redirect that its client does not
// follow. Sending it again would give the same answer.
func Refused(err error) bool { return errors.Is(err, ErrForeign) || errors.Is(err, ErrRedirects) }

// Rule says which redirects a client follows.
type Rule int

// The rules. The zero value is the strictest.
const (
	// None follows no redirect: the answer that redirects is the answer of the request.
	None Rule = iota
	// Stay follows redirects within the origin of the first request; others are ErrForeign.
	Stay
	// KeepKeys follows all redirects, but sends credentials only to the origin of the first
	// request. net/http itself also sends them to subdomains, to other ports and without
	// encryption.
	KeepKeys
)

// Client returns an HTTP client with a rule for redirects. A transport of nil is
// http.DefaultTransport.
func Client(rule Rule, transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: rule.check}
}

// check is a CheckRedirect of http.Client.
func (r Rule) check(next *http.Request, via []*http.Request) error {
	foreign := !Same(next.URL, via[0].URL)
	switch {
	case r != Stay && r != KeepKeys:
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return ErrRedirects
	case r == Stay && foreign:
		return ErrForeign
	case foreign:
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key"} {
			next.Header.Del(name)
		}
	}
	return nil
}

// Same reports whether two addresses have the same scheme, host and port.
func Same(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	switch strings.ToLower(u.Scheme) {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// Unencrypted reports whether requests to an address leave the machine without encryption.
func Unencrypted(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !Loopback(u.Host)
}
