package origin

import (
	"net"
	"net/netip"
	"strings"
)

// Host drops the port of a host, and the brackets of IPv6 addresses.
func Host(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Loopback reports whether a name of Host is one of this machine alone.
func Loopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.IsLoopback()
}
