package remote

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/origin"
	"vagen/internal/transport"
)

// checkOrigin refuses requests that web pages of other hosts send through a browser.
func (s *Server) checkOrigin(r *http.Request) error {
	if !s.knownHost(r) {
		return fmt.Errorf("remote: Host: %q is not a host name of this service", transport.Clip(r.Host, 100))
	}
	page := r.Header.Get("Origin")
	if page == "" {
		return nil
	}
	u, err := url.Parse(page)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !s.listedHost(u.Hostname()) {
		return fmt.Errorf("remote: Origin: requests from pages of %q are not allowed", transport.Clip(page, 100))
	}
	return nil
}

// knownHost reports whether the Host header is allowed; see ServerOptions.Hosts.
func (s *Server) knownHost(r *http.Request) bool {
	name := origin.Host(r.Host)
	if s.listedHost(name) || s.o.APIKey != "" && len(s.o.Hosts) == 0 {
		return true
	}
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch at := at.(type) {
	case *net.UnixAddr: // browsers cannot connect to it
		return true
	case *net.TCPAddr:
		if ip, err := netip.ParseAddr(name); err == nil {
			if bound, ok := netip.AddrFromSlice(at.IP); ok && bound.Unmap() == ip.Unmap() {
				return true
			}
		}
		if !at.IP.IsLoopback() {
			return false
		}
	}
	return origin.Loopback(r.Host)
}

func (s *Server) listedHost(name string) bool {
	return slices.ContainsFunc(s.o.Hosts, func(host string) bool { return strings.EqualFold(host, name) })
}
