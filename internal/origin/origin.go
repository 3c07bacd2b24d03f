// Package origin keeps credentials of one service from being sent to others. An origin
// is scheme, host and port, as in RFC 6454.
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

// KeepKeys is a CheckRedirect of http.Client that follows redirects, but sends
// credentials only to the origin of the first request. net/http itself also sends them
// to subdomains, to other ports and without encryption.
func KeepKeys(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return ErrRedirects
	}
	if !Same(next.URL, via[0].URL) {
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key"} {
			next.Header.Del(name)
		}
	}
	return nil
}

// Stay is a CheckRedirect of http.Client that follows only redirects within the origin
// of the first request.
func Stay(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return ErrRedirects
	}
	if !Same(next.URL, via[0].URL) {
		return ErrForeign
	}
	return nil
}
