package origin

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Host is a host, or a host with port, without the port and the brackets of IPv6 addresses.
func Host(hostport string) string {
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		return name
	}
	return strings.Trim(hostport, "[]")
}

// Loopback reports whether a host, or a host with port, is localhost in any case or a loopback address.
func Loopback(hostport string) bool {
	name := Host(hostport)
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}

// Local reports whether an address can be reached from this machine only.
func Local(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// Parse parses an address with http or https and a host.
func Parse(address string) (*url.URL, bool) {
	u, err := url.Parse(address)
	return u, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
