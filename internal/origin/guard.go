package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"vagen/internal/transport"
)

// Guard refuses requests that web pages of other hosts send through a browser.
type Guard struct {
	Names []string // hosts that the header Host may have, besides the IP address of the connection and loopback names
	Any   bool     // it may have all, as requests need a key
}

// Check returns an error about a request that is refused.
func (g Guard) Check(r *http.Request) error {
	if !g.knows(r) {
		return fmt.Errorf("header Host: %q is not a host name of this service", transport.Clip(r.Host, 100))
	}
	page := r.Header.Get("Origin")
	if page == "" {
		return nil
	}
	u, err := url.Parse(page)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !g.lists(u.Hostname()) {
		return fmt.Errorf("header Origin: requests of web pages of %q are not allowed", transport.Clip(page, 100))
	}
	return nil
}

// knows reports whether the header Host is allowed. Loopback names are on loopback addresses alone.
func (g Guard) knows(r *http.Request) bool {
	name := Host(r.Host)
	if g.Any || g.lists(name) {
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
	return Loopback(r.Host)
}

func (g Guard) lists(name string) bool {
	return slices.ContainsFunc(g.Names, func(host string) bool { return strings.EqualFold(host, name) })
}
