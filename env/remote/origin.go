package remote

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// admissible refuses what web pages of other hosts have a browser send.
func (s *Server) admissible(r *http.Request) error {
	if !s.addressed(r) {
		return fmt.Errorf("remote: Host: %q is not a name of this service", clip(r.Host, 100))
	}
	page := r.Header.Get("Origin")
	if page == "" {
		return nil
	}
	u, err := url.Parse(page)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !s.hosted(u.Hostname()) {
		return fmt.Errorf("remote: Origin: pages of %q may not use this service", clip(page, 100))
	}
	return nil
}

// addressed reports whether the client knows the service by one of its names.
func (s *Server) addressed(r *http.Request) bool {
	name := hostname(r.Host)
	if s.hosted(name) || s.o.APIKey != "" && len(s.o.Hosts) == 0 {
		return true
	}
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch at := at.(type) {
	case *net.UnixAddr: // no browser connects there
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
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}

func (s *Server) hosted(name string) bool {
	return slices.ContainsFunc(s.o.Hosts, func(host string) bool { return strings.EqualFold(host, name) })
}

// hostname drops the port and the brackets of IPv6 addresses.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
